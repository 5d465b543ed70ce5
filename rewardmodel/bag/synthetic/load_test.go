package synthetic

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"assay/rewardmodel/bag"
)

func gzipped(t *testing.T, text string) []byte {
	t.Helper()
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	if _, err := w.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func TestLoadSplits(t *testing.T) {
	files := fstest.MapFS{
		"sst2_stsa/stsa.binary.train": {Data: []byte("1 good one .\r\n0 bad one\n\n1 1 more")},
		"sst2_stsa/stsa.binary.test":  {Data: []byte("0 poor\n1 fine\n")},
		"imdb/train.jsonl.gz": {Data: gzipped(t, `{"id":1,"label":1,"text":"Good.<br />Yes."}
{"id":2,"label":0,"text":"Bad."}
`)},
		"imdb/test.jsonl.gz": {Data: gzipped(t, `{"label":0,"text":"Poor."}`)},
	}
	for dataset, want := range map[string]Sentences{
		SST2: {SigmaMax: 10, Train: Split{[]string{"good one .", "1 more"}, []string{"bad one"}}, Test: Split{[]string{"fine"}, []string{"poor"}}},
		IMDB: {SigmaMax: 5, Train: Split{[]string{"Good.<br />Yes."}, []string{"Bad."}}, Test: Split{nil, []string{"Poor."}}},
	} {
		if got, err := load(dataset, files); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got %+v, %v; want %+v", dataset, got, err, want)
		}
	}
}

func TestLoadHoldsOutAFifth(t *testing.T) {
	files := fstest.MapFS{
		"sentiment140/positive.txt": {Data: []byte(strings.Join(numbered("good", 2000), "\n"))},
		"sentiment140/negative.txt": {Data: []byte(strings.Join(numbered("bad", 1000), "\n") + "\nbad 1\nbad 2\n")},
	}
	s, err := load(Sentiment140, files)
	if err != nil {
		t.Fatal(err)
	}
	if s.SigmaMax != 10 {
		t.Errorf("sigma max is %d, want 10", s.SigmaMax)
	}
	for name, c := range map[string]struct {
		kept, held []string
		all        int
	}{"normal": {s.Train.Normal, s.Test.Normal, 2000}, "anomalous": {s.Train.Anomalous, s.Test.Anomalous, 1002}} {
		if len(c.kept)+len(c.held) != c.all || len(c.held) < c.all*17/100 || len(c.held) > c.all*23/100 {
			t.Errorf("%s: %d kept and %d held out of %d", name, len(c.kept), len(c.held), c.all)
		}
		for _, text := range c.held {
			if slices.Contains(c.kept, text) {
				t.Errorf("%q is on both sides", text)
			}
		}
	}
}

func TestLoadBlitzer(t *testing.T) {
	review := func(text string) string {
		return "<review>\n<title>\nno\n</title>\n<review_text>\n" + text + "\n</review_text>\n</review>\n"
	}
	files := fstest.MapFS{}
	for _, domain := range []string{"books", "dvd", "electronics", "kitchen"} {
		files["amazon_blitzer/"+domain+".positive.review"] = &fstest.MapFile{Data: []byte(review("") + review("Good "+domain))}
		files["amazon_blitzer/"+domain+".negative.review"] = &fstest.MapFile{Data: []byte(review("Bad &quot;" + domain + "&quot;\n\n na\x1ave <b>"))}
	}
	s, err := load(Amazon, files)
	if err != nil {
		t.Fatal(err)
	}
	normal, anomalous := append(s.Train.Normal, s.Test.Normal...), append(s.Train.Anomalous, s.Test.Anomalous...)
	if len(normal) != 4 || !slices.Contains(normal, "Good dvd") {
		t.Errorf("normal texts are %q", normal)
	}
	if len(anomalous) != 4 || !slices.Contains(anomalous, "Bad \"books\"\nna\uFFFDve <b>") {
		t.Errorf("anomalous texts are %q", anomalous)
	}
}

