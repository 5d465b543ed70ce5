package train

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"assay/rewardmodel"
	"assay/rewardmodel/logistic"
)

// shared is a learner with several aspects on one layer, small enough for tests: each token has a value, which
// training shares, and each aspect a bias and a weight for each token.
type shared struct {
	linear
	heads    [][]float64 // [aspect][token]
	coupling float64     // of the margins to what is shared
	batches  [][]rewardmodel.Sequence
}

func newShared(aspects int) *shared {
	l := &shared{linear: *newLinear(), coupling: 0.3}
	for range aspects {
		l.heads = append(l.heads, make([]float64, vocab))
	}
	return l
}

// trunk is the part of the margins that all aspects share.
func (l *shared) trunk(id int32) float64 { return l.Weights[id][0] }

func (l *shared) Logits(batch []rewardmodel.Sequence) ([][]float32, error) {
	out := make([][]float32, len(batch))
	for i, s := range batch {
		for _, head := range l.heads {
			sum := 0.0
			for _, id := range append(slices.Clone(s.IDs), s.Context...) {
				sum += head[id] + l.coupling*l.trunk(id)
			}
			out[i] = append(out[i], float32(sum), 0)
		}
	}
	return out, nil
}

func (l *shared) Step(batch []rewardmodel.Sequence, lr float64, loss Loss) (float64, error) {
	l.count()
	l.batches = append(l.batches, batch)
	logits, _ := l.Logits(batch)
	value, grad := loss(logits)
	for i, s := range batch {
		for a, head := range l.heads {
			for _, id := range s.IDs {
				head[id] -= lr * float64(grad[i][2*a])
				l.Weights[id][0] -= l.coupling * lr * float64(grad[i][2*a])
			}
		}
	}
	return value, nil
}

// twoAspects returns bags whose violations of the first aspect hold badToken, and of the second otherToken, and the
// labels of both.
func twoAspects(n, sigma int) (first, second *Data) {
	first, _ = syntheticBags(n, sigma)
	second = &Data{Bags: slices.Clone(first.Bags)}
	rng := rand.New(rand.NewPCG(8, 8))
	for i := range second.Bags {
		b := &second.Bags[i]
		for _, seq := range b.Instances {
			for k, id := range seq {
				if id == otherToken {
					seq[k]++
				}
			}
		}
		if b.Violation = rng.IntN(2) == 0; b.Violation {
			b.Instances[rng.IntN(len(b.Instances))][0] = otherToken
		}
	}
	return first, second
}

const otherToken = badToken + 5

// aspectAUROC is the AUROC of the bags of data by the scores of an aspect.
func aspectAUROC(t *testing.T, l Learner, aspect int, data *Data) float64 {
	t.Helper()
	scores, err := BFGPU{}.Score(&Network{Data: data, ctx: t.Context(), learner: aspectLearner{l, aspect}})
	require.NoError(t, err)
	return auroc(data, scores)
}

// Aspects that are labeled on the same bags cost the steps of one, and learn what each learns alone.
func TestAspectsShareTheirSteps(t *testing.T) {
	first, second := twoAspects(120, 4)
	for _, name := range []string{"bfgpu", "mil-max", "nnpu", "robustpu"} {
		m, err := NewMethod(name, Settings{})
		require.NoError(t, err)
		both := newShared(2)
		results, err := RunAspects(t.Context(), both, []*Data{first, second}, testConfig(m))
		require.NoError(t, err)
		for a, data := range []*Data{first, second} {
			alone := newShared(1)
			_, err := Run(t.Context(), alone, data, testConfig(m))
			require.NoError(t, err)
			want, got := aspectAUROC(t, alone, 0, data), aspectAUROC(t, both, a, data)
			require.GreaterOrEqual(t, got, want-0.03, "%s: aspect %d", name, a)
			require.Greater(t, got, 0.9, "%s: aspect %d", name, a)
			require.Len(t, results[a].Scores, len(data.Bags))
			require.InDelta(t, alone.steps, both.steps, 0.1*float64(alone.steps), "%s: a step each", name)
		}
		require.NotEqual(t, results[0].Thresholds, results[1].Thresholds)
		for _, batch := range both.batches {
			seen := map[sameSequence]bool{}
			for _, s := range batch {
				require.False(t, seen[identity(s)], "a sequence is computed twice in a step")
				seen[identity(s)] = true
			}
		}
	}
}

