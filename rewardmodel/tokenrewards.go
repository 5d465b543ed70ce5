package rewardmodel

import "assay/segmenter"

// Dense names how the reward of a response is laid out over its tokens.
type Dense string

// The layouts of a dense reward. For all of them the rewards of the tokens sum
// up to the reward of the response; for DenseShaped that holds with gamma 1.
//
// A step of the policy is a token, an empty one such as a special token as well,
// and the episode ends with the last token that is not empty: what comes after
// gets 0. With T the number of steps up to there, R the reward of the response
// and gamma below 1, the discounted sum of DenseShaped is gamma^(T-1) R, as that
// of DenseLast.
const (
	// DenseLast puts all of it on the last token.
	DenseLast Dense = "last"
	// DenseInstance gives the last token of each instance the change that the
	// instance makes to the reward of the response so far. The first one carries
	// the level: nothing stands for the reward of no instance.
	DenseInstance Dense = "instance"
	// DenseWitness spreads it evenly over the tokens of the witness.
	DenseWitness Dense = "witness"
	// DenseShaped is DenseLast and potential-based shaping (Ng, Harada and
	// Russell 1999, section 3): gamma Phi(s') - Phi(s) at every step. Phi is the
	// reward of the instances that are complete, less that of a response with
	// violation 0; it is 0 at the start and at the end, so that what is optimal
	// does not change.
	DenseShaped Dense = "shaped"
)

// account is a scored response as its tokens are told of it. Spans are bytes,
// in document order.
type account struct {
	reward    float64          // of the response
	clean     float64          // of one with violation 0
	instances []segmenter.Span // that were scored
	prefixes  []float64        // of the first k+1 instances
	witness   int              // into instances; -1 without
}

// dense lays the reward out over tokens. The starts of those that are not empty
// never fall.
func (a account) dense(mode Dense, gamma float64, tokens []segmenter.Span) []float64 {
	out := make([]float64, len(tokens))
	if len(tokens) == 0 {
		return out
	}
	last := lastToken(tokens)
	switch {
	case mode == DenseInstance && len(a.instances) > 0:
		before := 0.0
		for k, token := range a.lastTokens(tokens) {
			out[token] += a.prefixes[k] - before
			before = a.prefixes[k]
		}
	case mode == DenseWitness && a.witness >= 0:
		a.spread(out, tokens)
	case mode == DenseShaped:
		a.shape(out[:last+1], gamma, a.lastTokens(tokens))
		out[last] += a.reward
	default:
		out[last] = a.reward
	}
	return out
}

// lastToken is the last one that is not empty, or else the last one.
func lastToken(tokens []segmenter.Span) int {
	for i := len(tokens) - 1; i >= 0; i-- {
		if tokens[i].Start < tokens[i].End {
			return i
		}
	}
	return len(tokens) - 1
}

// lastTokens gives for each instance the last token that begins before its end.
// When all begin later, that is the first one that is not empty; when all are
// empty, the last one.
func (a account) lastTokens(tokens []segmenter.Span) []int {
	out := make([]int, len(a.instances))
	found, next := -1, 0
	for k, instance := range a.instances {
		for ; next < len(tokens); next++ {
			empty := tokens[next].Start == tokens[next].End
			if !empty && tokens[next].Start >= instance.End && found >= 0 {
				break
			}
			if !empty {
				found = next
			}
		}
		if found < 0 {
			found = len(tokens) - 1
		}
		out[k] = found
	}
	return out
}

// spread shares the reward among the tokens that overlap the witness, or gives
// it to its last token when none does.
func (a account) spread(out []float64, tokens []segmenter.Span) {
	witness := a.instances[a.witness]
	var shares []int
	for i, t := range tokens {
		if t.Start < t.End && t.Start < witness.End && t.End > witness.Start {
			shares = append(shares, i)
		}
	}
	if len(shares) == 0 {
		shares = a.lastTokens(tokens)[a.witness : a.witness+1]
	}
	for _, i := range shares {
		out[i] = a.reward / float64(len(shares))
	}
}

// shape writes gamma Phi(s') - Phi(s) of each step. ends are the tokens at which
// the instances are complete.
func (a account) shape(out []float64, gamma float64, ends []int) {
	phi, complete := 0.0, 0
	for i := range out {
		before := phi
		for complete < len(ends) && ends[complete] <= i {
			phi = a.prefixes[complete] - a.clean
			complete++
		}
		if i == len(out)-1 {
			phi = 0
		}
		out[i] = gamma*phi - before
	}
}
