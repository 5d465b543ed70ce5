// Command policy writes synthetic responses of a support chat as bag files,
// labeled according to policy.md.
//
//	go run ./examples/policy DIR
//
// labels.jsonl is the training set, and held-out.jsonl has the same sentences in
// new responses. later.jsonl stands for labels that arrive a week later, with
// sentences that labels.jsonl does not have. new-wordings.jsonl has sentences that
// none of the others has: use it for evaluation, because a real chat always
// produces new wordings.
package main

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"assay/rewardmodel/bag"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "policy:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) != 1 {
		return errors.New("missing argument: the output directory")
	}
	if err := os.MkdirAll(args[0], 0o755); err != nil {
		return err
	}
	for i, file := range []struct {
		name  string
		bags  int
		parts []int
	}{
		{"labels.jsonl", 400, []int{0, 1}},
		{"held-out.jsonl", 200, []int{0, 1}},
		{"later.jsonl", 200, []int{2}},
		{"new-wordings.jsonl", 200, []int{3}},
	} {
		rng := rand.New(rand.NewPCG(uint64(i), 0))
		if err := write(filepath.Join(args[0], file.name), responses(rng, file.name, file.bags, choose(violations, file.parts), choose(nearMisses, file.parts))); err != nil {
			return err
		}
	}
	return nil
}

// choose returns the sentences of the given parts, out of four.
func choose(all []string, parts []int) (chosen []string) {
	for i, s := range all {
		if slices.Contains(parts, i%4) {
			chosen = append(chosen, s)
		}
	}
	return chosen
}

// responses returns n bags, alternately compliant and violations. A response is a
// greeting and three to five sentences, of which at most one is a violation. Half
// of the responses contain a near miss.
func responses(rng *rand.Rand, name string, n int, violations, nearMisses []string) []bag.Bag {
	prefix := strings.TrimSuffix(name, ".jsonl")
	bags := make([]bag.Bag, n)
	for i := range bags {
		b := bag.Bag{ID: fmt.Sprintf("%s-%d", prefix, i), Label: bag.Compliant}
		var special []string
		if i%2 == 1 {
			b.Label = bag.Violation
			special = append(special, violations[rng.IntN(len(violations))])
		}
		if rng.IntN(2) == 0 {
			special = append(special, nearMisses[rng.IntN(len(nearMisses))])
		}
		sentences := special
		for _, k := range rng.Perm(len(harmless))[:3+rng.IntN(3)-len(special)] {
			sentences = append(sentences, harmless[k])
		}
		rng.Shuffle(len(sentences), func(i, j int) { sentences[i], sentences[j] = sentences[j], sentences[i] })
		b.Response = greetings[rng.IntN(len(greetings))] + " " + strings.Join(sentences, " ")
		for _, slot := range slots {
			for strings.Contains(b.Response, slot.name) {
				b.Response = strings.Replace(b.Response, slot.name, slot.words[rng.IntN(len(slot.words))], 1)
			}
		}
		bags[i] = b
	}
	return bags
}

func write(name string, bags []bag.Bag) error {
	file, err := os.Create(name)
	if err != nil {
		return err
	}
	err = bag.Write(file, func(yield func(bag.Bag) bool) {
		for _, b := range bags {
			if !yield(b) {
				return
			}
		}
	})
	return errors.Join(err, file.Close())
}
