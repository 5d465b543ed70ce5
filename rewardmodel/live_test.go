package rewardmodel

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"assay/rewardmodel/logistic"
	"assay/segmenter"
)

// However a response is cut, a session returns the result of Score, and its events are
// the results of the utterances so far, except that a whole text may raise the violation of
// one. LIVE_CUTS sets how many responses are cut for each model.
func TestLiveEqualsScore(t *testing.T) {
	rounds := 750
	if given, err := strconv.Atoi(os.Getenv("LIVE_CUTS")); err == nil {
		rounds = given
	}
	for _, aspects := range []int{1, 3} {
		for _, whole := range []int{0, 80} {
			t.Run(fmt.Sprintf("%d aspects, %d whole characters", aspects, whole), func(t *testing.T) {
				checkLiveEqualsScore(t, rounds, aspects, whole)
			})
		}
	}
}

func checkLiveEqualsScore(t *testing.T, rounds, aspects, whole int) {
	t.Helper()
	m := &liveModel{aspects: aspects}
	s := liveScorer(t, m, func(c *ScorerConfig) { c.MaxInstances, c.WholeCharacters = 9, whole })
	random := rand.New(rand.NewPCG(7, uint64(aspects)))
	stops, resets, raised := 0, 0, 0
	for range rounds {
		text, o := randomText(random), randomOptions(random, aspects)
		prompt := []string{"", "Why?", "Why?<think>\n"}[random.IntN(3)]
		most := []int{1, 5, 40, 400}[random.IntN(4)]
		provisional := []int{0, 0, MinProvisional}[random.IntN(3)]
		name := fmt.Sprintf("%q (prompt %q) with %+v in pieces of up to %d", text, prompt, o, most)

		l, err := s.Live(t.Context(), LiveRequest{ID: "x", Prompt: prompt, Options: o, Provisional: provisional})
		require.NoError(t, err)
		events, got := feedAll(t, l, text, func() int { return 1 + random.IntN(most) })
		want, err := s.Score(t.Context(), Request{Responses: []Item{{ID: "x", Prompt: prompt, Response: &text}}, Options: o})
		require.NoError(t, err)
		got.TimingMS, want.TimingMS = Timing{}, Timing{}
		require.Equal(t, want, got, name)

		stopped := false
		for _, e := range events {
			if e.Reset {
				stopped = false
				resets++
				continue
			}
			require.False(t, stopped && !e.Stop, "%s: stop is taken back", name)
			stopped = e.Stop
		}
		result := got.Results[0]
		if stopped {
			stops++
			require.False(t, result.Compliant, name)
		}
		kept := settled(events)
		require.Len(t, kept, len(result.Instances), name)
		var texts []string
		exact := true // no whole text has raised a violation
		for i, e := range kept {
			require.Equal(t, i, e.Utterance.Index, name)
			require.Equal(t, [2]int{result.Instances[i].Start, result.Instances[i].End}, [2]int{e.Utterance.Start, e.Utterance.End}, name)
			texts = append(texts, text[e.Utterance.Bytes-byteLength(text, e):e.Utterance.Bytes])
			so, err := s.Score(t.Context(), Request{Responses: []Item{{Prompt: prompt, Instances: texts}}, Options: o})
			require.NoError(t, err)
			r := so.Results[0]
			wants := []any{r.Violation, r.Reward, r.Compliant, r.Instances[i].Violation}
			gots := []any{e.Violation, e.Reward, e.Compliant, e.Utterance.Violation}
			if whole > 0 && exact && !slices.Equal(wants, gots) {
				exact = false
				raised++
			}
			if exact {
				require.Equal(t, wants, gots, name)
			}
		}
	}
	t.Logf("%d of %d sessions stopped, %d resets, a whole raised %d", stops, rounds, resets, raised)
	require.Equal(t, whole > 0, raised > 0)
}

// byteLength is the length of the text of an utterance in the response: in it, an invalid
// byte is one byte, and in the event it is the three of U+FFFD.
func byteLength(text string, e LiveEvent) int {
	n := 0
	for _, r := range e.Utterance.Text {
		if n++; r != '\uFFFD' {
			n += len(string(r)) - 1
		}
	}
	return n
}

