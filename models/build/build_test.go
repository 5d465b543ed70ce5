package main

import (
	"bytes"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"assay/rewardmodel/bag"
	"assay/rewardmodel/tokenizer"
)

// dataDirectory returns the directory of the data sets, or skips the test.
func dataDirectory(t *testing.T) string {
	t.Helper()
	dir := os.Getenv("ASSAY_DATA")
	if dir == "" {
		dir = filepath.Join("..", "..", "..", "shared", "data")
	}
	if _, err := os.Stat(dir); err != nil {
		t.Skip("no data sets; set ASSAY_DATA to their directory")
	}
	return dir
}

func TestClean(t *testing.T) {
	for text, want := range map[string]string{
		" so &amp;amp; so &#8230; ": "so & so …",
		"love <span class='emoji-bytes' data-emoji-bytes='[240, 159, 146, 152]'></span> you": "love 💘 you",
		"it doesn\ufffd\ufffdt\t matter": "it doesnt matter",
		"two\n\nlines":                   "two\n\nlines",
	} {
		if got := cleanText(text); got != want {
			t.Errorf("cleanText(%q) is %q, want %q", text, got, want)
		}
	}
	for text, want := range map[string]string{
		`!!! RT @somebody: nice day http://t.co/abc`: "nice day",
		`"@abcd: hello" @abcd there`:                 `hello" @user there`,
		"@abc @abcd":                                 "@user",
	} {
		if got := cleanTweet(text); got != want {
			t.Errorf("cleanTweet(%q) is %q, want %q", text, got, want)
		}
	}
}

func TestRanges(t *testing.T) {
	got, err := ranges("[3, 4, 5, 9, 11, 12]")
	if err != nil || !slices.Equal(got, [][2]int{{3, 6}, {9, 10}, {11, 13}}) {
		t.Errorf("got %v, %v", got, err)
	}
	if got, err := ranges("[]"); err != nil || got == nil || len(got) != 0 {
		t.Errorf("no offsets give %#v, %v; want an empty list that is not nil", got, err)
	}
}

