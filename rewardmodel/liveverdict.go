package rewardmodel

import "slices"

// verdict is what is known about a response whose utterances are added one by one. Its
// fields are as in LiveEvent.
type verdict struct {
	violation, reward float64
	compliant, stop   bool
	decides           int // the aspect that the violation is of
	scores            []runningScore
}

// emptyVerdict is that of a response without text.
func (s *Scorer) emptyVerdict(c combiner, o Options) verdict {
	v := verdict{scores: make([]runningScore, s.aspects())}
	for a := range v.scores {
		v.scores[a] = newRunningScore(o)
	}
	v.decides, v.reward = c.empty(o.Reward, s.config.EmptyReward)
	v.violation = c.scales[v.decides].emptyScore(s.config.EmptyReward).violation
	v.compliant = s.config.EmptyReward >= 0.5
	return v
}

// clone returns a copy that further utterances of v do not change.
func (v verdict) clone() verdict {
	v.scores = slices.Clone(v.scores)
	for a := range v.scores {
		v.scores[a] = v.scores[a].clone()
	}
	return v
}

// add adds an utterance, after which at most more follow.
func (v *verdict) add(c combiner, kind Reward, margins []float32, more int) {
	scores := make([]bagScore, len(margins))
	for a, m := range margins {
		scores[a] = v.scores[a].add(m)
	}
	v.decides = c.deciding(scores)
	v.violation = scores[v.decides].violation
	v.compliant = v.violation <= c.scales[v.decides].thresholdOf(scores[v.decides])
	v.reward = c.reward(kind, scores)
	v.stop = v.stop || v.final(c, more)
}

// violates reports whether the utterance that was added last is above the threshold by
// itself, for an aspect that counts.
func (v *verdict) violates(c combiner, margins []float32) bool {
	for a, m := range margins {
		if c.weights[a] > 0 && Violation(m) > c.scales[a].thresholdOf(v.scores[a].last) {
			return true
		}
	}
	return false
}

// final reports whether the response is not compliant whatever the next utterances are,
// at most more. A threshold grows with the number of utterances, so that the one of all
// of them is the largest.
func (v *verdict) final(c combiner, more int) bool {
	for a := range v.scores {
		s := &v.scores[a]
		longest := bagScore{instances: s.last.instances + more}
		if c.weights[a] > 0 && s.minimum(more) > c.scales[a].thresholdOf(longest) {
			return true
		}
	}
	return false
}
