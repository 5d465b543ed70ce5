// Command policy writes invented responses of a support chat, labelled by
// policy.md beside it, as bag files. All sentences were made up for this
// example.
//
//	go run ./examples/policy DIR
//
// labels.jsonl is to learn from, and held-out.jsonl has its wordings in new
// responses. later.jsonl is what people may label a week later: it breaks and
// keeps the policy in words that labels.jsonl does not have. new-wordings.jsonl
// has words that neither has; it is what to measure on, as a real chat will
// always find new ones.
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
		return errors.New("give the folder to write to")
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
		if err := write(filepath.Join(args[0], file.name), responses(rng, file.name, file.bags, choose(violations, file.parts), choose(near, file.parts))); err != nil {
			return err
		}
	}
	return nil
}

// choose returns the sentences of some of the four parts.
func choose(all []string, parts []int) (chosen []string) {
	for i, s := range all {
		if slices.Contains(parts, i%4) {
			chosen = append(chosen, s)
		}
	}
	return chosen
}

// responses are compliant ones and violations in turn: a greeting and three to
// five sentences, of which one is the violation. Half of all have one that
// comes near to a violation.
func responses(rng *rand.Rand, name string, n int, violations, near []string) []bag.Bag {
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
			special = append(special, near[rng.IntN(len(near))])
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