func TestLoadRejects(t *testing.T) {
	_, err := Load(SST2, filepath.Join(t.TempDir(), "nowhere"))
	for _, part := range []string{"stsa.binary.train", "nowhere", "ASSAY_DATA"} {
		if !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), part) {
			t.Errorf("got %v, want ErrNotExist that says %q", err, part)
		}
	}
	if _, err := Load("sst3", "."); !errors.Is(err, ErrUnknown) || !strings.Contains(err.Error(), "sst2") {
		t.Errorf("an unknown set: got %v", err)
	}
	sst := func(text string) fstest.MapFS {
		return fstest.MapFS{"sst2_stsa/stsa.binary.train": {Data: []byte(text)}}
	}
	imdb := func(data []byte) fstest.MapFS { return fstest.MapFS{"imdb/train.jsonl.gz": {Data: data}} }
	for name, c := range map[string]struct {
		dataset  string
		files    fs.FS
		wantText string
	}{
		"no label":       {SST2, sst("good"), "0 or 1"},
		"an odd label":   {SST2, sst("2 good"), "0 or 1"},
		"no text":        {SST2, sst("1"), "0 or 1"},
		"not UTF-8":      {SST2, sst("1 a\n1 \xff"), "line 2"},
		"no gzip":        {IMDB, imdb([]byte("no gzip at all")), "gzip"},
		"cut gzip":       {IMDB, imdb(gzipped(t, `{"label":1,"text":"Good."}`)[:30]), "EOF"},
		"no JSON":        {IMDB, imdb(gzipped(t, "{")), "imdb/train.jsonl.gz"},
		"label missing":  {IMDB, imdb(gzipped(t, `{"text":"Good."}`)), "no label"},
		"label -1":       {IMDB, imdb(gzipped(t, `{"label":-1,"text":"Good."}`)), "-1"},
		"an open review": {Amazon, fstest.MapFS{"amazon_blitzer/books.positive.review": {Data: []byte("<review_text>\nGood")}}, "ends before"},
	} {
		if _, err := load(c.dataset, c.files); !errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), c.wantText) {
			t.Errorf("%s: got %v, want ErrFormat that says %q", name, err, c.wantText)
		}
	}
}

// data returns the directory of the public data sets, or skips the test.
func data(t *testing.T, set string) string {
	t.Helper()
	dir := os.Getenv("ASSAY_DATA")
	if dir == "" {
		dir = "../../../../shared/data"
	}
	if _, err := os.Stat(filepath.Join(dir, set)); err != nil {
		t.Skipf("no data here, set ASSAY_DATA to the directory that contains %s/: %v", set, err)
	}
	return dir
}

func TestCountsOfTheDataSets(t *testing.T) {
	for _, c := range []struct {
		dataset, dataDir string
		want             [4]int // training normal and anomalous, test normal and anomalous
	}{
		{SST2, "sst2_stsa", [4]int{3610, 3310, 909, 912}},
		{IMDB, "imdb", [4]int{12500, 12500, 12500, 12500}},
		{Sentiment140, "sentiment140", [4]int{39909, 39988, 10091, 10012}},
		{Amazon, "amazon_blitzer", [4]int{3204, 3129, 796, 871}},
	} {
		t.Run(c.dataset, func(t *testing.T) {
			s, err := Load(c.dataset, data(t, c.dataDir))
			if err != nil {
				t.Fatal(err)
			}
			got := [4]int{len(s.Train.Normal), len(s.Train.Anomalous), len(s.Test.Normal), len(s.Test.Anomalous)}
			if got != c.want {
				t.Errorf("got %v, want %v", got, c.want)
			}
			for _, macro := range []int{1, 5, 10} {
				if _, _, err := (Protocol{SigmaMicro: s.SigmaMax, SigmaMacro: macro, SigmaMax: s.SigmaMax}).Make(s); err != nil {
					t.Errorf("sigma_macro %d: %v", macro, err)
				}
			}
			if _, _, err := (Reviews{MaxBags: 10, MaxTestBags: 10}).Make(s); err != nil {
				t.Error(err)
			}
		})
	}
}

// shape is what two samples of one protocol have in common.
type shape struct{ violations, compliant, instances, witnesses int }

