package rewardmodel

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"assay/segmenter"
)

func spans(pairs ...[2]int) []segmenter.Span {
	out := make([]segmenter.Span, len(pairs))
	for i, p := range pairs {
		out[i] = segmenter.Span{Start: p[0], End: p[1]}
	}
	return out
}

// Two instances, [0,10) and [11,20): compliant at first, and then not.
func TestDense(t *testing.T) {
	a := scoredResponse{reward: 0.25, clean: 1, instances: spans([2]int{0, 10}, [2]int{11, 20}), prefixes: []float64{0.75, 0.25}, witness: 1}
	whole := spans([2]int{0, 5}, [2]int{5, 10}, [2]int{10, 15}, [2]int{15, 20}, [2]int{0, 0})
	for _, test := range []struct {
		name   string
		mode   Dense
		gamma  float64
		tokens []segmenter.Span
		want   []float64
	}{
		{"last", DenseLast, 1, whole, []float64{0, 0, 0, 0.25, 0}},
		{"instance", DenseInstance, 1, whole, []float64{0, 0.75, 0, -0.5, 0}},
		{"witness", DenseWitness, 1, whole, []float64{0, 0, 0.125, 0.125, 0}},
		{"shaped", DenseShaped, 1, whole, []float64{0, -0.25, 0, 0.5, 0}},
		{"shaped, discounted", DenseShaped, 0.5, whole, []float64{0, -0.125, 0.125, 0.5, 0}},
		{"no tokens", DenseShaped, 1, nil, []float64{}},
		{"all empty", DenseInstance, 1, spans([2]int{0, 0}, [2]int{20, 20}), []float64{0, 0.25}},
		{"all empty, shaped", DenseShaped, 0.5, spans([2]int{0, 0}, [2]int{20, 20}), []float64{0, 0.25}},
		{"cut short", DenseInstance, 1, spans([2]int{0, 5}, [2]int{5, 9}), []float64{0, 0.25}},
		{"cut short, witness", DenseWitness, 1, spans([2]int{0, 5}, [2]int{5, 9}), []float64{0, 0.25}},
		{"late", DenseInstance, 1, spans([2]int{0, 0}, [2]int{12, 15}, [2]int{15, 20}), []float64{0, 0.75, -0.5}},
		{"late, witness", DenseWitness, 1, spans([2]int{20, 21}, [2]int{21, 22}), []float64{0.25, 0}},
		{"a token over the seam", DenseInstance, 1, spans([2]int{0, 9}, [2]int{9, 12}, [2]int{12, 20}), []float64{0, 0.75, -0.5}},
		{"one token", DenseShaped, 0.9, spans([2]int{0, 20}), []float64{0.25}},
		{"tokens that share a character", DenseInstance, 1, spans([2]int{0, 9}, [2]int{9, 10}, [2]int{9, 10}, [2]int{9, 10}, [2]int{10, 20}), []float64{0, 0, 0, 0.75, -0.5}},
	} {
		got := a.tokenRewards(test.mode, test.gamma, test.tokens)
		if len(got) != len(test.want) {
			t.Errorf("%s: got %v, want %v", test.name, got, test.want)
			continue
		}
		for i := range got {
			if math.Abs(got[i]-test.want[i]) > 1e-15 {
				t.Errorf("%s: got %v, want %v", test.name, got, test.want)
				break
			}
		}
	}
	empty := scoredResponse{reward: 0.5, clean: 1, witness: -1}
	for _, mode := range []Dense{DenseLast, DenseInstance, DenseWitness, DenseShaped} {
		if got := empty.tokenRewards(mode, 0.5, whole); !slices.Equal(got, []float64{0, 0, 0, 0.5, 0}) {
			t.Errorf("%s of an empty response: got %v", mode, got)
		}
	}
}

func TestPrefixScoresAreThoseOfTheAggregate(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	for range 300 {
		margins := make([]float32, 1+random.IntN(40))
		for i := range margins {
			margins[i] = float32(random.NormFloat64() * math.Pow(10, random.Float64()*4-2))
			if i > 0 && random.IntN(4) == 0 {
				margins[i] = margins[i-1]
			}
		}
		k := 1 + random.IntN(6)
		for _, kind := range Aggregates() {
			for i, got := range prefixScores(kind, k, margins) {
				want := aggregate(kind, k, margins[:i+1])
				if math.Abs(got.violation-want.violation) > 1e-14 || math.Abs(got.margin-want.margin) > 1e-12*(1+math.Abs(want.margin)) {
					t.Fatalf("%s, k %d, first %d of %v: got %+v, want %+v", kind, k, i+1, margins, got, want)
				}
			}
		}
	}
}

