package tokenizer

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"
)

// tinyVocab is the smallest byte-level vocabulary, as vocab.json.
func tinyVocab(f *testing.F) []byte {
	ids := map[string]int{"<s>": 256, "</s>": 257, "<pad>": 258, "he": 259, "Ġhe": 260}
	for b, symbol := range byteAlphabet() {
		ids[symbol] = b
	}
	data, err := json.Marshal(ids)
	if err != nil {
		f.Fatal(err)
	}
	return data
}

// try builds a tokenizer from what a parser accepted, and uses it.
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
	f.Add(fmt.Appendf(nil, `{"version":"1.0","truncation":null,"padding":null,
		"added_tokens":[{"id":256,"content":"<s>","single_word":false,"lstrip":true,"rstrip":false,"normalized":true,"special":true}],
		"normalizer":null,"pre_tokenizer":{"type":"ByteLevel","add_prefix_space":false,"trim_offsets":true,"use_regex":true},
		"post_processor":{"type":"RobertaProcessing","sep":["</s>",257],"cls":["<s>",256],"trim_offsets":true,"add_prefix_space":false},
		"model":{"type":"BPE","dropout":null,"ignore_merges":false,"vocab":%s,"merges":["h e",["Ġ","he"]]}}`, tinyVocab(f)))
	f.Add([]byte(`{"model":{"type":"WordPiece","vocab":{"[UNK]":0,"[PAD]":1,"a":2,"##":3,"":4}},"pre_tokenizer":{"type":"BertPreTokenizer"},
		"normalizer":{"type":"BertNormalizer","strip_accents":null},"post_processor":{"type":"BertProcessing","cls":["[PAD]",1],"sep":["[PAD]",1]}}`))
	f.Add([]byte(`{"model":{"vocab":{"[UNK]":0,"[PAD]":1}},"pre_tokenizer":{"type":"BertPreTokenizer"},"padding":{"pad_token":"[PAD]"},
		"post_processor":{"type":"TemplateProcessing","single":[{"SpecialToken":{"id":"x"}},{"Sequence":{"id":"A"}}],"special_tokens":{"x":{"ids":[0]}}}}`))
	f.Fuzz(func(t *testing.T, data []byte) { try(parseTokenizer(data, &settings{})) })
}

func FuzzVocabAndMerges(f *testing.F) {
	f.Add(tinyVocab(f), []byte("#version: 0.2\nh e\r\nĠ he\n"))
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
	f.Add([]byte("[UNK]\r\n\n##\n##a\na\n你\n"))
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
		fields, err := parseObject[json.RawMessage](data)
		if err != nil {
			return
		}
		s := &settings{names: make(map[string]string), added: make(map[string]int)}
		for _, apply := range []func(map[string]json.RawMessage) error{s.applyConfig, s.applyAdded} {
			if apply(fields) == nil {
				v := newVocabulary(0)
				if err := v.add("<s>", 0); err != nil {
					t.Fatal(err)
				}
				p := parts{vocab: v, normalizer: s.normalizer()}
				_ = s.complete(&p, "", bertNames)
			}
		}
	})
}

// FuzzEncode checks invariants of any text: spans are within the text and in order,
// ids are in the vocabulary, and IDs returns the same ids.
func FuzzEncode(f *testing.F) {
	for i, text := range goldenStrings(f) {
		if i%40 == 0 {
			f.Add(text)
		}
	}
	toks := []*Tokenizer{load(f, "bpe"), load(f, "wordpiece"), load(f, "wordpiece_json"), load(f, "modernbert")}
	for _, files := range []map[string]string{
		{spmFile: string(spmBytes(f)), configFile: `{"do_lower_case":true,"split_by_punct":true}`},
		{tokenizerFile: unigramJSON(f, "unigram_bytes", "", "")},
	} {
		toks = append(toks, loadFiles(f, files))
	}
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
