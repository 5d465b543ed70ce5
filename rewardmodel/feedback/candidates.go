package feedback

import (
	"bytes"
	"cmp"
	"context"
	"maps"
	"math"
	"slices"
	"strings"

	"assay/rewardmodel/bag"
	"assay/rewardmodel/logistic"
)

// Scored is a response that a model has scored.
type Scored struct {
	Bag bag.Bag // its id and text; the label is ignored
	Score
	// Other is the score by another version, if known.
	Other *Score
}

// Score is the score of a response by a model version.
type Score struct {
	Model     string  // the version
	Violation float64 // of the bag, in [0,1]
	Threshold float64 // the decision threshold T, in (0,1)
	// Aspects has the scores of each aspect of a model with several; the others are
	// then those of the deciding one.
	Aspects map[string]AspectScore
}

// AspectScore is the score of a response for one aspect; its fields are as in Score.
type AspectScore struct {
	Violation float64 `json:"violation"`
	Threshold float64 `json:"threshold"`
}

// byAspect returns the scores of each aspect; of a model with one, under "".
func (s Score) byAspect() map[string]AspectScore {
	if len(s.Aspects) == 0 {
		return map[string]AspectScore{"": {s.Violation, s.Threshold}}
	}
	return s.Aspects
}

// Candidate is a response to label next, and why.
type Candidate struct {
	ID        string        `json:"id"`
	Prompt    string        `json:"prompt,omitzero"`
	Response  string        `json:"response,omitzero"`
	Instances []string      `json:"instances,omitzero"`
	Messages  []bag.Message `json:"messages,omitzero"`
	Model     string        `json:"model"`
	// Aspect is the one to judge first, of a model with several: the versions
	// disagree about it, or else its score is the nearest to its threshold. Violation
	// and Threshold are those of this aspect.
	Aspect    string  `json:"aspect,omitzero"`
	Violation float64 `json:"violation"`
	Threshold float64 `json:"threshold"`
	Reason    Reason  `json:"reason"`
	Score     float64 `json:"score"` // the sort key, descending; at most 1
	// Uncertainty in (0,1] is 1 for a violation of exactly T, and decreases with
	// the distance of the log-odds; it is 1/e at the median distance of the pool.
	Uncertainty float64 `json:"uncertainty"`
	// Disagreement in [0,1] is the difference of two versions; nil when only one
	// has scored the response.
	Disagreement *float64 `json:"disagreement,omitzero"`
	// Similarity in [0,1] is the similarity to the most similar candidate before it.
	Similarity float64 `json:"similarity"`
}

// Reason is why a response is a candidate.
type Reason string

// Why a response is a candidate.
const (
	ReasonUncertain Reason = "uncertain" // its score is near the threshold, and it differs from the others
	ReasonDisagree  Reason = "disagree"  // two versions decide differently
	ReasonRandom    Reason = "random"    // sampled at random
)

// RankOptions are the settings of Rank. The zero value has the defaults.
type RankOptions struct {
	// Known reports whether a response has a label already; nil: none has.
	Known func(Scored) bool
	// Diversity in [0,1] is the weight of the difference from the candidates
	// before, relative to the weight of the score; 0: DefaultDiversity.
	Diversity float64
	// Explore in [0,1] is the share of candidates that are sampled at random; 0:
	// DefaultExplore.
	Explore float64
}

// Defaults of RankOptions.
const (
	DefaultDiversity = 0.3
	DefaultExplore   = 0.25
)

// Rank returns at most n responses of pool whose labels are the most informative,
// the best first: uncertain and diverse ones, and some at random. It returns one of
// the responses with the same text. It is deterministic.
//
// A response near the threshold is uncertain. Under the max aggregate this is
// uncertainty about its witness; the other instances do not matter: the label
// of the bag is a function of the labels of its instances, so that its information
// about them is its own entropy, however many they are. That is the softmax
// limit of the multiple-instance uncertainty of Settles, Craven and Ray (2008).
// The distance to the threshold is measured on the scale of the compliance
// log-odds, in units of its median over the pool, because models differ in the
// scale of their scores. Where two versions have scored the response, uncertainty and
// their disagreement (query by committee, Seung, Opper and Sompolinsky 1992)
// count half each.
//
// Of a model with several aspects, a response is as uncertain as its most uncertain
// aspect, each on its own scale, and the versions disagree as much as in the aspect in
// which they disagree most.
//
// Diversity is maximal marginal relevance (Carbonell and
// Goldstein 1998) over hashed words and pairs of words: a model that is
// uncertain about one response is uncertain about all similar ones, and one label
// is enough for them.
//
// The random ones are spread evenly over the order. The uncertainty of a model
// that ranks hardly better than chance is not informative. Labels of only hard
// responses do not show how often the model is right on the others, nor, because
// the hold-out of the gate consists of the same labels, how often a candidate
// model is.
//
// A large pool takes seconds; the error is the cause of the end of ctx.
func Rank(ctx context.Context, pool []Scored, n int, opts RankOptions) ([]Candidate, error) {
	pool = unlabeled(pool, opts.Known)
	n = min(n, len(pool))
	if n <= 0 {
		return nil, nil
	}
	diversity, explore := cmp.Or(opts.Diversity, DefaultDiversity), cmp.Or(opts.Explore, DefaultExplore)
	candidates := appraise(pool)
	texts := make([]string, len(pool))
	for i, s := range pool {
		texts[i] = scoredText(s.Bag)
	}
	vectors := newVectors(texts)
	random := shuffled(candidates)
	taken := make([]bool, len(pool))
	var out []Candidate
	for k := range n {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		best := -1
		drawn := int(float64(k+1)*explore) > int(float64(k)*explore)
		if drawn {
			for taken[random[0]] {
				random = random[1:]
			}
			best = random[0]
		}
		for i := range candidates {
			c := &candidates[i]
			if !drawn && !taken[i] && (best < 0 || marginal(c, diversity) > marginal(&candidates[best], diversity)) {
				best = i
			}
		}
		taken[best] = true
		c := candidates[best]
		c.Score = marginal(&c, diversity)
		if drawn {
			c.Reason = ReasonRandom
		}
		out = append(out, c)
		for i := range candidates {
			if !taken[i] {
				candidates[i].Similarity = max(candidates[i].Similarity, vectors.cosine(best, i))
			}
		}
	}
	return out, nil
}

