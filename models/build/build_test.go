package main

import (
	"bytes"
	"encoding/json"
	"fmt"
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

// TestReadersOfEvaluationSets reads sets that are never trained on.
func TestReadersOfEvaluationSets(t *testing.T) {
	for name, c := range map[string]struct {
		read  func(path string) ([]example, error)
		lines string
		want  []example
	}{
		"preferences": {readPreferences, `{"context":[{"content":"Hello"},{"content":"Why?"}],"chosen":"Good.","rejected":"Bad."}`, []example{
			{hh, "Why?Good.", with(complies(), "Why?", "Good."), fields{}},
			{hh, "Why?Good.", with(violates(harm), "Why?", "Bad."), fields{}},
		}},
		"requests": {readRequests, `{"prompt":"Kill a process?","prompt_type":"homonyms","response":"kill","refusal":"1_full_compliance"}
{"prompt":"Kill a man?","prompt_type":"contrast_homonyms","response":"So","refusal":"1_full_compliance"}
{"prompt":"Kill a man?","prompt_type":"contrast_homonyms","response":"No","refusal":"2_full_refusal"}
{"prompt":"Kill a man?","prompt_type":"contrast_homonyms","response":"No, but","refusal":"3_partial_refusal"}`, []example{
			{xsTest, "Kill a process?", with(complies(), "Kill a process?", "kill"), fields{Category: "homonyms"}},
			{xsTest, "Kill a man?", with(violates(harm), "Kill a man?", "So"), fields{Category: "contrast_homonyms"}},
			{xsTest, "Kill a man?", with(complies(), "Kill a man?", "No"), fields{Category: "contrast_homonyms"}},
		}},
	} {
		path := filepath.Join(t.TempDir(), "set.jsonl")
		if err := os.WriteFile(path, []byte(c.lines), 0o644); err != nil {
			t.Fatal(err)
		}
		if got, err := c.read(path); err != nil || !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: got %+v, %v; want %+v", name, got, err, c.want)
		}
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

// few are examples of all sources that the mixture places among others.
func few() []example {
	var out []example
	for i := range 60 {
		word := strings.Repeat("x", i+1)
		for _, source := range []string{pairs, edos, hatemoji, diaSafety, convAbuse, ratedSentence, toxicSpans} {
			out = append(out,
				example{source: source, bag: with(complies(), "", source+" says "+word+" kindly.")},
				example{source: source, bag: with(violates(toxicity), "", source+" says "+word+" rudely.")})
		}
		out = append(out, example{source: document, bag: with(complies(), "", "A document. "+strings.Repeat("It says "+word+". ", 9))})
	}
	return out
}

func TestMixExamples(t *testing.T) {
	bags, err := mixExamples(few(), 3)
	if err != nil {
		t.Fatal(err)
	}
	again, err := mixExamples(few(), 3)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(bags, again) {
		t.Error("the same seed gives other bags")
	}
	count := map[string]map[bag.Label]int{}
	for _, e := range bags {
		if e.bag.Spans != nil || e.bag.Witness != nil {
			t.Fatalf("%s: %q carries gold marks", e.source, e.bag.Response)
		}
		if utterances(e.bag) == 0 {
			t.Errorf("%s: a bag without utterances", e.source)
		}
		if count[e.source] == nil {
			count[e.source] = map[bag.Label]int{}
		}
		count[e.source][e.bag.Verdict()]++
	}
	all := 0
	for _, s := range embeddable {
		source := s.source
		if source == toxicSpans {
			source = ratedSentence
		}
		of := count["embedded-"+source]
		if of[bag.Violation] != of[bag.Compliant] {
			t.Errorf("%s is embedded %v times", source, of)
		}
		all += of[bag.Violation]
	}
	if all != embedded {
		t.Errorf("%d violations are embedded, want %d", all, embedded)
	}
	sources, last := map[string]int{}, map[string]int{}
	for _, e := range bags {
		sources[e.source]++
	}
	for _, e := range lastEpoch(bags) {
		last[e.source]++
	}
	others := 0
	for source, n := range last {
		if limit, ok := lastBags[source]; !ok {
			others += n
		} else if want := min(limit, sources[source]); n != want {
			t.Errorf("the last epoch has %d of %d bags of %s, want %d", n, sources[source], source, want)
		}
	}
	if others != otherBags {
		t.Errorf("the last epoch has %d other bags, want %d", others, otherBags)
	}
	for i, e := range inOneInstance(bags) {
		text, short := bags[i].bag.Response, len(strings.Fields(bags[i].bag.Response)) <= inOneWords
		if one := slices.Equal(e.bag.Instances, []string{text}) && e.bag.Response == ""; one != (short && slices.Contains(inOne, e.source)) {
			t.Errorf("%s of %d words in one instance: %v", e.source, len(strings.Fields(text)), one)
		}
	}
	if _, err := mixExamples(few()[:2], 3); err == nil || !strings.Contains(err.Error(), "is the set whole?") {
		t.Errorf("without %s: %v", edos, err)
	}
}

func TestPassages(t *testing.T) {
	const before, bad, after = "One. Two two. Three!", "Bad bad.", "Four.\n\nFive five? Six."
	whole := passagesOf(bag.Bag{Response: before + " " + bad + " " + after})
	start := len(before) + 1
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 0))
		with, without := whole.about(rng, [2]int{start, start + len(bad)})
		if !strings.Contains(string(whole.text), with) || strings.Count(with, bad) != 1 {
			t.Fatalf("%q is not a part with the sentence", with)
		}
		left, right, _ := strings.Cut(with, bad)
		if without != strings.TrimRight(left, " ")+right {
			t.Fatalf("%q is not %q without the sentence", without, with)
		}
		between := whole.random(rng).around("Here.")
		if strings.Count(between, "Here.") != 1 || utterances(bag.Bag{Response: between}) < 2 {
			t.Fatalf("got %q", between)
		}
		left, right, _ = strings.Cut(between, "Here.")
		for _, part := range []string{strings.TrimSpace(left), strings.TrimSpace(right)} {
			if !strings.Contains(string(whole.text), part) {
				t.Fatalf("%q is not a part of the document", part)
			}
		}
	}
}