// Stop is true only if no continuation is compliant.
func TestLiveStopIsFinal(t *testing.T) {
	random := rand.New(rand.NewPCG(11, 12))
	margin := func() float32 {
		return []float32{-100, -5, -1, 0, 0.5, 1, 3, 6, 100, float32(random.NormFloat64())}[random.IntN(10)]
	}
	stops := map[Aggregate]int{}
	for range 60000 {
		room := 1 + random.IntN(8)
		o := Options{Aggregate: Aggregates()[random.IntN(4)], TopK: new(1 + random.IntN(4))}.withDefaults()
		c := combiner{combination: Combinations()[random.IntN(3)]}
		for a := range 1 + random.IntN(3) {
			on := scale{threshold: []float64{0, 0.1, 0.5, 0.8, 0.99, random.Float64()}[random.IntN(6)]}
			if o.Aggregate == AggregateMax {
				on.lengthSlope = float64(random.IntN(3))
			}
			c.scales = append(c.scales, on)
			c.weights = append(c.weights, float64((a+1)%2+random.IntN(2)))
		}
		v := verdict{scores: make([]runningScore, len(c.scales))}
		for a := range v.scores {
			v.scores[a] = newRunningScore(o)
		}
		stopped := false
		for i := range room {
			margins := make([]float32, len(c.scales))
			for a := range margins {
				if margins[a] = margin(); stopped && random.IntN(2) == 0 {
					margins[a] = -100
				}
			}
			v.add(c, o.Reward, margins, room-i-1)
			if v.stop && !stopped {
				stops[o.Aggregate]++
			}
			if stopped = v.stop; stopped && v.compliant {
				t.Fatalf("%s, %+v: compliant after a stop", o.Aggregate, c)
			}
		}
		if !stopped && !v.compliant {
			t.Fatalf("%s, %+v: no stop at the last utterance of a response that violates", o.Aggregate, c)
		}
	}
	for _, a := range Aggregates() {
		if stops[a] == 0 {
			t.Errorf("%s never stops", a)
		}
	}
}

// A running score is the aggregate of the instances so far.
func TestRunningScore(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 3))
	for range 3000 {
		o := Options{Aggregate: Aggregates()[random.IntN(4)], TopK: new(1 + random.IntN(5))}.withDefaults()
		r := newRunningScore(o)
		var margins []float32
		for range 1 + random.IntN(12) {
			margins = append(margins, float32(random.NormFloat64()*40))
			copied := r.clone()
			copied.add(7)
			if got, want := r.add(margins[len(margins)-1]), aggregate(o.Aggregate, *o.TopK, margins); got != want {
				t.Fatalf("%s of %v: got %+v, want %+v", o.Aggregate, margins, got, want)
			}
		}
	}
}

// A session has the model read no more than Score does, also of texts that are read as a
// whole. A model that reads prompts reads the prompt again for each Feed that completes
// utterances.
func TestLiveTokens(t *testing.T) {
	const promptTokens = 10
	for name, c := range map[string]struct {
		whole, context int
	}{"utterances": {}, "whole texts": {whole: 80}, "prompts": {context: promptTokens}, "both": {80, promptTokens}} {
		t.Run(name, func(t *testing.T) {
			random := rand.New(rand.NewPCG(3, 9))
			live, score := 0, 0
			for range 200 {
				text := strings.ReplaceAll(randomText(random), "</think>", "")
				m := &liveModel{aspects: 1}
				s := liveScorer(t, m, func(cfg *ScorerConfig) { cfg.WholeCharacters, cfg.ContextTokens = c.whole, c.context })
				prompt := strings.Repeat("why ", c.context)
				_, err := s.Score(t.Context(), Request{Responses: []Item{{Prompt: prompt, Response: &text}}})
				require.NoError(t, err)
				once := m.tokens
				m.tokens, m.calls = 0, 0
				l, err := s.Live(t.Context(), LiveRequest{Prompt: prompt})
				require.NoError(t, err)
				feedAll(t, l, text, func() int { return 1 + random.IntN(9) })
				require.Equal(t, LiveTokens{Settled: m.tokens}, l.Tokens())
				if c.context == 0 {
					require.Equal(t, once, m.tokens, "%q", text)
				}
				require.LessOrEqual(t, m.tokens, once+m.calls*(promptTokens+words{}.Special()), "%q", text)
				live, score = live+m.tokens, score+once
			}
			t.Logf("%d tokens, %.2f times as many as Score", live, float64(live)/float64(score))
		})
	}
}

