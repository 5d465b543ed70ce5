package rewardmodel

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"assay/segmenter"
)

// Dense selects how the reward of a response is assigned to its tokens.
type Dense string

// The kinds of a dense reward. For all of them the token rewards sum up to the
// reward of the response; for DenseShaped that holds with gamma 1.
//
// Each token is a step of the policy, including an empty one such as a special
// token, and the episode ends with the last non-empty token: later tokens get 0.
// With T the number of steps up to there, R the reward of the response
// and gamma below 1, the discounted sum of DenseShaped is gamma^(T-1) R, as that
// of DenseLast.
const (
	// DenseLast puts all of it on the last token.
	DenseLast Dense = "last"
	// DenseInstance gives the last token of each instance the change that the
	// instance makes to the reward of the response so far. The first one carries
	// the level, since there is no reward of zero instances.
	DenseInstance Dense = "instance"
	// DenseWitness divides it evenly among the tokens of the witness.
	DenseWitness Dense = "witness"
	// DenseShaped is DenseLast and potential-based shaping (Ng, Harada and
	// Russell 1999, section 3): gamma Phi(s') - Phi(s) at every step. Phi is the
	// reward of the instances that are complete, less that of a response with
	// violation 0; it is 0 at the start and at the end, so that the optimal policy
	// does not change.
	DenseShaped Dense = "shaped"
)

// PolicyTokenizer splits a text into the tokens of a policy model, for dense
// rewards. It must be safe for concurrent use.
type PolicyTokenizer interface {
	// OffsetsContext returns the span of each token in bytes of text, without
	// special tokens, ordered by start. It returns the error of ctx soon after ctx
	// is done.
	OffsetsContext(ctx context.Context, text string) ([]segmenter.Span, error)
}

// policyTokens returns the tokens of item i to which rewards are assigned.
func (s *Scorer) policyTokens(ctx context.Context, item Item, i int, o Options) ([]segmenter.Span, error) {
	if item.TokenOffsets != nil {
		tokens, err := o.OffsetUnit.byteSpans(element("responses", i)+".token_offsets", *item.Response, item.TokenOffsets)
		if err != nil {
			return nil, err
		}
		return tokens, nil
	}
	tokenizer, err := s.policyTokenizer(o.Tokenizer)
	if err != nil {
		return nil, err
	}
	return tokenizer.OffsetsContext(ctx, *item.Response)
}

func (s *Scorer) policyTokenizer(name string) (PolicyTokenizer, error) {
	if t, ok := s.config.PolicyTokenizers[name]; ok {
		return t, nil
	}
	known := slices.Sorted(maps.Keys(s.config.PolicyTokenizers))
	if own, ok := s.tokenizer.(PolicyTokenizer); ok {
		if name == s.config.Name || name == s.config.Version {
			return own, nil
		}
		known = append(known, s.config.Name, s.config.Version)
	}
	for i := range known {
		known[i] = fmt.Sprintf("%q", known[i])
	}
	return nil, Invalidf("options.tokenizer", "unknown tokenizer %s; use one of %s, have the service load it, or give token_offsets", Quote(name), strings.Join(known, ", "))
}

// assignTokenRewards adds the token rewards to the result of a bag.
func (s *Scorer) assignTokenRewards(r *Result, item Item, b bag, work *job, combine combiner, o Options) {
	response := scoredResponse{reward: r.Reward, clean: combine.clean(o.Reward), witness: -1}
	for i, u := range b.utterances {
		if u.unique < 0 {
			continue
		}
		if r.Witness != nil && i == r.Witness.Index {
			response.witness = len(response.instances)
		}
		response.instances = append(response.instances, u.span)
	}
	if o.Dense == DenseInstance || o.Dense == DenseShaped {
		scores := make([][]bagScore, work.aspects)
		for a := range scores {
			scores[a] = prefixScores(o.Aggregate, *o.TopK, b.margins(work, a))
		}
		response.prefixes = combine.prefixRewards(o.Reward, scores, r.Reward)
	}
	r.TokenRewards = response.tokenRewards(o.Dense, *o.Gamma, b.tokens)
	if item.TokenOffsets != nil {
		return
	}
	r.TokenOffsets = make([][2]int, len(b.tokens))
	for i, t := range o.OffsetUnit.Convert(*item.Response, b.tokens) {
		r.TokenOffsets[i] = [2]int{t.Start, t.End}
	}
}

// scoredResponse is what the token rewards of a response are computed from. Spans
// are in bytes and in document order.
type scoredResponse struct {
	reward    float64          // of the response
	clean     float64          // of one with violation 0
	instances []segmenter.Span // that were scored
	prefixes  []float64        // of the first k+1 instances
	witness   int              // into instances; -1 without
}

// tokenRewards assigns the reward to tokens: one number per token. The starts of
// the non-empty tokens must not decrease.
func (r scoredResponse) tokenRewards(mode Dense, gamma float64, tokens []segmenter.Span) []float64 {
	out := make([]float64, len(tokens))
	if len(tokens) == 0 {
		return out
	}
	last := lastToken(tokens)
	switch {
	case mode == DenseInstance && len(r.instances) > 0:
		before := 0.0
		for k, token := range r.lastTokens(tokens) {
			out[token] += r.prefixes[k] - before
			before = r.prefixes[k]
		}
	case mode == DenseWitness && r.witness >= 0:
		r.assignWitness(out, tokens)
	case mode == DenseShaped:
		r.assignShaped(out[:last+1], gamma, r.lastTokens(tokens))
		out[last] += r.reward
	default:
		out[last] = r.reward
	}
	return out
}

// lastToken returns the index of the last non-empty token, or of the last token
// when all are empty.
func lastToken(tokens []segmenter.Span) int {
	for i := len(tokens) - 1; i >= 0; i-- {
		if tokens[i].Start < tokens[i].End {
			return i
		}
	}
	return len(tokens) - 1
}

// lastTokens returns for each instance the index of the last token that begins
// before its end: the first non-empty token when all begin later, and the last
// token when all are empty.
func (r scoredResponse) lastTokens(tokens []segmenter.Span) []int {
	out := make([]int, len(r.instances))
	found, next := -1, 0
	for k, instance := range r.instances {
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

// assignWitness divides the reward evenly among the tokens that overlap the
// witness, or assigns it to the witness's last token when none does.
func (r scoredResponse) assignWitness(out []float64, tokens []segmenter.Span) {
	witness := r.instances[r.witness]
	var shares []int
	for i, t := range tokens {
		if t.Start < t.End && t.Start < witness.End && t.End > witness.Start {
			shares = append(shares, i)
		}
	}
	if len(shares) == 0 {
		shares = r.lastTokens(tokens)[r.witness : r.witness+1]
	}
	for _, i := range shares {
		out[i] = r.reward / float64(len(shares))
	}
}

// assignShaped writes gamma Phi(s') - Phi(s) of each step. ends are the tokens at
// which the instances are complete.
func (r scoredResponse) assignShaped(out []float64, gamma float64, ends []int) {
	phi, complete := 0.0, 0
	for i := range out {
		before := phi
		for complete < len(ends) && ends[complete] <= i {
			phi = r.prefixes[complete] - r.clean
			complete++
		}
		if i == len(out)-1 {
			phi = 0
		}
		out[i] = gamma*phi - before
	}
}