func TestRatings(t *testing.T) {
	train := []example{
		{source: toxicSpans, bag: with(violates(toxicity), "", "A fine day. You fool. Who knows?")},
		{source: toxicSpans, bag: with(violates(toxicity), "", "Only one sentence.")},
		{source: edos, bag: with(complies(sexism), "", "Shut up, clown.")},
		{source: edos, bag: with(complies(sexism), "", "Nice weather.")},
		{source: hatemoji, bag: with(violates(hate), "", "Away with them.")},
	}
	if got, want := toRate(train), []string{"A fine day.", "Nice weather.", "Shut up, clown.", "Who knows?", "You fool."}; !slices.Equal(got, want) {
		t.Errorf("%q are to be rated, want %q", got, want)
	}
	rated := ratings{"A fine day.": 0.01, "You fool.": 0.9, "Who knows?": 0.3, "Shut up, clown.": 0.8, "Nice weather.": 0.02}
	want := []example{
		{source: ratedSentence, group: "A fine day.", bag: with(complies(toxicity), "", "A fine day.")},
		{source: ratedSentence, group: "You fool.", bag: with(violates(toxicity), "", "You fool.")},
	}
	if got := rated.sentences(train); !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if got, want := rated.harmless(train), slices.Delete(slices.Clone(train), 2, 3); !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

// The files of the sets and of the training bags, with ratings that need no classifier.
func TestFilesOfTheDataSets(t *testing.T) {
	if testing.Short() {
		t.Skip("reads and segments all sets three times")
	}
	cfg := config{data: dataDirectory(t), work: t.TempDir(), corpus: "corpus"}
	if err := writeSets(cfg, io.Discard); err != nil {
		t.Fatal(err)
	}
	s, err := readExamples(cfg)
	if err != nil {
		t.Fatal(err)
	}
	texts := toRate(s.train)
	scores := make([]float64, len(texts))
	for i := range scores {
		scores[i] = float64(i%5) / 4
	}
	for name, value := range map[string]any{
		"to-rate.json": map[string]any{"texts": texts, "classifiers": []string{weakRater}},
		"rated.json":   map[string]any{weakRater: scores},
	} {
		data, err := json.Marshal(value)
		if err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(cfg.work, name), string(data))
	}
	if err := writeBags(cfg, io.Discard); err != nil {
		t.Fatal(err)
	}
	fewest := map[string]int{"test-toxic_spans": 600, "test-diasafety": 800, "test-convabuse": 400, "validation-pairs": 1500, "train": 80_000}
	for name, fewest := range fewest {
		file, err := os.Open(filepath.Join(cfg.work, name+".jsonl"))
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for b, err := range bag.Read(file) {
			if err != nil {
				t.Error(err)
			}
			if name == "train" && b.Label == "" {
				t.Fatalf("%s has no label of the response as a whole", b.ID)
			}
			n++
		}
		file.Close()
		if n < fewest {
			t.Errorf("%s has %d bags, want at least %d", name, n, fewest)
		}
	}
}

