package synthetic

import (
	"errors"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/quick"

	"assay/rewardmodel/bag"
)

// numbered returns n different texts.
func numbered(name string, n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = fmt.Sprintf("%s %d", name, i)
	}
	return out
}

func sentences(normal, anomalous, testNormal, testAnomalous int) Sentences {
	return Sentences{
		Train: Split{Normal: numbered("good", normal), Anomalous: numbered("bad", anomalous)},
		Test:  Split{Normal: numbered("fine", testNormal), Anomalous: numbered("poor", testAnomalous)},
	}
}

// TestGolden pins the sample of a seed, so that results stay comparable over time.
// UPDATE_GOLDEN=1 writes the file.
func TestGolden(t *testing.T) {
	train, test, err := Protocol{SigmaMicro: 2, SigmaMacro: 2, SigmaMax: 3, Seed: 7}.Make(sentences(23, 5, 12, 4))
	if err != nil {
		t.Fatal(err)
	}
	real, realTest, err := Reviews{MaxBags: 2, Seed: 7}.Make(Sentences{
		Train: Split{Normal: numbered("Good.<br /><br />Very good.", 4), Anomalous: numbered("Bad.", 5)},
		Test:  Split{Normal: numbered("Fine.", 1), Anomalous: numbered("Poor.", 3)},
	})
	if err != nil {
		t.Fatal(err)
	}
	var got strings.Builder
	if err := bag.Write(&got, slices.Values(slices.Concat(train, test, real, realTest))); err != nil {
		t.Fatal(err)
	}
	const name = "testdata/golden.jsonl"
	if os.Getenv("UPDATE_GOLDEN") != "" {
		if err := os.WriteFile(name, []byte(got.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if got.String() != string(want) {
		t.Errorf("got\n%swant\n%s", got.String(), want)
	}
}

func TestCountsOfThePaper(t *testing.T) {
	sst := sentences(3610, 3310, 909, 912)
	for _, c := range []struct{ micro, macro, sigmaMax, violating, test int }{
		{2, 1, 10, 171, 181},
		{4, 1, 10, 171, 101},
		{6, 1, 10, 171, 69},
		{8, 1, 10, 171, 53},
		{10, 1, 10, 171, 43},
		{2, 5, 10, 55, 181},
		{2, 10, 10, 30, 181},
		{2, 1, 0, 722, 181},
		{10, 1, 0, 171, 43},
	} {
		train, test, err := Protocol{SigmaMicro: c.micro, SigmaMacro: c.macro, SigmaMax: c.sigmaMax}.Make(sst)
		if err != nil {
			t.Fatal(err)
		}
		if got, want := count(train), [2]int{c.violating, c.violating * c.macro}; got != want {
			t.Errorf("%+v: %v training bags, want %v", c, got, want)
		}
		if got, want := count(test), [2]int{c.test, c.test}; got != want {
			t.Errorf("%+v: %v test bags, want %v", c, got, want)
		}
	}
}

// count returns the number of violating and of compliant bags.
func count(bags []bag.Bag) (n [2]int) {
	for _, b := range bags {
		if b.Label == bag.Violation {
			n[0]++
		} else {
			n[1]++
		}
	}
	return n
}

// check returns what is wrong with the bags of a split, "" when nothing is.
func check(bags []bag.Bag, from Split, micro int) string {
	used, ids := map[string]bool{}, map[string]bool{}
	for _, b := range bags {
		if len(b.Instances) != micro+1 {
			return fmt.Sprintf("%s has %d instances", b.ID, len(b.Instances))
		}
		if ids[b.ID] {
			return b.ID + " occurs twice"
		}
		ids[b.ID] = true
		if (b.Label == bag.Violation) != (b.Witness != nil) {
			return b.ID + " has a wrong witness"
		}
		for i, text := range b.Instances {
			if used[text] {
				return fmt.Sprintf("%q is sampled twice", text)
			}
			used[text] = true
			kind := from.Normal
			if b.Witness != nil && i == *b.Witness {
				kind = from.Anomalous
			}
			if !slices.Contains(kind, text) {
				return fmt.Sprintf("%s: %q is of the wrong kind or split", b.ID, text)
			}
		}
	}
	return ""
}

func TestEverySampleIsValid(t *testing.T) {
	sound := func(micro, macro, extra, limit, testLimit, normal, anomalous uint8, seed uint64) bool {
		p := Protocol{
			SigmaMicro: 1 + int(micro%6), SigmaMacro: 1 + int(macro%4),
			MaxBags: int(limit % 12), MaxTestBags: int(testLimit % 12), Seed: seed,
		}
		if extra%3 > 0 {
			p.SigmaMax = p.SigmaMicro + int(extra%3) - 1
		}
		s := sentences(int(normal), int(anomalous), int(normal)/2, int(anomalous)/2)
		train, test, err := p.Make(s)
		if err != nil {
			return errors.Is(err, ErrTooFew) && train == nil && test == nil
		}
		again, testAgain, err := p.Make(s)
		if err != nil || !reflect.DeepEqual(train, again) || !reflect.DeepEqual(test, testAgain) {
			t.Log("the same seed gives other bags")
			return false
		}
		sigmaMax := p.SigmaMax
		if sigmaMax == 0 {
			sigmaMax = p.SigmaMicro
		}
		n := len(s.Train.Normal) / (p.SigmaMacro*(sigmaMax+1) + sigmaMax)
		m := len(s.Test.Normal) / (2*p.SigmaMicro + 1)
		if p.SigmaMax == 0 {
			n, m = min(n, len(s.Train.Anomalous)), min(m, len(s.Test.Anomalous))
		}
		if p.MaxBags > 0 {
			n = min(n, p.MaxBags)
		}
		if p.MaxTestBags > 0 {
			m = min(m, p.MaxTestBags)
		}
		if count(train) != [2]int{n, n * p.SigmaMacro} || count(test) != [2]int{m, m} {
			t.Logf("%+v: counts %v and %v", p, count(train), count(test))
			return false
		}
		for _, fault := range []string{check(train, s.Train, p.SigmaMicro), check(test, s.Test, p.SigmaMicro)} {
			if fault != "" {
				t.Log(fault)
				return false
			}
		}
		return true
	}
	if err := quick.Check(sound, &quick.Config{MaxCount: 500}); err != nil {
		t.Error(err)
	}
}

// The position of the anomalous sentence is uniform by a chi-square test at the 0.9999
// quantile for 4 degrees of freedom, 23.5.
func TestPositionIsUniform(t *testing.T) {
	const micro, n = 4, 5000
	train, _, err := Protocol{SigmaMicro: micro, SigmaMacro: 1}.Make(sentences(n*(2*micro+1), n, 9, 1))
	if err != nil {
		t.Fatal(err)
	}
	var at [micro + 1]int
	for _, b := range train[:n] {
		at[*b.Witness]++
	}
	chi, want := 0.0, float64(n)/(micro+1)
	for _, got := range at {
		chi += (float64(got) - want) * (float64(got) - want) / want
	}
	if chi > 23.5 {
		t.Errorf("positions are %v, chi-square %v", at, chi)
	}
}

func TestSeedsDifferAndTestBagsDoNot(t *testing.T) {
	s := sentences(100, 30, 60, 30)
	base, baseTest, err := Protocol{SigmaMicro: 2, SigmaMacro: 1}.Make(s)
	if err != nil {
		t.Fatal(err)
	}
	_, test, err := Protocol{SigmaMicro: 2, SigmaMacro: 5, SigmaMax: 4, MaxBags: 2}.Make(s)
	if err != nil {
		t.Fatal(err)
	}
	for i, b := range test {
		if !slices.Equal(b.Instances, baseTest[i].Instances) {
			t.Fatalf("test bag %d changes with what is asked of the training bags", i)
		}
	}
	other, _, err := Protocol{SigmaMicro: 2, SigmaMacro: 1, Seed: 1}.Make(s)
	if err != nil {
		t.Fatal(err)
	}
	if slices.Equal(base[0].Instances, other[0].Instances) {
		t.Error("two seeds give the same first bag")
	}
}

func TestMakeRejects(t *testing.T) {
	enough := sentences(50, 20, 20, 20)
	for _, c := range []struct {
		name     string
		p        Protocol
		s        Sentences
		is       error
		wantText string
	}{
		{"sigma_micro of 0", Protocol{SigmaMacro: 1}, enough, ErrProtocol, "sigma_micro is 0"},
		{"sigma_macro of 0", Protocol{SigmaMicro: 1}, enough, ErrProtocol, "sigma_macro is 0"},
		{"above the sweep", Protocol{SigmaMicro: 4, SigmaMacro: 1, SigmaMax: 3}, enough, ErrProtocol, "above the 3"},
		{"negative cap", Protocol{SigmaMicro: 1, SigmaMacro: 1, MaxBags: -1}, enough, ErrProtocol, "no limit"},
		{"few normal", Protocol{SigmaMicro: 9, SigmaMacro: 5}, enough, ErrTooFew, "training split has 50 normal ones and one violating bag takes 59"},
		{"few test", Protocol{SigmaMicro: 10, SigmaMacro: 1}, enough, ErrTooFew, "test split has 20"},
		{"few anomalous", Protocol{SigmaMicro: 1, SigmaMacro: 1, SigmaMax: 1}, sentences(50, 3, 20, 20), ErrTooFew, "3 anomalous ones for 16 violating bags"},
		{"no anomalous", Protocol{SigmaMicro: 1, SigmaMacro: 1}, sentences(50, 0, 20, 20), ErrTooFew, "no anomalous"},
	} {
		_, _, err := c.p.Make(c.s)
		if !errors.Is(err, c.is) || !strings.Contains(err.Error(), c.wantText) {
			t.Errorf("%s: got %v, want %v that says %q", c.name, err, c.is, c.wantText)
		}
	}
	if _, _, err := (Reviews{}).Make(sentences(3, 0, 3, 3)); !errors.Is(err, ErrTooFew) {
		t.Errorf("reviews of one kind: got %v", err)
	}
	if _, _, err := (Reviews{MaxTestBags: -1}).Make(enough); !errors.Is(err, ErrProtocol) {
		t.Errorf("a negative cap of reviews: got %v", err)
	}
}

func ExampleProtocol() {
	_, test, err := Protocol{SigmaMicro: 2, SigmaMacro: 1}.Make(Sentences{
		Train: Split{Normal: numbered("Well done", 10), Anomalous: numbered("You fool", 2)},
		Test:  Split{Normal: []string{"Thanks.", "See you.", "Sure.", "Great.", "Fine."}, Anomalous: []string{"Get lost."}},
	})
	if err != nil {
		panic(err)
	}
	for _, b := range test {
		fmt.Println(b.Label, len(b.Instances), b.Witness != nil)
	}
	// Output:
	// violation 3 true
	// compliant 3 false
}