// Instances that do not change the reward get exactly none of it.
func TestPrefixRewardsEndInTheReward(t *testing.T) {
	on := scale{threshold: 0.3}
	combine := combiner{CombineMin, []scale{on}, []float64{1}}
	for _, kind := range Aggregates() {
		margins := []float32{-1, 2, 0.5, 1, -3, -4, -5}
		reward := on.reward(RewardCompliance, aggregate(kind, 3, margins))
		got := combine.prefixRewards(RewardCompliance, [][]bagScore{prefixScores(kind, 3, margins)}, reward)
		if got[6] != reward {
			t.Errorf("%s: the last is %v, the reward %v", kind, got[6], reward)
		}
		if same := got[5] == reward; same != (kind == AggregateMax || kind == AggregateTopK) {
			t.Errorf("%s: got %v", kind, got)
		}
	}
}

// pieces returns the parts of random responses and tokens.
func pieces() []string {
	return []string{"Good day.", " ", "\n", "Fool!", "naïve", "👩‍👩‍👧", "é", "e\u0301", "中文。", "Is it? ", "\U0001F600", "a", ".", "  ", "No. "}
}

// randomTokens splits a text into tokens at random characters, with empty tokens,
// tokens that share a character, gaps, and sometimes without the end.
func randomTokens(random *rand.Rand, text string, unit OffsetUnit) [][2]int {
	var bounds []segmenter.Span
	for i := range text + "." {
		bounds = append(bounds, segmenter.Span{Start: i, End: i})
	}
	at := unit.Convert(text, bounds)
	tokens := [][2]int{}
	limit := len(at) - 1
	if random.IntN(3) == 0 {
		limit = random.IntN(limit + 1)
	}
	for i := 0; i < limit; {
		end := min(i+1+random.IntN(4), limit)
		switch random.IntN(8) {
		case 0:
			tokens = append(tokens, [2]int{0, 0})
		case 1:
			tokens = append(tokens, [2]int{at[i].Start, at[i+1].Start}) // and again
		case 2:
			i = end
			continue // a gap
		}
		tokens = append(tokens, [2]int{at[i].Start, at[end].Start})
		i = end
	}
	for random.IntN(3) == 0 {
		n := at[random.IntN(len(at))].Start
		tokens = append(tokens, [2]int{n, n})
	}
	return tokens
}

// For any response, tokens, scale and aggregate, the token rewards sum to the reward of
// the response, and discounted shaped ones to the discounted reward of DenseLast.
func TestTokenRewardsSumUp(t *testing.T) {
	aspects := oneAspect(
		map[Aggregate]float64{AggregateMax: 0.6, AggregateTopK: 0.5, AggregateNoisyOr: 0.9, AggregateMean: 0.2},
		Calibration{AggregateMean: calibrations()[1], AggregateTopK: calibrations()[2]},
	)
	aspects[0].LengthSlope = 0.8
	s := newScorer(t, ScorerConfig{Aspects: aspects, EmptyReward: 0.25}, modelFunc(hashMargins))
	random := rand.New(rand.NewPCG(5, 6))
	for range 400 {
		units := []OffsetUnit{OffsetCodepoint, OffsetUTF8, OffsetUTF16}
		o := Options{
			Reward:     []Reward{RewardCompliance, RewardLogit, RewardRaw}[random.IntN(3)],
			Aggregate:  Aggregates()[random.IntN(4)],
			OffsetUnit: units[random.IntN(3)], TopK: new(1 + random.IntN(4)),
		}
		req := Request{Options: o}
		for range 4 {
			var text strings.Builder
			for range random.IntN(30) {
				text.WriteString(pieces()[random.IntN(len(pieces()))])
			}
			req.Responses = append(req.Responses, Item{Response: new(text.String()), TokenOffsets: randomTokens(random, text.String(), o.OffsetUnit)})
		}
		for _, mode := range []Dense{DenseLast, DenseInstance, DenseWitness, DenseShaped} {
			for _, gamma := range []float64{1, 0.9} {
				req.Options.Dense, req.Options.Gamma = mode, &gamma
				response, err := s.Score(t.Context(), req)
				if err != nil {
					t.Fatalf("%+v: %v", req, err)
				}
				for i, r := range response.Results {
					checkTokenRewards(t, req.Options, req.Responses[i], r)
				}
			}
		}
	}
}

