package main

import (
	"math/rand/v2"
	"slices"
	"strings"
)

// Bags of the epochs with unrelated turns: of DiaSafety more than its share, since only there does the label depend on the
// prompt; of GPTFuzz, whose few prompts a model can memorize, more only in the last two, which leave its prompts out.
const (
	diaSafetyInTurns     = 2800
	gptFuzzInTurns       = 466
	diaSafetyInLastTurns = 1000
	gptFuzzInLastTurns   = 900
)

// inTurns returns the bags of the first epoch with unrelated turns: the third, all of the small sets of conversations and more
// of DiaSafety and of Toxic Spans.
func inTurns(bags, last, third []example, seed uint64) []example {
	return withUnrelatedTurns(append(withConversations(diaSafetyInTurns, bags, third), commentsAfter(bags, last)...), seed)
}

// restInTurns returns the bags of the second epoch with unrelated turns.
func restInTurns(rest []example, seed uint64) []example {
	return withUnrelatedTurns(withUpTo(gptFuzzInTurns, gptFuzz, rest, rest), seed)
}

// thirdInTurns returns the bags of the last two epochs with unrelated turns: the third again, with those of the small sets and
// with more, which are the twins with prompts in the last epoch.
func thirdInTurns(bags, third, more []example, seed uint64) []example {
	out := withUpTo(gptFuzzInLastTurns, gptFuzz, bags, withConversations(diaSafetyInLastTurns, bags, third))
	for i := range out {
		if out[i].source == gptFuzz {
			out[i].bag.Prompt = ""
		}
	}
	return withUnrelatedTurns(append(out, more...), seed)
}

// comparedInTurns returns the contrast pairs of the corpus in two halves, each with those of HatemojiBuild, and unrelated turns
// that twins share.
func comparedInTurns(examples []example, seed uint64) (first, second []example) {
	twins := withUnrelatedTurns(append(inOneInstance(comparedTwins(pairs, examples, seed)), inOneInstance(comparedEmojiTwins(examples))...), seed)
	for i := 0; i+1 < len(twins); i += 2 {
		pair := twins[i : i+2]
		pair[1].bag.Prompt = pair[0].bag.Prompt
		if pair[0].source == hatemoji || i%4 == 0 {
			first = append(first, pair...)
		}
		if pair[0].source == hatemoji || i%4 != 0 {
			second = append(second, pair...)
		}
	}
	return first, second
}

// withConversations returns part with up to limit bags of DiaSafety, and with all of the small sets of conversations.
func withConversations(limit int, bags, part []example) []example {
	out := withUpTo(limit, diaSafety, bags, part)
	for _, source := range []string{convAbuse, jailbreakBench} {
		out = withUpTo(len(bags), source, bags, out)
	}
	return out
}

// withUpTo returns part with up to limit bags of a source, the first ones of bags, instead of those that it has.
func withUpTo(limit int, source string, bags, part []example) []example {
	others := slices.DeleteFunc(slices.Clone(part), func(e example) bool { return e.source == source })
	all := fromSource(source, bags)
	return append(others, all[:min(limit, len(all))]...)
}

// withUnrelatedTurns gives half of the bags turns that have nothing to do with them, before their prompt if they have one: a
// prompt, or a prompt, a response and a prompt, each of which may be a text of any bag. A model that sees prompts only where
// they matter takes every prompt for a sign of such a source.
func withUnrelatedTurns(bags []example, seed uint64) []example {
	rng := rand.New(rand.NewPCG(seed, 0x9203))
	var prompts []string
	for _, e := range bags {
		if e.bag.Prompt != "" {
			prompts = append(prompts, e.bag.Prompt)
		}
	}
	turn := func() string {
		if len(prompts) > 0 && rng.IntN(2) == 0 {
			return pick(rng, prompts)
		}
		return strings.Join(pick(rng, bags).bag.Texts(), "\n")
	}
	out := slices.Clone(bags)
	for i := range out {
		prompt := &out[i].bag.Prompt
		switch rng.IntN(4) {
		case 0:
			*prompt = strings.TrimSpace(turn() + "\n" + *prompt)
		case 1:
			*prompt = strings.TrimSpace(turn() + "\n" + turn() + "\n" + turn() + "\n" + *prompt)
		}
	}
	return out
}