func shapeOf(bags []bag.Bag, micro int, t *testing.T) (s shape) {
	t.Helper()
	for _, b := range bags {
		switch {
		case len(b.Instances) != micro+1:
			t.Fatalf("bag %s has %d instances", b.ID, len(b.Instances))
		case b.Label == bag.Violation:
			s.violations++
		default:
			s.compliant++
		}
		s.instances += len(b.Instances)
		if b.Witness != nil {
			s.witnesses++
		}
	}
	return s
}

// TestReadyMadeBags compares the bags with those that another program created by the
// same protocol: in number, shape and kinds of sentences.
func TestReadyMadeBags(t *testing.T) {
	dir := data(t, "bags_sst2")
	s, err := Load(SST2, data(t, "sst2_stsa"))
	if err != nil {
		t.Fatal(err)
	}
	for _, micro := range []int{2, 4, 6, 8, 10} {
		for seed := range uint64(3) {
			train, test, err := Protocol{SigmaMicro: micro, SigmaMacro: 1, SigmaMax: s.SigmaMax, Seed: seed}.Make(s)
			if err != nil {
				t.Fatal(err)
			}
			for _, c := range []struct {
				name  string
				ours  []bag.Bag
				split Split
			}{{"train", train, s.Train}, {"test", test, s.Test}} {
				name := filepath.Join(dir, "bags_sst2", fmt.Sprintf("sigma%d", micro), fmt.Sprintf("%s.%d.jsonl", c.name, seed))
				theirs := readBags(t, name)
				if got, want := shapeOf(c.ours, micro, t), shapeOf(theirs, micro, t); got != want {
					t.Errorf("%s holds %+v, ours %+v", name, want, got)
				}
				requireKinds(t, theirs, c.split)
				requireKinds(t, c.ours, c.split)
			}
		}
	}
}

func readBags(t *testing.T, name string) []bag.Bag {
	t.Helper()
	file, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	var bags []bag.Bag
	for b, err := range bag.Read(file) {
		if err != nil {
			t.Fatal(err)
		}
		bags = append(bags, b)
	}
	return bags
}

// requireKinds fails unless the witness is the only anomalous sentence.
func requireKinds(t *testing.T, bags []bag.Bag, s Split) {
	t.Helper()
	kinds := map[bool]map[string]bool{false: {}, true: {}}
	for anomalous, texts := range map[bool][]string{false: s.Normal, true: s.Anomalous} {
		for _, text := range texts {
			kinds[anomalous][text], kinds[anomalous][misread(text)] = true, true
		}
	}
	for _, b := range bags {
		for i, text := range b.Instances {
			if !kinds[b.Witness != nil && i == *b.Witness][text] {
				t.Fatalf("bag %s: instance %d is not of its kind", b.ID, i)
			}
		}
	}
}

// misread decodes UTF-8 as Latin-1, as in the accents of the ready-made bags.
func misread(text string) string {
	var out strings.Builder
	for _, b := range []byte(text) {
		out.WriteRune(rune(b))
	}
	return out.String()
}

func FuzzReaders(f *testing.F) {
	f.Add([]byte("1 good\n0 bad\n"))
	f.Add([]byte(`{"label":1,"text":"Good."}`))
	f.Add([]byte("<review_text>\nGood &quot;one&quot;\n</review_text>\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		for _, read := range []func(*bytes.Reader) ([]string, error){
			func(r *bytes.Reader) ([]string, error) { return ReadLines(r) },
			func(r *bytes.Reader) ([]string, error) { return readBlitzer(r) },
			func(r *bytes.Reader) ([]string, error) {
				s, err := readSST(r)
				return append(s.Normal, s.Anomalous...), err
			},
			func(r *bytes.Reader) ([]string, error) {
				s, err := readReviews(r)
				return append(s.Normal, s.Anomalous...), err
			},
		} {
			texts, err := read(bytes.NewReader(text))
			if err != nil {
				continue
			}
			// Loaded data results in bags that can be written.
			if err := bag.Write(&bytes.Buffer{}, func(yield func(bag.Bag) bool) {
				if len(texts) > 0 {
					yield(bag.Bag{ID: "a", Label: bag.Compliant, Instances: texts})
				}
			}); err != nil {
				t.Fatal(err)
			}
		}
	})
}
