package localmodel

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"io"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/rs/zerolog"

	"assay/rewardmodel"
	"assay/rewardmodel/bag"
	"assay/rewardmodel/tokenizer"
	"assay/rewardmodel/train"
	"assay/segmenter"
	"assay/sidecar/cli"
)

// BagOptions say how bags become training data.
type BagOptions struct {
	Aspects       []string // of the model, in the order of its logits; nil: one without a name
	MaxLength     int      // tokens of a sequence, special tokens included
	ContextTokens int      // that the model reads of the prompt, special tokens included; 0: none
	// WholeCharacters is the length up to which the model also reads a response as a whole; 0: it does not.
	WholeCharacters int
	// MinEach is the number of bags with each label that one of several aspects needs to be trained, unless none has
	// them: thresholds that are fitted to a few bags are worse than those that the aspect has.
	MinEach int
	// CompliantOnly keeps an aspect whose bags are all compliant, since nothing is learned of them.
	CompliantOnly bool
}

// bagReader tokenizes bags into training data.
type bagReader struct {
	BagOptions
	tok       *tokenizer.Tokenizer
	room      int // tokens of a sequence, without special tokens
	inspect   []bag.Inspector
	data      []*train.Data      // by aspect
	compared  []comparisons      // by aspect
	contexts  map[string][]int32 // those of prompts so far
	unclear   int                // violations that do not say of which aspect
	unknown   map[string]int     // labels for aspects that the model does not have
	truncated int                // responses longer than the model allows as one sequence
	sum       hash.Hash          // of the files
}

func newBagReader(tok *tokenizer.Tokenizer, o BagOptions) *bagReader {
	if o.Aspects == nil {
		o.Aspects = []string{rewardmodel.DefaultAspect}
	}
	r := &bagReader{
		BagOptions: o, tok: tok, room: o.MaxLength - tok.Special(), sum: sha256.New(),
		inspect: make([]bag.Inspector, len(o.Aspects)), contexts: map[string][]int32{}, unknown: map[string]int{},
	}
	for a := range o.Aspects {
		r.inspect[a].Prompts = o.ContextTokens > 0
		r.data, r.compared = append(r.data, &train.Data{}), append(r.compared, comparisons{})
	}
	return r
}

// ReadBags reads and tokenizes bag files; digest identifies their content. data has the bags that are labeled for each
// aspect, and nil for one of several aspects that has too few labels to be trained. Equal sequences of a bag in several
// aspects are the same slices. It skips responses without an utterance, logs warnings about the bags, and returns an error
// that names --bags if they cannot train a model.
func ReadBags(ctx context.Context, files []string, tok *tokenizer.Tokenizer, o BagOptions, log zerolog.Logger) (data []*train.Data, digest string, err error) {
	r := newBagReader(tok, o)
	for _, name := range files {
		if err := r.read(ctx, name); err != nil {
			if ctx.Err() != nil {
				return nil, "", err
			}
			return nil, "", cli.Usage(fmt.Errorf("--bags: %s: %w", name, err))
		}
	}
	r.compare(log)
	if err := r.report(log); err != nil {
		return nil, "", cli.Usage(fmt.Errorf("--bags: %w", err))
	}
	return r.data, hex.EncodeToString(r.sum.Sum(nil))[:16], nil
}

