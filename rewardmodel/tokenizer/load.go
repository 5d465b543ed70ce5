package tokenizer

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// ErrFormat is wrapped by every error about the content of a tokenizer file, as
// opposed to errors of reading it.
var ErrFormat = errors.New("unusable tokenizer file")

// The files of a checkpoint directory that Load reads.
const (
	tokenizerFile = "tokenizer.json"
	vocabFile     = "vocab.json"
	mergesFile    = "merges.txt"
	wordsFile     = "vocab.txt"
	configFile    = "tokenizer_config.json"
	specialsFile  = "special_tokens_map.json"
	addedFile     = "added_tokens.json"
	spmFile       = "spm.model"
)

// maxFile is the maximum size of a tokenizer file; the largest in use have about 40 MB.
const maxFile = 256 << 20

// Load reads the tokenizer of a checkpoint directory in Hugging Face layout:
// tokenizer.json, or vocab.json with merges.txt (byte-level BPE), or vocab.txt
// (WordPiece), or spm.model (Unigram). The latter three take their settings from
// tokenizer_config.json, special_tokens_map.json and added_tokens.json where
// present, and otherwise use those of RoBERTa, uncased BERT and DeBERTa-v3.
//
// A stored truncation or padding is ignored, and trim_offsets is always on. For a
// directory without these files, the error wraps fs.ErrNotExist. For a file that is
// damaged, or needs something that this package cannot reproduce exactly, it wraps
// ErrFormat and names the file and the setting.
func Load(dir string) (*Tokenizer, error) {
	type layout struct {
		file  string
		parse func(dir string) (parts, error)
	}
	for _, l := range []layout{{tokenizerFile, readTokenizer}, {vocabFile, readByteLevel}, {wordsFile, readWordPiece}, {spmFile, readSentencePiece}} {
		if _, err := os.Stat(filepath.Join(dir, l.file)); errors.Is(err, fs.ErrNotExist) {
			continue
		}
		p, err := l.parse(dir)
		if err != nil {
			return nil, fmt.Errorf("tokenizer: %w", err)
		}
		t, err := build(p)
		if err != nil {
			return nil, fmt.Errorf("tokenizer: %s: %w", filepath.Join(dir, l.file), wrapFormat(err))
		}
		return t, nil
	}
	return nil, fmt.Errorf("tokenizer: %s has neither %s, nor %s with %s, nor %s, nor %s: %w",
		dir, tokenizerFile, vocabFile, mergesFile, wordsFile, spmFile, fs.ErrNotExist)
}

// wrapFormat marks an error about the content of a file.
func wrapFormat(err error) error { return fmt.Errorf("%w: %w", ErrFormat, err) }

// read reads and parses a file of the directory; its errors name the file.
func read[T any](dir, name string, parse func(data []byte) (T, error)) (T, error) {
	var zero T
	path := filepath.Join(dir, name)
	info, err := os.Stat(path)
	if err != nil {
		return zero, err
	}
	if info.Size() > maxFile {
		return zero, fmt.Errorf("%s: %w: %d bytes, more than the %d allowed", path, ErrFormat, info.Size(), maxFile)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return zero, err
	}
	value, err := parse(data)
	if err != nil {
		return zero, fmt.Errorf("%s: %w", path, wrapFormat(err))
	}
	return value, nil
}

// readOptional is read, but returns the zero value if the file does not exist.
func readOptional[T any](dir, name string, parse func(data []byte) (T, error)) (T, error) {
	value, err := read(dir, name, parse)
	if errors.Is(err, fs.ErrNotExist) {
		return value, nil
	}
	return value, err
}

func readTokenizer(dir string) (parts, error) {
	s, err := readSettings(dir)
	if err != nil {
		return parts{}, err
	}
	return read(dir, tokenizerFile, func(data []byte) (parts, error) { return parseTokenizer(data, s) })
}

func readByteLevel(dir string) (parts, error) {
	v, err := read(dir, vocabFile, parseVocab)
	if err != nil {
		return parts{}, err
	}
	merges, err := read(dir, mergesFile, parseMerges)
	if err != nil {
		return parts{}, err
	}
	s, err := readSettings(dir)
	if err != nil {
		return parts{}, err
	}
	p := parts{vocab: v, merges: merges}
	return p, s.complete(&p, dir, robertaNames)
}

func readWordPiece(dir string) (parts, error) {
	v, err := read(dir, wordsFile, parseWords)
	if err != nil {
		return parts{}, err
	}
	s, err := readSettings(dir)
	if err != nil {
		return parts{}, err
	}
	p := parts{vocab: v, normalizer: s.normalizer(), unknown: s.name("unk_token", bertNames), prefix: "##", maxChars: 100}
	return p, s.complete(&p, dir, bertNames)
}

// readSentencePiece reads spm.model and adds the preprocessing of DeBERTa: text is
// lowercased if the settings request it, stripped, mapped, and split into words.
func readSentencePiece(dir string) (parts, error) {
	s, err := readSettings(dir)
	if err != nil {
		return parts{}, err
	}
	m, err := read(dir, spmFile, func(data []byte) (spmModel, error) {
		m, err := parseSPM(data)
		if err != nil {
			return m, err
		}
		normalizers := []func(*classes) textNormalizer{func(c *classes) textNormalizer { return strip{c, true, true} }}
		if s.lowercase != nil && *s.lowercase {
			normalizers = append([]func(*classes) textNormalizer{func(c *classes) textNormalizer { return lowercase{c} }}, normalizers...)
		}
		if len(m.charsmap) > 0 {
			characters, err := parseCharsmap(m.charsmap)
			if err != nil {
				return m, fmt.Errorf("normalizer_spec: %w", err)
			}
			normalizers = append(normalizers, func(*classes) textNormalizer { return characters })
		}
		m.unigram.normalizers = append(normalizers, func(*classes) textNormalizer { return replace{spaces, " "} })
		m.unigram.preTokenizer = metaspace{punct: s.splitPunct, prefix: true, split: true}
		return m, nil
	})
	if err != nil {
		return parts{}, err
	}
	p := m.parts
	if err := s.complete(&p, dir, bertNames); err != nil {
		return parts{}, err
	}
	if mask := s.name("mask_token", bertNames); mask != "" {
		if _, known := p.vocab.ids[mask]; !known { // as in v3, whose model file lacks it
			err = p.vocab.add(mask, len(p.vocab.tokens))
		}
	}
	return p, err
}