func checkTokenRewards(t *testing.T, o Options, item Item, r Result) {
	t.Helper()
	if r.TokenRewards == nil || len(r.TokenRewards) != len(item.TokenOffsets) || r.TokenOffsets != nil {
		t.Fatalf("%d rewards of %d tokens, offsets %v", len(r.TokenRewards), len(item.TokenOffsets), r.TokenOffsets)
	}
	if len(r.TokenRewards) == 0 {
		return
	}
	gamma, want := 1.0, r.Reward
	if o.Dense == DenseShaped {
		gamma = *o.Gamma
		last := len(item.TokenOffsets) - 1
		for i, token := range item.TokenOffsets {
			if token[0] < token[1] {
				last = i
			}
		}
		want *= math.Pow(gamma, float64(last))
	}
	sum, weight := 0.0, 1.0
	for _, x := range r.TokenRewards {
		sum += weight * x
		weight *= gamma
	}
	if math.Abs(sum-want) > 1e-9 {
		t.Fatalf("%+v of %q, tokens %v: %v sum to %v, want %v", o, *item.Response, item.TokenOffsets, r.TokenRewards, sum, want)
	}
}

// Token rewards are the same with a tokenizer and with its offsets.
func TestTokensOfATokenizer(t *testing.T) {
	s := newScorer(t, ScorerConfig{PolicyTokenizers: map[string]PolicyTokenizer{"fields": fields{}}}, modelFunc(hashMargins))
	for _, unit := range []OffsetUnit{OffsetCodepoint, OffsetUTF8, OffsetUTF16} {
		req := responses("Good 😀 day. You fool! Fine.", "", "é")
		req.Options = Options{Dense: DenseInstance, Tokenizer: "fields", OffsetUnit: unit}
		made, err := s.Score(t.Context(), req)
		if err != nil {
			t.Fatal(err)
		}
		for i, r := range made.Results {
			if r.TokenOffsets == nil || len(r.TokenOffsets) != len(r.TokenRewards) {
				t.Errorf("%s: offsets %v, rewards %v", unit, r.TokenOffsets, r.TokenRewards)
			}
			req.Responses[i].TokenOffsets = r.TokenOffsets
		}
		given, err := s.Score(t.Context(), req) // an item's own offsets take precedence
		if err != nil {
			t.Fatal(err)
		}
		for i, r := range given.Results {
			if !slices.Equal(r.TokenRewards, made.Results[i].TokenRewards) || r.TokenOffsets != nil {
				t.Errorf("%s: got %+v, want the rewards of %+v", unit, r, made.Results[i])
			}
		}
	}
	req := responses("a")
	req.Options = Options{Dense: DenseLast, Tokenizer: "other"}
	if _, err := s.Score(t.Context(), req); err == nil || !strings.Contains(err.Error(), `options.tokenizer: unknown tokenizer "other"; use one of "fields"`) {
		t.Errorf("an unknown tokenizer: got %v", err)
	}
}

// fields is a tokenizer with one token per word.
type fields struct{}

func (fields) OffsetsContext(ctx context.Context, text string) ([]segmenter.Span, error) {
	var out []segmenter.Span
	at := 0
	for word := range strings.FieldsSeq(text) {
		at += strings.Index(text[at:], word)
		out = append(out, segmenter.Span{Start: at, End: at + len(word)})
		at += len(word)
	}
	return out, ctx.Err()
}

func BenchmarkDense(b *testing.B) {
	random := rand.New(rand.NewPCG(7, 8))
	const instances, tokens = 4096, 32768
	margins := make([]float32, instances)
	a := scoredResponse{witness: 7, instances: make([]segmenter.Span, instances)}
	for i := range margins {
		margins[i] = float32(random.NormFloat64())
		a.instances[i] = segmenter.Span{Start: 32 * i, End: 32*i + 31}
	}
	offsets := make([]segmenter.Span, tokens)
	for i := range offsets {
		offsets[i] = segmenter.Span{Start: 4 * i, End: 4*i + 4}
	}
	combine := combiner{CombineMin, []scale{{threshold: 0.5}}, []float64{1}}
	for _, kind := range Aggregates() {
		for _, k := range []int{3, instances} {
			if k > 3 && kind != AggregateTopK {
				continue
			}
			b.Run(fmt.Sprintf("%s/k=%d", kind, k), func(b *testing.B) {
				for b.Loop() {
					a.prefixes = combine.prefixRewards(RewardCompliance, [][]bagScore{prefixScores(kind, k, margins)}, 0.5)
					a.tokenRewards(DenseShaped, 0.99, offsets)
				}
			})
		}
	}
}
