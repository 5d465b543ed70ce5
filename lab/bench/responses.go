package bench

import (
	"bufio"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"assay/segmenter"
)

// Tokenizer tokenizes as the servers do.
type Tokenizer interface {
	IDs(text string) []int32
	Special() int // number of special tokens around those of a text
}

// Response is a text to score, with its utterances, which servers without a segmenter are sent.
type Response struct {
	Text       string
	Utterances []string
	Tokens     []int // of each utterance, special ones included
}

// NewResponse segments text into utterances of at most maxLength tokens, as the scorer does. Its only error is that of ctx.
func NewResponse(ctx context.Context, text string, tok Tokenizer, maxLength int) (Response, error) {
	spans, err := segmenter.Segment(ctx, text)
	if err == nil {
		room := maxLength - tok.Special()
		spans, err = segmenter.Limit(ctx, text, spans, room, func(part string) (int, error) { return len(tok.IDs(part)), nil })
	}
	if err != nil {
		return Response{}, err
	}
	r := Response{Text: text, Utterances: make([]string, len(spans)), Tokens: make([]int, len(spans))}
	for i, span := range spans {
		r.Utterances[i] = text[span.Start:span.End]
		r.Tokens[i] = len(tok.IDs(r.Utterances[i])) + tok.Special()
	}
	return r, nil
}

// MaxSentences is the length of the longest text that Sample takes.
const MaxSentences = 60

// ErrNoWork reports that a file has no text of 1 to MaxSentences sentences.
var ErrNoWork = errors.New("no text of a usable length")

// Sample samples n texts of 1 to MaxSentences sentences from a file of JSON lines with a field "text", compressed where
// the name ends in .gz. All texts are equally likely, so that the distribution of lengths is that of the file; the same
// n and seed give the same texts. It returns fewer where the file has fewer.
func Sample(ctx context.Context, path string, n int, seed uint64) ([]string, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	var in io.Reader = bufio.NewReader(file)
	if strings.HasSuffix(path, ".gz") {
		if in, err = gzip.NewReader(in); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
	}
	texts, err := usable(ctx, in)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	random := rand.New(rand.NewPCG(seed, 0))
	random.Shuffle(len(texts), func(i, j int) { texts[i], texts[j] = texts[j], texts[i] })
	return texts[:min(n, len(texts))], nil
}

// Sentences returns n utterances of the texts, from the last text on; fewer where there are fewer. They calibrate a
// quantization.
func Sentences(ctx context.Context, texts []string, n int) ([]string, error) {
	var all []string
	for _, text := range slices.Backward(texts) {
		spans, err := segmenter.Segment(ctx, text)
		if err != nil {
			return nil, err
		}
		for _, span := range spans {
			if all = append(all, text[span.Start:span.End]); len(all) == n {
				return all, nil
			}
		}
	}
	return all, nil
}

func usable(ctx context.Context, in io.Reader) ([]string, error) {
	var texts []string
	lines := jsontext.NewDecoder(in)
	for {
		var line struct {
			Text string `json:"text"`
		}
		switch err := json.UnmarshalDecode(lines, &line); {
		case errors.Is(err, io.EOF):
			if len(texts) == 0 {
				return nil, ErrNoWork
			}
			return texts, nil
		case err != nil:
			return nil, err
		}
		spans, err := segmenter.Segment(ctx, line.Text)
		if err != nil {
			return nil, err
		}
		if n := len(spans); n >= 1 && n <= MaxSentences {
			texts = append(texts, line.Text)
		}
	}
}

// Digest identifies a piece of work, so that records of different work are never mixed.
func Digest(work []Response) string {
	sum := sha256.New()
	for _, r := range work {
		for _, u := range r.Utterances {
			sum.Write([]byte(u))
			sum.Write([]byte{0})
		}
		sum.Write([]byte{1})
	}
	return hex.EncodeToString(sum.Sum(nil))[:12]
}

// Unseen changes the sentences of a text so that a cache has not seen them in earlier passes over the texts, and keeps at
// most limit of them; 0: all.
func Unseen(ctx context.Context, text string, pass, limit int) (string, error) {
	if pass == 0 && limit == 0 {
		return text, nil
	}
	spans, err := segmenter.Segment(ctx, text)
	if err != nil {
		return "", err
	}
	if limit > 0 {
		spans = spans[:min(limit, len(spans))]
	}
	if pass == 0 {
		return text[:spans[len(spans)-1].End], nil
	}
	var b strings.Builder
	for _, span := range spans {
		fmt.Fprintf(&b, "Take %d of %s ", pass, text[span.Start:span.End])
	}
	return b.String(), nil
}