func TestVocabulary(t *testing.T) {
	minilm, names := t.TempDir(), filepath.Join(t.TempDir(), "names")
	words := []string{"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "skull", "and", "cross", "##bones", "♥", "great"}
	for i := range 994 {
		words = append(words, fmt.Sprintf("[unused%d]", i))
	}
	if err := os.WriteFile(filepath.Join(minilm, "vocab.txt"), []byte(strings.Join(words, "\n")+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	described, err := writeVocabulary(minilm, names)
	if err != nil {
		t.Fatal(err)
	}
	pieces, err := tokenizer.Load(names)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, id := range pieces.IDs("Great☠\uFE0F☠ 😂👍🏽 ♥") {
		got = append(got, pieces.Token(id))
	}
	if want := []string{"great", "##☠", "##☠", "😂", "##👍", "##🏽", "♥"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}

	embeddings := make([]float32, 0, 2*pieces.VocabSize())
	for id := range pieces.VocabSize() {
		embeddings = append(embeddings, float32(id), 1)
	}
	if err := describe(pieces, described, embeddings, 2); err != nil {
		t.Fatal(err)
	}
	for token, want := range map[string]float32{"☠": (5 + 6 + 7 + 8) / 4., "##☠": (5 + 6 + 7 + 8) / 4., "great": 10, "♥": 9} {
		at := slices.Index(pieces.Vocab(), token)
		if at < 0 || embeddings[2*at] != want || embeddings[2*at+1] != 1 {
			t.Errorf("%s (id %d) is %v, want %v and 1", token, at, embeddings[2*at:][:2], want)
		}
	}
}

func TestRunNamesTheSteps(t *testing.T) {
	err := run([]string{"--work", t.TempDir(), "model"}, io.Discard)
	if err == nil || !strings.Contains(err.Error(), "base, sets, bags, prompted, average and ship") {
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

func TestComparisons(t *testing.T) {
	twin := func(pair int, b bag.Bag, text string) example {
		return example{source: pairs, bag: with(b, "", text), fields: fields{pair: pair}}
	}
	examples := []example{
		twin(1, violates(hate), "a"), twin(1, complies(), "b"),
		twin(2, violates(hate), "c"), // its twin repeats a text
		twin(3, complies(), "d"),
		twin(4, violates(hate), "e"), twin(4, complies(), "f"),
		{source: edos, bag: with(complies(sexism), "", "g")},
		{source: diaSafety, bag: with(violates(harm), "", "h"), fields: fields{Category: "Risk Ignorance"}},
		{source: convAbuse, bag: with(complies(), "", "i")},
	}
	compared := map[string]string{}
	for _, e := range append(comparedByRule(examples), comparedTwins(pairs, examples, 1)...) {
		compared[e.bag.Response] = e.bag.Comparison
	}
	if compared["a"] != compared["b"] || compared["e"] != compared["f"] || compared["a"] == compared["e"] {
		t.Errorf("twins are compared as %v", compared)
	}
	if compared["g"] != edos || compared["h"] != diaSafety+" Risk Ignorance" || len(compared) != 6 {
		t.Errorf("comparisons %v: want the two of a rule and four twins", compared)
	}
	third, rest := thirds(examples)
	if len(third) != 3 || len(rest) != 6 || third[1].bag.Response != examples[3].bag.Response {
		t.Errorf("every third of 9 are %d, the others %d", len(third), len(rest))
	}
	emoji := func(group string, b bag.Bag) example { return example{source: hatemoji, group: group, bag: b} }
	twins := comparedEmojiTwins([]example{
		emoji("0 1", violates(hate)), emoji("2 3", violates(hate)), emoji("0 1", complies()), emoji("2 3", violates(hate)), emoji("4 5", complies()),
	})
	if len(twins) != 2 || twins[0].group != "0 1" || twins[0].bag.Comparison == "" || twins[0].bag.Comparison != twins[1].bag.Comparison {
		t.Errorf("twins of emoji: %v", twins)
	}
}

// Half of the bags get turns of others before their own prompt, twins the same ones.
func TestUnrelatedTurns(t *testing.T) {
	var bags []example
	for i := range 400 {
		bags = append(bags, example{source: pairs, bag: bag.Bag{Response: fmt.Sprint("r", i), Prompt: []string{"", "p"}[i%2]}})
	}
	turns := map[int]int{}
	for i, e := range withUnrelatedTurns(bags, 1) {
		turn, own := e.bag.Prompt, bags[i].bag.Prompt
		if own != "" {
			if !strings.HasSuffix(turn, own) {
				t.Fatalf("the prompt of bag %d is %q, without its own", i, turn)
			}
			turn = strings.TrimSuffix(turn, own)
		}
		turns[len(strings.Fields(turn))]++
	}
	if turns[0] < 150 || turns[0] > 250 || turns[1] < 70 || turns[3] < 70 || len(turns) != 3 {
		t.Errorf("bags by the number of turns that they got: %v", turns)
	}
	if bags[0].bag.Prompt != "" {
		t.Error("the bags themselves were changed")
	}

	var examples []example
	for i := range 40 {
		for _, b := range []bag.Bag{violates(hate), complies()} {
			b.Response = fmt.Sprint(i, b.Label)
			examples = append(examples, example{source: pairs, fields: fields{pair: i + 1}, bag: b}, example{source: hatemoji, group: fmt.Sprint(i), bag: b})
		}
	}
	slices.SortStableFunc(examples, func(a, b example) int { return strings.Compare(a.source, b.source) })
	first, second := comparedInTurns(examples, 1)
	if slices.ContainsFunc(fromSource(pairs, second), func(e example) bool { return e.bag.Comparison == first[0].bag.Comparison }) {
		t.Error("both halves have the first pair")
	}
	for _, half := range [][]example{first, second} {
		if n := len(fromSource(pairs, half)); n != 40 || len(half) != 40+80 {
			t.Errorf("a half has %d texts of pairs, and %d in all", n, len(half))
		}
		for i := 0; i < len(half); i += 2 {
			a, b := half[i].bag, half[i+1].bag
			if a.Comparison != b.Comparison || a.Prompt != b.Prompt || a.Verdict() == b.Verdict() {
				t.Errorf("twins %d: %+v and %+v", i/2, a, b)
			}
		}
	}
}

// The bags of comments that follow the last epoch's are none of its own, and at most moreComments of each source.
func TestCommentsAfter(t *testing.T) {
	var bags []example
	for i := range moreComments + 20 {
		bags = append(bags, example{source: toxicSpans, bag: bag.Bag{Response: fmt.Sprint(i)}}, example{source: edos},
			example{source: ratedSentence, bag: bag.Bag{Response: fmt.Sprint(i)}})
	}
	after := commentsAfter(bags, bags[:30])
	if len(after) != 2*moreComments {
		t.Fatalf("%d bags, want %d", len(after), 2*moreComments)
	}
	for i, want := range map[int]example{0: bags[30], moreComments: bags[32]} {
		if got := after[i]; got.source != want.source || got.bag.Response != want.bag.Response {
			t.Errorf("bag %d is %s %s, want %s %s", i, got.source, got.bag.Response, want.source, want.bag.Response)
		}
	}
}