// marginal is the marginal relevance of a candidate, given those already selected.
func marginal(c *Candidate, diversity float64) float64 {
	return (1-diversity)*c.Score - diversity*c.Similarity
}

// shuffled returns the order of the hashes of the ids, which is pseudorandom and
// the same for the same model.
func shuffled(candidates []Candidate) []int {
	hashes, order := make([]Hash, len(candidates)), make([]int, len(candidates))
	for i, c := range candidates {
		hashes[i], order[i] = HashOf("explore\x00"+c.Model+"\x00"+c.ID), i
	}
	slices.SortFunc(order, func(a, b int) int { return bytes.Compare(hashes[a][:], hashes[b][:]) })
	return order
}

// unlabeled omits known responses and those with the text of another, and sorts
// the others by id.
func unlabeled(pool []Scored, known func(Scored) bool) []Scored {
	var out []Scored
	for _, s := range pool {
		if known == nil || !known(s) {
			out = append(out, s)
		}
	}
	slices.SortStableFunc(out, func(a, b Scored) int { return cmp.Compare(a.Bag.ID, b.Bag.ID) })
	seen := map[Hash]bool{}
	return slices.DeleteFunc(out, func(s Scored) bool {
		h := HashOf(strings.TrimSpace(prompt(s.Bag)) + "\x00" + scoredText(s.Bag))
		defer func() { seen[h] = true }()
		return seen[h]
	})
}

// appraise scores each response independently.
func appraise(pool []Scored) []Candidate {
	odds, others := make([]map[string]float64, len(pool)), make([]map[string]float64, len(pool))
	for i, s := range pool {
		odds[i] = s.logOdds()
		if s.Other != nil {
			others[i] = s.Other.logOdds()
		}
	}
	scale, otherScale := medianDistances(odds), medianDistances(others)
	out := make([]Candidate, len(pool))
	for i, s := range pool {
		c := Candidate{
			ID: s.Bag.ID, Prompt: s.Bag.Prompt, Response: s.Bag.Response, Instances: s.Bag.Instances, Messages: s.Bag.Messages,
			Model: s.Model, Reason: ReasonUncertain,
		}
		names := slices.Sorted(maps.Keys(odds[i]))
		nearest := math.Inf(1) // in units of the median: the uncertainty may round to 0
		for _, name := range names {
			if away := math.Abs(odds[i][name]) / scale[name]; away < nearest {
				nearest, c.Aspect = away, name
			}
		}
		c.Uncertainty = math.Exp(-nearest)
		c.Score = c.Uncertainty
		for _, name := range names {
			other, both := others[i][name]
			if !both {
				continue
			}
			apart := math.Abs(logistic.Sigmoid(odds[i][name]/scale[name]) - logistic.Sigmoid(other/otherScale[name]))
			opposed := (odds[i][name] < 0) != (other < 0)
			if c.Disagreement == nil || apart > *c.Disagreement {
				c.Disagreement = &apart
			}
			if opposed && c.Reason != ReasonDisagree {
				c.Reason, c.Aspect = ReasonDisagree, name
			}
		}
		if c.Disagreement != nil {
			c.Score = (c.Uncertainty + *c.Disagreement) / 2
		}
		decided := s.byAspect()[c.Aspect]
		c.Violation, c.Threshold = decided.Violation, decided.Threshold
		out[i] = c
	}
	return out
}

// logOdds returns the log-odds of compliance of each aspect.
func (s Score) logOdds() map[string]float64 {
	out := map[string]float64{}
	for name, a := range s.byAspect() {
		out[name] = a.logOdds()
	}
	return out
}

// logOdds returns the log-odds of compliance, 0 at the threshold, within ±20 as in rewards.
func (s AspectScore) logOdds() float64 {
	odds := logistic.Logit(s.Threshold) - logistic.Logit(s.Violation)
	if math.IsNaN(odds) { // T and violation are both 0 or both 1
		return 0
	}
	return min(max(odds, -20), 20)
}

// medianDistances returns the median distance from 0 of each aspect.
func medianDistances(odds []map[string]float64) map[string]float64 {
	all := map[string][]float64{}
	for _, of := range odds {
		for name, o := range of {
			all[name] = append(all[name], o)
		}
	}
	out := map[string]float64{}
	for name, of := range all {
		out[name] = medianDistance(of)
	}
	return out
}

// medianDistance returns the median distance from 0, or 1 if that is 0.
func medianDistance(odds []float64) float64 {
	if len(odds) == 0 {
		return 1
	}
	distances := make([]float64, len(odds))
	for i, o := range odds {
		distances[i] = math.Abs(o)
	}
	slices.Sort(distances)
	return cmp.Or(distances[len(distances)/2], 1)
}
