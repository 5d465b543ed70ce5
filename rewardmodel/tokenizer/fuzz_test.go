package tokenizer

import (
	"os"
	"slices"
	"testing"
)

// addFile adds a file of testdata as a seed, whole and cut.
func addFile(f *testing.F, path string) {
	data, err := os.ReadFile(path)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	f.Add(data[:len(data)/2])
}

// try builds a tokenizer of what a parser let through, and uses it.
func try(p parts, err error) {
	if err != nil {
		return
	}
	if tok, err := build(p); err == nil {
		tok.Encode("It's a test, a\u0301\xff </s> [MASK] 你\n\n  aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa")
		tok.Frame(tok.IDs("x"))
		for id := range int32(tok.VocabSize()) {
			tok.DecodeToken(id)
		}
	}
}

func FuzzTokenizerJSON(f *testing.F) {
	addFile(f, "testdata/bpe_json/tokenizer.json")
	addFile(f, "testdata/wordpiece_json/tokenizer.json")
	f.Add([]byte(`{"model":{"type":"WordPiece","vocab":{"[UNK]":0,"[PAD]":1,"a":2,"##":3,"":4}},"pre_tokenizer":{"type":"BertPreTokenizer"},` +
		`"post_processor":{"type":"BertProcessing","cls":["[PAD]",1],"sep":["[PAD]",1]}}`))
	f.Fuzz(func(t *testing.T, data []byte) { try(parseTokenizer(data, &settings{})) })
}

func FuzzVocabAndMerges(f *testing.F) {
	vocab, err := os.ReadFile("testdata/bpe/vocab.json")
	if err != nil {
		f.Fatal(err)
	}
	merges, err := os.ReadFile("testdata/bpe/merges.txt")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(vocab, merges)
	f.Add(vocab, []byte("#version: 0.2\nĠ t\r\nĠt h\n"))
	f.Add([]byte(`{"a":0,"b":1,"ab":2}`), []byte("a b\n"))
	f.Fuzz(func(t *testing.T, vocab, merges []byte) {
		v, err := parseVocab(vocab)
		list, err2 := parseMerges(merges)
		if err == nil && err2 == nil {
			try(parts{vocab: v, merges: list}, nil)
		}
	})
}

func FuzzWords(f *testing.F) {
	addFile(f, "testdata/wordpiece/vocab.txt")
	f.Add([]byte("[UNK]\r\n\n##\n##a\na\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		v, err := parseWords(data)
		try(parts{vocab: v, unknown: "[UNK]", prefix: "##", maxChars: 100, normalizer: normalizer{cleanText: true, stripAccents: true, lowercase: true}}, err)
	})
}

func FuzzSettings(f *testing.F) {
	f.Add([]byte(`{"add_prefix_space":false,"cls_token":{"content":"<s>"},"sep_token":"</s>","additional_special_tokens":["x"],` +
		`"added_tokens_decoder":{"0":{"content":"<s>","special":true}}}`))
	f.Add([]byte(`{"<mask>":7,"strip_accents":null}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, name := range []string{configFile, specialsFile, addedFile} {
			if s, err := readSettings(folder(t, map[string]string{name: string(data)})); err == nil {
				s.normalizer()
			}
		}
	})
}

// FuzzEncode checks what holds for any text: spans lie in the text, in order,
// the ids are of the vocabulary, and IDs gives the same.
func FuzzEncode(f *testing.F) {
	for i, text := range goldenStrings(f) {
		if i%40 == 0 {
			f.Add(text)
		}
	}
	toks := []*Tokenizer{load(f, "bpe"), load(f, "wordpiece"), load(f, "wordpiece_json")}
	f.Fuzz(func(t *testing.T, text string) {
		for _, tok := range toks {
			e := tok.Encode(text)
			if !slices.Equal(e.IDs, tok.IDs(text)) {
				t.Fatalf("%q: Encode gives %v, IDs %v", text, e.IDs, tok.IDs(text))
			}
			if len(e.IDs) != len(e.Offsets) {
				t.Fatalf("%q: %d ids, %d offsets", text, len(e.IDs), len(e.Offsets))
			}
			last := 0
			for i, s := range e.Offsets {
				if s.Start < 0 || s.Start > s.End || s.End > len(text) || s.End < last {
					t.Fatalf("%q: offset %d is %v", text, i, s)
				}
				last = s.End
				if id := e.IDs[i]; id < 0 || int(id) >= tok.VocabSize() {
					t.Fatalf("%q: id %d", text, id)
				}
			}
		}
	})
}
