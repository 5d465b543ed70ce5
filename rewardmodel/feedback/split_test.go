package feedback_test

import (
	"fmt"
	"slices"
	"strconv"
	"testing"

	"assay/rewardmodel/bag"
	"assay/rewardmodel/feedback"
)

// groupOf is the group that a store would record for the first label of a
// response.
func groupOf(b bag.Bag) feedback.Hash { return feedback.Record{Bag: b}.Mark(1).Group }

func TestHeldOutHasTheShareAndIsNested(t *testing.T) {
	const n = 20_000
	salt := []byte("a salt")
	shares := []float64{0, 0.05, 0.2, 0.5, 1}
	for name, group := range map[string]func(int) feedback.Hash{
		"salted":            func(i int) feedback.Hash { return feedback.HashOf("group-" + strconv.Itoa(i)) },
		"no group recorded": func(int) feedback.Hash { return feedback.Hash{} },
	} {
		held := make([]int, len(shares))
		for i := range n {
			id := feedback.HashOf("response-" + strconv.Itoa(i))
			was := false
			for k, share := range shares {
				is := feedback.Split{Share: share, Salt: salt}.HeldOut(id, group(i))
				if was && !is {
					t.Fatalf("%s: %v is held out of %v and not of %v", name, id, shares[k-1], share)
				}
				if was = is; is {
					held[k]++
				}
			}
		}
		for k, share := range shares {
			if got := float64(held[k]) / n; got < share-0.01 || got > share+0.01 {
				t.Errorf("%s: share %v holds out %v", name, share, got)
			}
		}
	}
}

// A sender who knows ids, texts and the source code cannot predict the side of
// a response: under another salt it is independent.
func TestHeldOutDependsOnTheSalt(t *testing.T) {
	const n, share = 20_000, 0.2
	split := feedback.Split{Share: share, Salt: []byte("secret")}
	guess := map[string]func(id, group feedback.Hash) bool{
		"the unsalted hash of the id": func(id, _ feedback.Hash) bool {
			return feedback.Split{Share: share}.HeldOut(id, feedback.Hash{})
		},
		"no salt":      feedback.Split{Share: share}.HeldOut,
		"another salt": feedback.Split{Share: share, Salt: []byte("guess")}.HeldOut,
	}
	for name, held := range guess {
		both := 0
		for i := range n {
			b := bag.Bag{ID: fmt.Sprint("r", i), Response: fmt.Sprint("Text ", i)}
			if id := feedback.HashOf(b.ID); split.HeldOut(id, groupOf(b)) && held(id, groupOf(b)) {
				both++
			}
		}
		if got := float64(both) / n; got < share*share-0.01 || got > share*share+0.01 {
			t.Errorf("%s: %v are held out of both, want %v as by chance", name, got, share*share)
		}
	}
}

// Responses that were stored before groups were recorded stay where they were:
// these sides are those of the versions before.
func TestHeldOutWithoutRecordedGroups(t *testing.T) {
	split := feedback.Split{Share: 0.2, Salt: []byte("a salt that came later")}
	for id, want := range map[string]bool{"a": false, "b": false, "c": true, "d": true} {
		if got := split.HeldOut(feedback.HashOf(id), feedback.Hash{}); got != want {
			t.Errorf("%s: got %v", id, got)
		}
	}
	// Also when one is corrected by a version that records groups.
	x := feedback.NewIndex()
	x.Apply(mark("c", "anna", true, 0, 1))
	m := place(x, feedback.Record{Bag: bag.Bag{ID: "c", Rater: "bert", Response: "t", Prompt: "New?"}})
	if m.Group != (feedback.Hash{}) {
		t.Errorf("a known response gets the group %v", m.Group)
	}
}

func TestGroups(t *testing.T) {
	dialogue := func(user, assistant string) bag.Bag {
		return bag.Bag{Messages: []bag.Message{{Role: "user", Content: user}, {Role: "assistant", Content: assistant}, {Role: "user", Content: assistant}}}
	}
	for _, c := range []struct {
		name string
		a, b bag.Bag
		same bool
	}{
		{"one prompt", bag.Bag{Prompt: "Why?", Response: "So."}, bag.Bag{Prompt: "Why?", Response: "Because."}, true},
		{"one prompt, typed differently", bag.Bag{Prompt: "why  not", Response: "So."}, bag.Bag{Prompt: "Why not?", Response: "Because."}, true},
		{"two prompts", bag.Bag{Prompt: "Why?", Response: "So."}, bag.Bag{Prompt: "How?", Response: "So."}, false},
		{"two texts", bag.Bag{Response: "So."}, bag.Bag{Response: "Because."}, false},
		{"one text, typed differently", bag.Bag{Response: "It is so."}, bag.Bag{Response: "it is SO!"}, true},
		{"a text and a prompt", bag.Bag{Response: "So."}, bag.Bag{Prompt: "So.", Response: "So."}, false},
		{"signs only", bag.Bag{Response: "?!"}, bag.Bag{Response: "!?"}, false},
		{"instances", bag.Bag{Instances: []string{"It is.", "So."}}, bag.Bag{Instances: []string{"It is", "so"}}, true},
		{"one prompt of dialogues", dialogue("Why?", "So."), dialogue("Why", "Because."), true},
		{"two prompts of dialogues", dialogue("Why?", "So."), dialogue("How?", "So."), false},
	} {
		if same := groupOf(c.a) == groupOf(c.b); same != c.same {
			t.Errorf("%s: in one group: %v", c.name, same)
		}
	}
}