// report logs what is suspicious about the bags, and removes the aspects that nothing can be learned of.
func (r *bagReader) report(log zerolog.Logger) error {
	learnable, enough := 0, false
	for _, d := range r.data {
		enough = enough || r.enough(d)
	}
	unlearnable := fmt.Errorf("no bag has a label for an aspect of the model (%s)", strings.Join(r.Aspects, ", "))
	for a, name := range r.Aspects {
		if len(r.Aspects) > 1 && len(r.data[a].Bags) == 0 {
			r.data[a] = nil
			log.Warn().Str("aspect", name).Msg("no bag has a label for the aspect; its scores are kept as they are")
			continue
		}
		log := log
		if len(r.Aspects) > 1 {
			log = log.With().Str("aspect", name).Logger()
		}
		findings := r.inspect[a].Findings()
		if err := findings.Err(); err != nil && !(r.CompliantOnly && r.enough(r.data[a])) {
			if len(r.Aspects) == 1 {
				return err
			}
			r.data[a], unlearnable = nil, fmt.Errorf("aspect %s: %w", name, err)
			log.Warn().Err(err).Msg("the aspect is not trained; its scores are kept as they are")
			continue
		}
		if enough && !r.enough(r.data[a]) {
			r.data[a] = nil
			log.Warn().Int("min_each", r.MinEach).Msg("the aspect has too few labels to be trained; its scores are kept as they are")
			continue
		}
		learnable++
		for _, f := range findings {
			if f.Fatal { // the lack of violations is intended
				continue
			}
			log.Warn().Strs("ids", f.IDs).Int("bags", f.Count).Msg(f.Message())
		}
	}
	for _, name := range slices.Sorted(maps.Keys(r.unknown)) {
		log.Warn().Str("aspect", name).Int("bags", r.unknown[name]).Msg("the model does not have the aspect; its labels are ignored")
	}
	if r.unclear > 0 {
		log.Warn().Int("bags", r.unclear).Msg(`violations that do not say of which aspect are ignored; give them "labels"`)
	}
	if learnable == 0 {
		return unlearnable
	}
	return nil
}

// comparisons are the bags that are compared with each other, by the name of their comparison.
type comparisons map[string]train.Comparison

// compare adds the comparisons that have both labels to the data of their aspect.
func (r *bagReader) compare(log zerolog.Logger) {
	single := map[string]bool{}
	for a, of := range r.compared {
		for _, name := range slices.Sorted(maps.Keys(of)) {
			worse := func(b train.Bag) bool { return b.Violation }
			better := func(b train.Bag) bool { return !b.Violation }
			if slices.ContainsFunc(of[name], worse) && slices.ContainsFunc(of[name], better) {
				r.data[a].Comparisons = append(r.data[a].Comparisons, of[name])
			} else {
				single[name] = true
			}
		}
	}
	if len(single) > 0 {
		names := slices.Sorted(maps.Keys(single))
		log.Warn().Strs("comparisons", names[:min(5, len(names))]).Int("count", len(names)).Msg("comparisons whose bags all have the same label are ignored")
	}
}

// enough reports whether an aspect with the given bags has enough labels.
func (r *bagReader) enough(d *train.Data) bool {
	violating, compliant, _, _ := d.Counts()
	if r.CompliantOnly {
		return compliant >= max(r.MinEach, 1)
	}
	return min(violating, compliant) >= r.MinEach
}

// TokenizeBags tokenizes bags into training data for a model with one aspect whose sequences have at most maxLength
// tokens. truncated counts the responses that are longer than that as one sequence.
func TokenizeBags(ctx context.Context, bags []bag.Bag, tok *tokenizer.Tokenizer, maxLength int) (data *train.Data, truncated int, err error) {
	all, truncated, err := TokenizeAspects(ctx, bags, tok, BagOptions{MaxLength: maxLength})
	if err != nil {
		return nil, 0, err
	}
	return all[0], truncated, nil
}