// Bags that are labeled for one aspect train that one, and the steps of a rare aspect are spread over the epoch.
func TestAspectsOfDifferentBags(t *testing.T) {
	first, second := twoAspects(160, 4)
	first.Bags, second.Bags = first.Bags[:240], second.Bags[240:]
	l := newShared(2)
	cfg := testConfig(DefaultBFGPU())
	var steps []int
	cfg.Report = func(p Progress) { steps = append(steps, p.Step) }
	_, err := RunAspects(t.Context(), l, []*Data{first, second}, cfg)
	require.NoError(t, err)
	require.Greater(t, aspectAUROC(t, l, 0, first), 0.9)
	require.Greater(t, aspectAUROC(t, l, 1, second), 0.9)
	require.True(t, slices.IsSorted(steps))
	late := map[*int32]bool{}
	for _, batch := range l.batches[len(l.batches)*9/10:] {
		for _, s := range batch {
			late[&s.IDs[0]] = true
		}
	}
	require.True(t, slices.ContainsFunc(second.Bags, func(b Bag) bool { return late[&b.Instances[0][0]] }))
}

// An aspect without labels stays as it was.
func TestAspectWithoutLabelsIsKept(t *testing.T) {
	first, second := twoAspects(120, 4)
	trained := newShared(2)
	trained.coupling = 3
	_, err := RunAspects(t.Context(), trained, []*Data{first, second}, testConfig(DefaultBFGPU()))
	require.NoError(t, err)
	before := aspectAUROC(t, trained, 1, second)
	margins := func() (out []float64) {
		scores, err := BFGPU{}.Score(&Network{Data: second, ctx: t.Context(), learner: aspectLearner{trained, 1}})
		require.NoError(t, err)
		for _, s := range scores {
			out = append(out, logistic.Sigmoid(s.Bag))
		}
		return out
	}
	was := margins()
	for i := range first.Bags { // the opposite rule for the first aspect, which moves what both share
		first.Bags[i].Violation = !second.Bags[i].Violation
	}
	results, err := RunAspects(t.Context(), trained, []*Data{first, nil}, testConfig(DefaultBFGPU()))
	require.NoError(t, err)
	require.Nil(t, results[1].Scores)
	require.NotEmpty(t, results[0].Scores)
	require.InDelta(t, before, aspectAUROC(t, trained, 1, second), 0.01)
	moved := 0.0
	for i, m := range margins() {
		moved += math.Abs(m-was[i]) / float64(len(was))
	}
	require.Less(t, moved, 0.1, "the mean change of its violations, 0.23 if nothing kept it")
}

// A run of several aspects that was interrupted ends with the weights of one that was not.
func TestAspectsResume(t *testing.T) {
	run := func(l *shared, dir string, ctx context.Context) error {
		first, second := twoAspects(40, 3)
		cfg := testConfig(DefaultBFGPU())
		cfg.Epochs, cfg.State = 3, dir
		_, err := RunAspects(ctx, l, []*Data{first, second}, cfg)
		return err
	}
	whole := newShared(2)
	require.NoError(t, run(whole, "", t.Context()))
	ctx, cancel := context.WithCancel(t.Context())
	dir, stopped := t.TempDir(), newShared(2)
	stopped.stopAt, stopped.cancel = whole.steps/2, cancel
	require.ErrorIs(t, run(stopped, dir, ctx), context.Canceled)
	again := newShared(2)
	again.heads = stopped.heads // the state of shared holds only the trunk
	require.NoError(t, run(again, dir, t.Context()))
	require.Less(t, again.steps, whole.steps)
}