func TestLiveReset(t *testing.T) {
	m := &liveModel{aspects: 1}
	l, err := liveScorer(t, m, nil).Live(t.Context(), LiveRequest{})
	require.NoError(t, err)
	steps := []struct {
		text string
		want []string // utterances, or the index of a reset
	}{
		{"The user asks. <think>hm</think>", []string{"The user asks."}},
		{"I quote it.\n\n<think>more</think>\n", []string{"I quote it."}},
		{"Not this `</think>`.\n", nil},
		{"But this.<think></think></think>", []string{"Not this `</think>`.", "But this."}},
	}
	for _, step := range steps {
		events, err := l.Feed(t.Context(), step.text)
		require.NoError(t, err)
		var got []string
		for _, e := range events {
			got = append(got, e.Utterance.Text)
			require.False(t, e.Reset)
		}
		if step.want != nil {
			require.Equal(t, step.want, got)
		}
	}
}

// What was scored before a stray closing tag is void, and what was scored before an
// earlier block of reasoning is not.
func TestLiveResetKeepsEarlierParts(t *testing.T) {
	s := liveScorer(t, &liveModel{aspects: 1}, nil)
	l, err := s.Live(t.Context(), LiveRequest{Provisional: MinProvisional})
	require.NoError(t, err)
	events, err := l.Feed(t.Context(), "A first answer.<think>x</think>no answer with a good many more words than eight of them")
	require.NoError(t, err)
	require.NotEmpty(t, events)
	require.Equal(t, "A first answer.", events[0].Utterance.Text)
	require.True(t, events[len(events)-1].Utterance.Provisional)
	before := events[0]
	events, err = l.Feed(t.Context(), " yet</think>\n")
	require.NoError(t, err)
	require.Equal(t, []LiveEvent{{Reset: true, Utterance: LiveUtterance{Index: 1}}}, events)
	require.Equal(t, before.Violation, l.verdict.violation)
	events, answer, err := l.Close(t.Context())
	require.NoError(t, err)
	require.Empty(t, events)
	require.Len(t, answer.Results[0].Instances, 1)
}

// Reasoning that the prompt opened is not scored before it is known where it ends.
func TestLivePromptOpensReasoning(t *testing.T) {
	for _, end := range []string{"", "</think>An answer."} {
		s := liveScorer(t, &liveModel{aspects: 1}, nil)
		l, err := s.Live(t.Context(), LiveRequest{Prompt: "Why?\n<think>\n", Provisional: MinProvisional})
		require.NoError(t, err)
		events, err := l.Feed(t.Context(), "They are awful. They are really awful, I think. So a b c d e f g h i j.\n\n")
		require.NoError(t, err)
		require.Empty(t, events)
		_, err = l.Feed(t.Context(), end)
		require.NoError(t, err)
		_, answer, err := l.Close(t.Context())
		require.NoError(t, err)
		want := 4
		if end != "" {
			want = 1
		}
		require.Len(t, answer.Results[0].Instances, want)
	}
}

// With ReasoningSkipOpened, neither a closing tag nor the prompt makes text reasoning.
func TestLiveSkipsOpenedBlocks(t *testing.T) {
	s := liveScorer(t, &liveModel{aspects: 1}, nil)
	l, err := s.Live(t.Context(), LiveRequest{Prompt: "Why?<think>", Options: Options{Reasoning: ReasoningSkipOpened}})
	require.NoError(t, err)
	events, err := l.Feed(t.Context(), "They are awful. I think so.</think>")
	require.NoError(t, err)
	require.NotEmpty(t, events)
	more, answer, err := l.Close(t.Context())
	require.NoError(t, err)
	events = append(events, more...)
	require.Equal(t, "They are awful.", events[0].Utterance.Text)
	for _, e := range events {
		require.False(t, e.Reset)
	}
	require.Len(t, answer.Results[0].Instances, len(events))
}

func TestLiveErrors(t *testing.T) {
	m := &liveModel{aspects: 1}
	s := liveScorer(t, m, nil)
	for field, r := range map[string]LiveRequest{
		"model":              {Model: "v2"},
		"options.reward":     {Options: Options{Reward: "x"}},
		"options.weights":    {Options: Options{Weights: map[string]float64{"b": 1}}},
		"options.tokenizer":  {Options: Options{Dense: DenseLast, Tokenizer: "gpt"}},
		"options.dense":      {Options: Options{Dense: DenseLast}},
		"provisional_tokens": {Provisional: 1},
	} {
		_, err := s.Live(t.Context(), r)
		var input *InputError
		require.True(t, errors.As(err, &input), "%s: %v", field, err)
		require.Equal(t, field, input.Field)
	}

	l, err := s.Live(t.Context(), LiveRequest{})
	require.NoError(t, err)
	require.NotEmpty(t, l.ID())
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = l.Feed(ctx, "a")
	require.ErrorIs(t, err, context.Canceled)
	_, err = l.Feed(t.Context(), "b") // it has failed
	require.ErrorIs(t, err, context.Canceled)

	m.err = errors.New("no memory")
	l, err = s.Live(t.Context(), LiveRequest{})
	require.NoError(t, err)
	_, err = l.Feed(t.Context(), "A. <think>")
	require.ErrorIs(t, err, ErrModel)
	_, _, err = l.Close(t.Context())
	require.ErrorIs(t, err, ErrModel)
	m.err = nil

	l, err = s.Live(t.Context(), LiveRequest{})
	require.NoError(t, err)
	_, _, err = l.Close(t.Context())
	require.NoError(t, err)
	_, err = l.Feed(t.Context(), "a")
	require.Error(t, err)
}

