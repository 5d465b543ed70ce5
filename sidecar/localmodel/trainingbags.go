package localmodel

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"io"
	"os"
	"strings"

	"github.com/rs/zerolog"

	"assay/rewardmodel/bag"
	"assay/rewardmodel/tokenizer"
	"assay/rewardmodel/train"
	"assay/segmenter"
	"assay/sidecar/cli"
)

// bagReader tokenizes bags into training data.
type bagReader struct {
	tok       *tokenizer.Tokenizer
	room      int // tokens of a sequence, without special tokens
	inspect   bag.Inspector
	data      train.Data
	truncated int       // responses longer than the model allows as one sequence
	sum       hash.Hash // of the files
}

func newBagReader(tok *tokenizer.Tokenizer, maxLength int) *bagReader {
	return &bagReader{tok: tok, room: maxLength - tok.Special(), sum: sha256.New()}
}

// ReadBags reads and tokenizes bag files for a model whose sequences have at most maxLength tokens; digest identifies
// their content. It skips responses without an utterance, logs warnings about the bags, and returns an error that names
// --bags if they cannot train a model.
func ReadBags(ctx context.Context, files []string, tok *tokenizer.Tokenizer, maxLength int, log zerolog.Logger) (data *train.Data, digest string, err error) {
	r := newBagReader(tok, maxLength)
	for _, name := range files {
		if err := r.read(ctx, name); err != nil {
			if ctx.Err() != nil {
				return nil, "", err
			}
			return nil, "", cli.Usage(fmt.Errorf("--bags: %s: %w", name, err))
		}
	}
	findings := r.inspect.Findings()
	if err := findings.Err(); err != nil {
		return nil, "", cli.Usage(fmt.Errorf("--bags: %w", err))
	}
	for _, f := range findings {
		log.Warn().Strs("ids", f.IDs).Int("bags", f.Count).Msg(f.Message())
	}
	return &r.data, hex.EncodeToString(r.sum.Sum(nil))[:16], nil
}

// TokenizeBags tokenizes bags into training data for a model whose sequences have at most maxLength tokens.
// truncated counts the responses that are longer than that as one sequence.
func TokenizeBags(ctx context.Context, bags []bag.Bag, tok *tokenizer.Tokenizer, maxLength int) (data *train.Data, truncated int, err error) {
	r := newBagReader(tok, maxLength)
	for _, b := range bags {
		if err := r.add(ctx, b); err != nil {
			return nil, 0, err
		}
	}
	return &r.data, r.truncated, nil
}

func (r *bagReader) read(ctx context.Context, name string) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	for b, err := range bag.Read(io.TeeReader(f, r.sum)) {
		if err != nil {
			return err
		}
		if err := r.add(ctx, b); err != nil {
			return err
		}
	}
	return nil
}

// add tokenizes a bag. A given instance may be too long for the model: its parts become separate instances with the gold
// label of the whole.
func (r *bagReader) add(ctx context.Context, b bag.Bag) error {
	length := r.tok.Counter(ctx)
	segments, err := b.Segments(ctx, r.room, length)
	if err != nil {
		return err
	}
	r.inspect.Add(b, segments)
	gold := b.Gold(segments)
	out := train.Bag{Violation: b.Label == bag.Violation}
	texts := make([]string, len(segments))
	for i, s := range segments {
		texts[i] = s.Text
		spans, err := segmenter.Limit(ctx, s.Text, []segmenter.Span{{End: len(s.Text)}}, r.room, length)
		if err != nil {
			return err
		}
		for _, span := range spans {
			out.Instances = append(out.Instances, r.tok.Frame(r.tok.IDs(s.Text[span.Start:span.End])))
			if gold != nil {
				out.Gold = append(out.Gold, gold[i])
			}
		}
	}
	if len(out.Instances) == 0 {
		return nil
	}
	whole, err := r.tok.IDsContext(ctx, strings.Join(texts, " "))
	if err != nil {
		return err
	}
	if len(whole) > r.room {
		whole = whole[:r.room]
		r.truncated++
	}
	out.Whole = r.tok.Frame(whole)
	r.data.Bags = append(r.data.Bags, out)
	return nil
}