// The failure of a step ends the epochs of all aspects.
func TestAspectsFailTogether(t *testing.T) {
	first, second := twoAspects(40, 3)
	for want, fail := range map[string]error{"out of memory": errors.New("out of memory"), "bfgpu loss of step 3 is not finite": ErrNotFinite} {
		l := &failing{shared: newShared(2), at: 3, err: fail}
		_, err := RunAspects(t.Context(), l, []*Data{first, second}, testConfig(DefaultBFGPU()))
		require.ErrorContains(t, err, want)
	}
	var diverged *DivergedError
	_, err := RunAspects(t.Context(), &failing{shared: newShared(2), at: 3, value: math.NaN()}, []*Data{first, second}, testConfig(DefaultBFGPU()))
	require.ErrorAs(t, err, &diverged)
	require.Equal(t, 3, diverged.Step)
	require.Positive(t, diverged.Rate)
	_, err = RunAspects(t.Context(), newShared(2), []*Data{nil, nil}, testConfig(DefaultBFGPU()))
	require.ErrorIs(t, err, ErrData)
	_, err = RunAspects(t.Context(), newShared(2), []*Data{first, second}, testConfig(wholeBags{}))
	require.ErrorContains(t, err, "trains a single aspect")
}

type failing struct {
	*shared
	at    int
	value float64 // of the loss
	err   error
}

func (l *failing) Step(batch []rewardmodel.Sequence, lr float64, loss Loss) (float64, error) {
	if l.steps+1 == l.at {
		return l.value, l.err
	}
	return l.shared.Step(batch, lr, loss)
}

// A share of the bags is trained on without its context, another one in each epoch.
func TestContextIsHiddenAtRandom(t *testing.T) {
	data, _ := syntheticBags(100, 3)
	for i := range data.Bags {
		for range data.Bags[i].Instances {
			data.Bags[i].Contexts = append(data.Bags[i].Contexts, []int32{int32(i % vocab)})
		}
	}
	for _, hide := range []float64{0, 0.5, 1} {
		l := newShared(1)
		cfg := testConfig(DefaultBFGPU())
		cfg.HideContext, cfg.Epochs = hide, 2
		_, err := Run(t.Context(), l, data, cfg)
		require.NoError(t, err)
		with, without, seen := 0, 0, map[*int32]map[bool]bool{}
		for _, batch := range l.batches {
			for _, s := range batch {
				if seen[&s.IDs[0]] == nil {
					seen[&s.IDs[0]] = map[bool]bool{}
				}
				seen[&s.IDs[0]][s.Context != nil] = true
				if s.Context != nil {
					with++
				} else {
					without++
				}
			}
		}
		require.InDelta(t, hide, float64(without)/float64(with+without), 0.08)
		if hide == 0.5 {
			both := 0
			for _, s := range seen {
				both += len(s) - 1
			}
			require.InDelta(t, 0.5, float64(both)/float64(len(seen)), 0.15)
		}
	}
}

// A bag is computed once in each epoch, whichever aspects it is labeled for.
func TestUnionOfAspectsIsComputedOnce(t *testing.T) {
	all, other := twoAspects(60, 3)
	first, second := &Data{Bags: all.Bags[:80]}, &Data{Bags: other.Bags[40:]}
	for _, name := range []string{"mil-max", "nnpu"} {
		m, err := NewMethod(name, Settings{})
		require.NoError(t, err)
		l, cfg := newShared(2), testConfig(m)
		cfg.Epochs = 1
		_, err = RunAspects(t.Context(), l, []*Data{first, second}, cfg)
		require.NoError(t, err)
		seen := map[sameSequence]int{}
		for _, batch := range l.batches {
			for _, s := range batch {
				seen[identity(s)]++
			}
		}
		require.Len(t, seen, all.instances(), name)
		for _, n := range seen {
			require.Equal(t, 1, n, name)
		}
	}
}

func (d *Data) instances() (n int) {
	for _, b := range d.Bags {
		n += len(b.Instances)
	}
	return n
}

// auroc is the probability that a violating bag scores above a compliant one.
func auroc(d *Data, scores []Score) float64 {
	var above, pairs float64
	for i, a := range d.Bags {
		for k, b := range d.Bags {
			if !a.Violation || b.Violation {
				continue
			}
			pairs++
			switch {
			case scores[i].Bag > scores[k].Bag:
				above++
			case scores[i].Bag == scores[k].Bag:
				above += 0.5
			}
		}
	}
	return above / pairs
}