// The result of a session is observed once, as that of a request.
func TestLiveIsObserved(t *testing.T) {
	var observed, hooked []string
	s := liveScorer(t, &liveModel{aspects: 1}, func(c *ScorerConfig) {
		c.Observer = observerFunc(func(r Request, a ScoreResponse, o []Observation) {
			require.Equal(t, a.Results[0].Reward, o[0].Compliance)
			observed = append(observed, r.Source+" "+*r.Responses[0].Response+" "+a.Results[0].ID)
		})
	})
	l, err := s.Live(t.Context(), LiveRequest{ID: "x", Source: "http", Scored: func(_ context.Context, r Request, a ScoreResponse) {
		hooked = append(hooked, *r.Responses[0].Response+" "+a.Results[0].ID)
	}})
	require.NoError(t, err)
	_, err = l.Feed(t.Context(), "It rained. <think>")
	require.NoError(t, err)
	require.Empty(t, observed)
	_, _, err = l.Close(t.Context())
	require.NoError(t, err)
	require.Equal(t, []string{"http It rained. <think> x"}, observed)
	require.Equal(t, []string{"It rained. <think> x"}, hooked)
}

type observerFunc func(Request, ScoreResponse, []Observation)

func (f observerFunc) Observe(r Request, a ScoreResponse, o []Observation) { f(r, a, o) }

// The memory of a session is charged as it grows, and beyond the limit it fails.
func TestLiveMemory(t *testing.T) {
	memory, err := NewMemory(1<<20, nil)
	require.NoError(t, err)
	held := memory.Open()
	defer held.Close()
	l, err := liveScorer(t, &liveModel{aspects: 1}, nil).Live(t.Context(), LiveRequest{Memory: held})
	require.NoError(t, err)
	for range 1 << 20 {
		if _, err = l.Feed(t.Context(), "word word word "); err != nil {
			break
		}
	}
	var input *InputError
	require.True(t, errors.As(err, &input), "%v", err)
	require.Equal(t, KindTooLarge, input.Kind)
	require.Less(t, l.text.Len(), 1<<20)
}

// The memory of tokenizing the response for dense rewards is charged meanwhile.
func TestLiveMemoryOfPolicyTokens(t *testing.T) {
	memory, err := NewMemory(1<<20, nil)
	require.NoError(t, err)
	held := memory.Open()
	defer held.Close()
	var during int64
	s := liveScorer(t, &liveModel{aspects: 1}, func(c *ScorerConfig) {
		c.PolicyTokenizers = map[string]PolicyTokenizer{"p": policyFunc(func() { during = held.held })}
	})
	l, err := s.Live(t.Context(), LiveRequest{Memory: held, Options: Options{Dense: DenseLast, Tokenizer: "p"}})
	require.NoError(t, err)
	text := strings.Repeat("It rained. ", 100)
	_, err = l.Feed(t.Context(), text)
	require.NoError(t, err)
	before := held.held
	_, _, err = l.Close(t.Context())
	require.NoError(t, err)
	require.GreaterOrEqual(t, during, before+textWork(text))
	require.Less(t, held.held, during)
}

// policyFunc is called by a policy tokenizer whose tokens are words.
type policyFunc func()

func (f policyFunc) OffsetsContext(ctx context.Context, text string) ([]segmenter.Span, error) {
	f()
	return fields{}.OffsetsContext(ctx, text)
}

// The shape of the event is complete: a field that nobody sets would be missed here.
func TestLiveEventFields(t *testing.T) {
	s := liveScorer(t, &liveModel{aspects: 1}, func(c *ScorerConfig) {
		c.Aspects[0].Thresholds = map[Aggregate]float64{AggregateMax: 0}
	})
	l, err := s.Live(t.Context(), LiveRequest{})
	require.NoError(t, err)
	events, err := l.Feed(t.Context(), "é It rained.<think>")
	require.NoError(t, err)
	require.Len(t, events, 1)
	e := events[0]
	require.Equal(t, LiveUtterance{Start: 0, End: 12, Bytes: 13, Text: "é It rained.", Violation: e.Violation, Violating: true}, e.Utterance)
	require.True(t, e.Stop)
	require.False(t, e.Compliant)
}

