package main

import (
	"crypto/sha256"
	"encoding/binary"
	"hash/fnv"
	"strings"
	"unicode"

	"assay/rewardmodel/bag"
)

// split divides the examples. Settings are chosen on the validation part, and the model card reports the test part. Both
// are by source.
type split struct {
	train            []example
	validation, test map[string][]example
}

// add divides the examples of a source by group: a tenth is for validation, and without a test part of its own
// another tenth for the test.
func (s *split) add(examples, test []example) {
	for _, e := range test {
		s.test[e.source] = append(s.test[e.source], e)
	}
	for _, e := range examples {
		switch part := twentieth(e.source + " " + e.group); {
		case part < 2 && len(test) == 0:
			s.test[e.source] = append(s.test[e.source], e)
		case part == 2 || part == 3:
			s.validation[e.source] = append(s.validation[e.source], e)
		default:
			s.train = append(s.train, e)
		}
	}
}

// halve divides the examples of a source that is never trained on by group between validation and test.
func (s *split) halve(examples []example) {
	for _, e := range examples {
		part := s.validation
		if twentieth(e.group)%2 == 0 {
			part = s.test
		}
		part[e.source] = append(part[e.source], e)
	}
}

// dropNearDuplicates leaves out examples for validation and test that share half of their 5-grams with one for training,
// and repeated texts of training.
func (s *split) dropNearDuplicates() {
	known, seen := shingles{}, map[string]bool{}
	kept := s.train[:0]
	for _, e := range s.train {
		key := fold(e.bag.Prompt + "\n" + e.bag.Response)
		if seen[key] {
			continue
		}
		seen[key] = true
		known.add(e.bag.Response)
		kept = append(kept, e)
	}
	s.train = kept
	for _, part := range []map[string][]example{s.validation, s.test} {
		for source, examples := range part {
			kept := examples[:0]
			for _, e := range examples {
				if known.overlap(e.bag.Response) < 0.5 {
					kept = append(kept, e)
				}
			}
			part[source] = kept
		}
	}
}

func fold(text string) string { return strings.ToLower(strings.Join(strings.Fields(text), " ")) }

// twentieth assigns a group to one of 20 parts.
func twentieth(group string) uint64 {
	digest := sha256.Sum256([]byte(group)) // FNV is not even on names that differ in few characters
	return binary.BigEndian.Uint64(digest[:]) % 20
}

// shingles are the 5-grams of words of texts.
type shingles map[uint64]bool

func (s shingles) add(text string) {
	for _, gram := range fiveGrams(text) {
		s[gram] = true
	}
}

// overlap is the share of the 5-grams of text that are known; 0 for a shorter text
// unless it is known as a whole.
func (s shingles) overlap(text string) float64 {
	grams := fiveGrams(text)
	if len(grams) == 0 {
		return 0
	}
	known := 0
	for _, gram := range grams {
		if s[gram] {
			known++
		}
	}
	return float64(known) / float64(len(grams))
}

// fiveGrams returns the hashes of each run of five words, or of the whole of a shorter
// text.
func fiveGrams(text string) []uint64 {
	words := strings.FieldsFunc(strings.ToLower(text), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) })
	var out []uint64
	for _, run := range windows(words, 5) {
		h := fnv.New64a()
		h.Write([]byte(strings.Join(run, " ")))
		out = append(out, h.Sum64())
	}
	return out
}

// windows returns each run of n words, or all words if there are fewer.
func windows(words []string, n int) [][]string {
	if len(words) == 0 {
		return nil
	}
	var out [][]string
	for i := 0; i == 0 || i+n <= len(words); i++ {
		out = append(out, words[i:min(i+n, len(words))])
	}
	return out
}

// isViolation reports whether any aspect is violated.
func (e example) isViolation() bool { return e.bag.Verdict() == bag.Violation }