// A corrected label with another prompt does not move the response.
func TestPlaceKeepsTheGroup(t *testing.T) {
	x := feedback.NewIndex()
	first := feedback.Record{Bag: bag.Bag{ID: "r", Rater: "anna", Response: "So.", Prompt: "Why?"}}
	again := feedback.Record{Bag: bag.Bag{ID: "r", Rater: "bert", Response: "So.", Prompt: "How?"}}
	a := place(x, first)
	if b := place(x, again); b.Group != a.Group {
		t.Error("a response that is being stored is moved")
	}
	a.Sequence = 1
	x.Apply(a)
	b := place(x, again)
	if b.Group != a.Group {
		t.Error("a response that is stored is moved")
	}
	b.Sequence = 2
	x.Apply(b)
	if c := place(x, first); c.Group != a.Group {
		t.Error("a correction moves the response")
	}
}

// Of responses with the same prompt, some but not all are held out, even if they
// are in one batch, before any is stored.
func TestAPromptOfManyResponsesIsSplit(t *testing.T) {
	split := feedback.Split{Share: 0.2, Salt: []byte("a salt")}
	for name, stored := range map[string]bool{"one batch": false, "one after the other": true} {
		x := feedback.NewIndex()
		groups := map[feedback.Hash]int{}
		held := 0
		for i := range 400 {
			m := place(x, feedback.Record{Bag: bag.Bag{ID: fmt.Sprint("r", i), Prompt: "Write a reply.", Response: fmt.Sprint("Text ", i)}})
			if m.Sequence = uint64(i + 1); stored {
				x.Apply(m)
			}
			groups[m.Group]++
			if split.HeldOut(m.ID, m.Group) {
				held++
			}
		}
		sizes := slices.Sorted(func(yield func(int) bool) {
			for _, n := range groups {
				if !yield(n) {
					return
				}
			}
		})
		if largest := sizes[len(sizes)-1]; largest != 20 || len(groups) != 381 {
			t.Errorf("%s: %d groups, the largest of %d", name, len(groups), largest)
		}
		if held < 40 || held > 120 {
			t.Errorf("%s: %d of 400 are held out", name, held)
		}
	}
}

// Erased and repeated responses do not count in the sizes of groups.
func TestErasedResponsesLeaveTheirGroup(t *testing.T) {
	x := feedback.NewIndex()
	record := func(i int) feedback.Record {
		return feedback.Record{Bag: bag.Bag{ID: fmt.Sprint("r", i), Prompt: "Why?", Response: fmt.Sprint("Text ", i)}}
	}
	for round := range 5 {
		for i := range 20 {
			m := place(x, record(100*round+i))
			if m.Group != groupOf(record(0).Bag) {
				t.Fatalf("round %d: response %d is not in the group of its prompt", round, i)
			}
			if i%2 == 0 { // the others are erased before they are stored
				m.Sequence = uint64(1000*round + i + 1)
				x.Apply(m)
				x.Apply(m)
			}
		}
		for i := range 20 {
			x.Erase(feedback.HashOf(record(100*round+i).Bag.ID), uint64(1000*round+500+i))
		}
	}
}

// Responses that are assigned and never stored do not count in the sizes of groups
// either.
func TestUnstoredResponsesLeaveTheirGroup(t *testing.T) {
	const prompt, inOneGroup, remembered = "Why?", 20, 1 << 16
	place := func(x *feedback.Index, i int) feedback.Mark {
		return place(x, feedback.Record{Bag: bag.Bag{ID: fmt.Sprint("r", i), Prompt: prompt, Response: fmt.Sprint("Text ", i)}})
	}
	want := groupOf(bag.Bag{Prompt: prompt})
	for name, leave := range map[string]func(x *feedback.Index){
		"erased": func(x *feedback.Index) {
			for i := range inOneGroup {
				x.Erase(feedback.HashOf(fmt.Sprint("r", i)), uint64(i+1))
				place(x, i)
			}
		},
		"forgotten": func(x *feedback.Index) {
			for i := range remembered {
				place(x, i)
			}
		},
	} {
		x := feedback.NewIndex()
		leave(x)
		if got := place(x, remembered).Group; got != want {
			t.Errorf("%s: a response is not in the group of its prompt", name)
		}
	}
}

// place is Place for a record that has few aspects.
func place(x *feedback.Index, r feedback.Record) feedback.Mark {
	m, err := x.Place(r)
	if err != nil {
		panic(err)
	}
	return m
}