func TestReadConvAbuse(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rated.csv")
	text := "user,a_is_abuse.1,a_is_abuse.0,a_is_abuse.-1,a_is_abuse.-3,b_is_abuse.1,b_is_abuse.-1\r\n" +
		"hello,1,0,0,0,1,0\r\nbad,0,0,0,1,1,0\r\nhm,1,0,0,0,0,1\r\n\"well, no\",\"1, 0\",0,\"0, 1\",0,0,1\r\n"
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	got, err := readConvAbuse(path)
	if err != nil {
		t.Fatal(err)
	}
	want := []item{
		{source: convAbuse, label: bag.Compliant, text: "hello"},
		{source: convAbuse, label: bag.Violation, text: "bad"},
		{source: convAbuse, label: bag.Compliant, text: "hm", kind: disputed},
		{source: convAbuse, label: bag.Violation, text: "well, no"},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestFramesAreFilled(t *testing.T) {
	c, err := newComposer(rand.New(rand.NewPCG(1, 1)))
	if err != nil {
		t.Fatal(err)
	}
	frames := 0
	for _, topics := range [][]topic{c.assistant, c.comments} {
		for _, topic := range topics {
			frames += len(topic.frames)
			for _, text := range c.fill(slices.Clone(topic.frames)) {
				if found := slot.FindString(text); found != "" {
					t.Errorf("%s: %q has no values in slots.txt", topic.name, found)
				}
			}
		}
	}
	if frames < 400 || len(c.assistant) < 40 {
		t.Errorf("%d frames on %d topics, want 400 on 40", frames, len(c.assistant))
	}
	for n := 1; n <= 12; n++ {
		if got := len(c.answer(n)); got != n {
			t.Errorf("an answer of %d parts has %d", n, got)
		}
		if got := len(c.comment(n)); got != n {
			t.Errorf("a comment of %d parts has %d", n, got)
		}
	}
}

// The pairs on which the model is evaluated must not be in the training text.
func TestFramesAreNotInTheCheck(t *testing.T) {
	check, err := os.ReadFile(filepath.Join("..", "..", "rewardmodel", "eval", "testdata", "smoke.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	frames := map[string]bool{}
	for _, name := range []string{"assistant", "comments", "frame"} {
		text, err := texts.ReadFile("text/" + name + ".txt")
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			frames[fold(line)] = true
		}
	}
	for b, err := range bag.Read(bytes.NewReader(check)) {
		if err != nil {
			t.Fatal(err)
		}
		segments, err := b.Segments(t.Context(), 0, nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range segments {
			if frames[fold(s.Text)] {
				t.Errorf("%s: %q is a frame, too", b.ID, s.Text)
			}
		}
	}
}

// small returns a corpus with a few texts of each label per source.
func small() corpus {
	c := corpus{evaluation: map[string][]item{
		diaSafety: {{source: diaSafety, text: "This long sentence is held out for the evaluation."}},
	}}
	for i := range 60 {
		word := strings.Repeat("x", i+1)
		for _, source := range []string{diaSafety, convAbuse, hateOffensive} {
			c.train = append(c.train,
				item{source: source, label: bag.Compliant, text: source + " says " + word + " kindly."},
				item{source: source, label: bag.Violation, text: source + " says " + word + " rudely."})
		}
		c.train = append(c.train, item{source: toxicSpans, label: bag.Violation, text: "One " + word + ". Two." + strings.Repeat(" Three.", i%3)})
	}
	c.train = append(c.train,
		item{source: diaSafety, label: bag.Violation, text: "this long  sentence is held out for the evaluation."},
		item{source: convAbuse, label: bag.Compliant, text: "a disputed text", kind: disputed})
	return c
}

func TestMix(t *testing.T) {
	bags, err := mix(small(), 3)
	if err != nil {
		t.Fatal(err)
	}
	again, err := mix(small(), 3)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(bags, again) {
		t.Error("the same seed gives other bags")
	}
	ids, surplus := map[string]bool{}, map[int]int{}
	for _, b := range bags {
		if ids[b.bag.ID] {
			t.Fatalf("id %s occurs twice", b.bag.ID)
		}
		ids[b.bag.ID] = true
		if b.bag.Spans != nil || b.bag.Witness != nil {
			t.Fatalf("%s carries gold marks", b.bag.ID)
		}
		if b.bag.Response == "a disputed text" || strings.Contains(b.bag.Response, "held out for") {
			t.Errorf("%s holds a text that must not be trained on", b.bag.ID)
		}
		if b.bag.Label == bag.Violation {
			surplus[min(b.instances, longest)]++
		} else {
			surplus[min(b.instances, longest)]--
		}
	}
	for n, s := range surplus {
		if s > 0 {
			t.Errorf("%d more violations than normal bags of %d instances", s, n)
		}
	}
	if err := table(io.Discard, bags); err != nil {
		t.Error(err)
	}
}

func TestBagsOfTheDataSets(t *testing.T) {
	cfg := config{data: dataDirectory(t), work: t.TempDir()}
	if err := writeBags(cfg, io.Discard); err != nil {
		t.Fatal(err)
	}
	want := map[string]int{"eval-toxic_spans": 690, "eval-diasafety": 1097, "eval-convabuse": 831}
	for name := range want {
		file, err := os.Open(filepath.Join(cfg.work, name+".jsonl"))
		if err != nil {
			t.Fatal(err)
		}
		for _, err := range bag.Read(file) {
			if err != nil {
				t.Error(err)
			}
			want[name]--
		}
		file.Close()
	}
	for name, left := range want {
		if left != 0 {
			t.Errorf("%s has %d bags less than the set", name, left)
		}
	}
}

func TestCutTokenizer(t *testing.T) {
	dir := t.TempDir()
	const merges = 500
	if err := cutTokenizer(filepath.Join(dataDirectory(t), "roberta_tokenizer"), dir, merges); err != nil {
		t.Fatal(err)
	}
	tok, err := tokenizer.Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := tok.VocabSize(), len(firstSpecial)+256+merges+1; got != want {
		t.Errorf("%d tokens, want %d", got, want)
	}
	text := "The lighthouse, naïve 😀"
	var back []byte
	for _, id := range tok.IDs(text) {
		back = append(back, tok.DecodeToken(id)...)
	}
	if string(back) != text {
		t.Errorf("%q comes back as %q", text, back)
	}
}

func TestWordPieces(t *testing.T) {
	dir := t.TempDir()
	words := []string{"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "in", "##in", "##g", "##the", "'", "s", "##s", "5", "##5"}
	if err := os.WriteFile(filepath.Join(dir, "vocab.txt"), []byte(strings.Join(words, "\n")+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	tok, err := tokenizer.Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	ids := map[string]int32{}
	for id, word := range words {
		ids[word] = int32(id)
	}
	for text, want := range map[string][]string{
		" the": {"the"}, "the": {"##the"}, "The": {"the"}, " THE": {"the"}, "THE": {"##the"},
		"ing": {"##in", "##g"}, "'s": {"'", "s"}, "s'": {"##s", "'"}, "5": {"##5"}, " ": nil, "qq": {"[UNK]"},
	} {
		var got []string
		for _, id := range wordPieces(tok, ids, text) {
			got = append(got, words[id])
		}
		if !slices.Equal(got, want) {
			t.Errorf("%q is %v, want %v", text, got, want)
		}
	}

	// Two columns: the id, and one.
	old := make([]float32, 0, 2*len(words))
	for id := range words {
		old = append(old, float32(id), 1)
	}
	bpe := t.TempDir()
	if err := cutTokenizer(filepath.Join(dataDirectory(t), "roberta_tokenizer"), bpe, 300); err != nil {
		t.Fatal(err)
	}
	cut, err := tokenizer.Load(bpe)
	if err != nil {
		t.Fatal(err)
	}
	rows, err := blend(cut, tok, old, 2)
	if err != nil {
		t.Fatal(err)
	}
	for token, want := range map[string]float32{
		"<s>": 2, "<pad>": 0, "</s>": 3, "<mask>": 4, "Ġthe": 5, "ing": 7.5, "Ġ": 1,
	} {
		at := slices.Index(cut.Vocab(), token)
		if at < 0 || rows[2*at] != want || rows[2*at+1] != 1 {
			t.Errorf("%s (id %d) is the mean of ids %v, want %v", token, at, rows[2*at:][:2], want)
		}
	}
}

func TestRunNamesTheSteps(t *testing.T) {
	err := run([]string{"--work", t.TempDir(), "model"}, io.Discard)
	if err == nil || !strings.Contains(err.Error(), "base, bags, prompted, aspects, all and ship") {
		t.Errorf("got %v", err)
	}
	err = run([]string{"--work", t.TempDir(), "--data", t.TempDir(), "bags"}, io.Discard)
	if err == nil || !strings.Contains(err.Error(), "--data") {
		t.Errorf("got %v", err)
	}
	err = run([]string{"--work", t.TempDir(), "--minilm", os.DevNull, "base"}, io.Discard)
	if err == nil || !strings.Contains(err.Error(), "SHA-256") {
		t.Errorf("got %v", err)
	}
}