// TokenizeAspects is TokenizeBags for a model with several aspects; data has the bags that are labeled for each. Bags that
// are only compared are left out.
func TokenizeAspects(ctx context.Context, bags []bag.Bag, tok *tokenizer.Tokenizer, o BagOptions) (data []*train.Data, truncated int, err error) {
	r := newBagReader(tok, o)
	for _, b := range bags {
		if err := r.add(ctx, b); err != nil {
			return nil, 0, err
		}
	}
	return r.data, r.truncated, nil
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
	gold := b.Gold(segments)
	segments, gold = withoutBlank(segments, gold)
	labels := r.labels(b)
	for a, label := range labels {
		if label != "" && b.Comparison == "" {
			r.inspect[a].Add(b, label, segments)
		}
	}
	contexts, err := r.contextsOf(ctx, b, segments)
	if err != nil {
		return err
	}
	var out train.Bag
	texts := make([]string, len(segments))
	for i, s := range segments {
		texts[i] = s.Text
		spans, err := segmenter.Limit(ctx, s.Text, []segmenter.Span{{End: len(s.Text)}}, r.room, length)
		if err != nil {
			return err
		}
		for _, span := range spans {
			out.Instances = append(out.Instances, r.tok.Frame(r.tok.IDs(s.Text[span.Start:span.End])))
			if r.ContextTokens > 0 {
				out.Contexts = append(out.Contexts, contexts[i])
			}
			if gold != nil {
				out.Gold = append(out.Gold, gold[i])
			}
		}
	}
	if len(out.Instances) == 0 {
		return nil
	}
	if text, ok := b.Whole(segments); ok && rewardmodel.ReadsWhole(text, len(out.Instances), r.WholeCharacters) {
		if err := r.addWhole(ctx, &out, text); err != nil {
			return err
		}
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
	for a, label := range labels {
		if label == "" {
			continue
		}
		own := out
		if own.Violation = label == bag.Violation; !own.Violation {
			own.Gold = make([]bool, len(out.Instances))
		}
		if b.Comparison != "" {
			r.compared[a][b.Comparison] = append(r.compared[a][b.Comparison], own)
			continue
		}
		r.data[a].Bags = append(r.data[a].Bags, own)
	}
	return nil
}

// withoutBlank omits the segments without text, which only given instances can be: a blank is not scored.
func withoutBlank(segments []bag.Segment, gold []bool) (kept []bag.Segment, marks []bool) {
	for i, s := range segments {
		if strings.TrimSpace(s.Text) == "" {
			continue
		}
		kept = append(kept, s)
		if gold != nil {
			marks = append(marks, gold[i])
		}
	}
	return kept, marks
}

// addWhole adds the response as a whole to its instances.
func (r *bagReader) addWhole(ctx context.Context, out *train.Bag, text string) error {
	ids, err := r.tok.IDsContext(ctx, text)
	if err != nil {
		return err
	}
	out.Instances, out.ReadsWhole = append(out.Instances, r.tok.Frame(ids[:min(len(ids), r.room)])), true
	if out.Contexts != nil {
		out.Contexts = append(out.Contexts, out.Contexts[0])
	}
	if out.Gold != nil {
		out.Gold = append(out.Gold, slices.Contains(out.Gold, true))
	}
	return nil
}

// labels returns the label of the bag for each aspect of the model, "" where it has none.
func (r *bagReader) labels(b bag.Bag) []bag.Label {
	labels := make([]bag.Label, len(r.Aspects))
	for a, name := range r.Aspects {
		labels[a] = b.LabelFor(name, len(r.Aspects))
	}
	for name := range b.Labels {
		if !slices.Contains(r.Aspects, name) {
			r.unknown[name]++
		}
	}
	if b.Label == bag.Violation && len(r.Aspects) > 1 && len(b.Labels) == 0 {
		r.unclear++
	}
	return labels
}

// contextsOf returns the tokens of what each segment answers, nil for a model that does not read it. Those of the same
// message are the same slice, and so are those of equal prompts.
func (r *bagReader) contextsOf(ctx context.Context, b bag.Bag, segments []bag.Segment) ([][]int32, error) {
	if r.ContextTokens == 0 {
		return nil, nil
	}
	out, item := make([][]int32, len(segments)), ItemOf(b)
	for i, s := range segments {
		var message *int
		switch {
		case i > 0 && (b.Messages == nil || s.Message == segments[i-1].Message):
			out[i] = out[i-1]
			continue
		case b.Messages != nil:
			message = &s.Message
		}
		ids, err := rewardmodel.ContextTokens(ctx, r.tok, item, message, r.ContextTokens)
		if err != nil {
			return nil, err
		}
		key := fmt.Sprint(ids)
		if _, known := r.contexts[key]; !known {
			r.contexts[key] = ids
		}
		out[i] = r.contexts[key]
	}
	return out, nil
}
