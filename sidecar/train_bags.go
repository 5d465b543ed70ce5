package main

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"io"
	"os"

	"github.com/assay-ai/assay/rewardmodel/bag"
	"github.com/assay-ai/assay/rewardmodel/tokenizer"
	"github.com/assay-ai/assay/rewardmodel/train"
	"github.com/assay-ai/assay/segmenter"
)

// bagReader turns bag files into what a learner sees.
type bagReader struct {
	tok  *tokenizer.Tokenizer
	room int // tokens of an instance, without special tokens
	data train.Data
	sum  hash.Hash // of the files
}

// readBags reads and tokenizes the bag files; digest identifies their content. A response without an utterance is
// left out: there is nothing to learn from it.
func readBags(files []string, tok *tokenizer.Tokenizer, maxLength int) (data *train.Data, digest string, err error) {
	r := bagReader{tok: tok, room: maxLength - tok.Special(), sum: sha256.New()}
	for _, name := range files {
		if err := r.read(name); err != nil {
			return nil, "", usageError{fmt.Errorf("--bags: %s: %w", name, err)}
		}
	}
	return &r.data, hex.EncodeToString(r.sum.Sum(nil))[:16], nil
}

func (r *bagReader) read(name string) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	for b, err := range bag.Read(io.TeeReader(f, r.sum)) {
		if err != nil {
			return err
		}
		if instances := r.instances(b); len(instances) > 0 {
			r.data.Bags = append(r.data.Bags, train.Bag{Violation: b.Label == bag.Violation, Instances: instances})
		}
	}
	return nil
}

// instances tokenizes the utterances of a bag. One that was given as it is may be too long for the model; its parts are
// instances of their own here.
func (r *bagReader) instances(b bag.Bag) [][]int32 {
	var out [][]int32
	for _, s := range b.Segments(r.room, r.length) {
		for _, span := range segmenter.Limit(s.Text, []segmenter.Span{{End: len(s.Text)}}, r.room, r.length) {
			out = append(out, r.tok.Frame(r.tok.IDs(s.Text[span.Start:span.End])))
		}
	}
	return out
}

func (r *bagReader) length(text string) int { return len(r.tok.IDs(text)) }