// A known limit of utterances makes Stop true where the threshold grows with their number.
func TestLiveMaxUtterances(t *testing.T) {
	stop := func(threshold float64, request LiveRequest) LiveEvent {
		s := liveScorer(t, &liveModel{aspects: 1}, func(c *ScorerConfig) {
			c.Aspects[0].Thresholds = map[Aggregate]float64{AggregateMax: threshold}
			c.Aspects[0].LengthSlope = 1
		})
		l, err := s.Live(t.Context(), request)
		require.NoError(t, err)
		events, err := l.Feed(t.Context(), "It rained. And")
		require.NoError(t, err)
		require.Len(t, events, 1)
		return events[0]
	}
	below := logistic.Sigmoid(logistic.Logit(stop(0.5, LiveRequest{}).Violation) - 1) // exceeded by up to e utterances
	for most, want := range map[int]bool{0: false, 1: true, 2: true, 3: false, 1 << 20: false} {
		require.Equal(t, want, stop(below, LiveRequest{MaxUtterances: most}).Stop, "%d utterances", most)
	}
	_, err := liveScorer(t, &liveModel{aspects: 1}, nil).Live(t.Context(), LiveRequest{MaxUtterances: -1})
	var input *InputError
	require.ErrorAs(t, err, &input)
	require.Equal(t, "max_utterances", input.Field)
}

// Verdicts come while the response is written, a few characters after the end of an
// utterance.
func TestLiveReportsEarly(t *testing.T) {
	l, err := liveScorer(t, &liveModel{aspects: 1}, nil).Live(t.Context(), LiveRequest{})
	require.NoError(t, err)
	const first, second = "It rained all day.", "They are awful."
	text, at := first+" "+second+" And then we", map[int]int{}
	for i := range len(text) {
		events, err := l.Feed(t.Context(), text[i:i+1])
		require.NoError(t, err)
		for _, e := range events {
			at[e.Utterance.Bytes] = i
		}
	}
	require.Len(t, at, 2)
	for end, i := range at {
		require.LessOrEqual(t, i-end, 8, "the verdict on the text up to byte %d came at byte %d", end, i)
	}
}

// Hostile text in pieces of one byte takes linear time and charges bounded memory.
func TestLiveHostileText(t *testing.T) {
	if testing.Short() {
		t.Skip("feeds megabytes")
	}
	const size = 1 << 17
	for name, text := range map[string]string{
		"never an end":    strings.Repeat("a ", size/2),
		"one word":        strings.Repeat("a", size),
		"blank":           strings.Repeat(" ", size),
		"not UTF-8":       strings.Repeat("\xe4\xbd", size/2),
		"stray tags":      strings.Repeat("A b.\n</think>", size/13),
		"empty blocks":    strings.Repeat("<think></think>", size/15),
		"one fence":       "```\n<think>" + strings.Repeat("a\n", size/2),
		"many utterances": strings.Repeat("No!\n", size/4),
		"characters":      strings.Repeat("👍🏽", size/8),
	} {
		for _, provisional := range []int{0, MinProvisional} {
			memory, err := NewMemory(1<<30, nil)
			require.NoError(t, err)
			held := memory.Open()
			m := &liveModel{aspects: 1}
			s := liveScorer(t, m, func(c *ScorerConfig) { c.MaxLength = 128; c.MaxQueueTokens = 1 << 30 })
			l, err := s.Live(t.Context(), LiveRequest{Provisional: provisional, Memory: held, Options: Options{Aggregate: AggregateTopK, TopK: new(1 << 20)}})
			require.NoError(t, err)
			start := time.Now()
			_, got := feedAll(t, l, text, func() int { return 1 })
			took := time.Since(start)
			require.Less(t, took, 10*time.Second, name)
			require.Less(t, held.held, int64(200*size), name)
			held.Close()
			want, err := s.Score(t.Context(), Request{Responses: []Item{{ID: l.ID(), Response: &text}}, Options: l.request.Options})
			require.NoError(t, err)
			require.Equal(t, want.Results, got.Results, name)
			t.Logf("%s, provisional %d: %v, %d tokens of open utterances", name, provisional, took, l.Tokens().Provisional)
		}
	}
}
