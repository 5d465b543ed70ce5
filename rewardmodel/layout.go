package rewardmodel

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"assay/segmenter"
)

// PolicyTokenizer splits a text as a policy model reads it, for dense rewards.
// It is called by several goroutines at once.
type PolicyTokenizer interface {
	// Offsets returns the bytes of text that each token stands for, without
	// special tokens; they begin in order.
	Offsets(text string) []segmenter.Span
}

// policyTokens are the tokens of item i that the reward is laid out over.
func (s *Scorer) policyTokens(item Item, i int, o Options) ([]segmenter.Span, error) {
	if item.TokenOffsets != nil {
		tokens, err := o.OffsetUnit.tokenSpans(element("responses", i)+".token_offsets", *item.Response, item.TokenOffsets)
		if err != nil {
			return nil, err
		}
		return tokens, nil
	}
	tokenizer, err := s.policyTokenizer(o.Tokenizer)
	if err != nil {
		return nil, err
	}
	return tokenizer.Offsets(*item.Response), nil
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

// layOut adds the rewards of the tokens to the result of a bag.
func (s *Scorer) layOut(r *Result, item Item, b bag, margins []float32, o Options) {
	on := s.scale(o.Aggregate)
	a := account{reward: r.Reward, clean: on.reward(o.Reward, on.emptyScore(1)), witness: -1}
	var scored []float32
	for i, u := range b.utterances {
		if u.unique < 0 {
			continue
		}
		if r.Witness != nil && i == r.Witness.Index {
			a.witness = len(scored)
		}
		a.instances = append(a.instances, u.span)
		scored = append(scored, margins[u.unique])
	}
	if o.Dense == DenseInstance || o.Dense == DenseShaped {
		a.prefixes = on.prefixRewards(o.Reward, prefixScores(o.Aggregate, *o.TopK, scored), r.Reward)
	}
	r.TokenRewards = a.dense(o.Dense, *o.Gamma, b.tokens)
	if item.TokenOffsets != nil {
		return
	}
	r.TokenOffsets = make([][2]int, len(b.tokens))
	for i, t := range o.OffsetUnit.Convert(*item.Response, b.tokens) {
		r.TokenOffsets[i] = [2]int{t.Start, t.End}
	}
}
