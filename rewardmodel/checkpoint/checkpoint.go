// Package checkpoint reads and writes checkpoint directories in the layout of
// Hugging Face's transformers: config.json, safetensors weights in one file or
// sharded, tokenizer files, and assay.json with what a reward model adds (its
// decision threshold, its version, the checksums of the directory).
//
// Open reads and validates only headers. Weights are read one tensor at a time,
// directly into the caller's memory, so that a model is never in memory twice:
//
//	ckpt, err := checkpoint.Open(dir)
//	for _, spec := range checkpoint.Specs(ckpt.Config, ckpt.HasClassifier()) {
//		weights, err := ckpt.Float32(spec.Name)
//	}
//
// A file is untrusted until it has been validated: whatever is wrong with it
// becomes one error that names the file and the tensor or field.
package checkpoint

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"assay/internal/durable"
)

// maxConfig bounds config.json and assay.json, in bytes.
const maxConfig = 1 << 20

// maxAttempts bounds how often Open retries while a directory is being replaced.
const maxAttempts = 10

// Checkpoint is an open checkpoint directory. Its methods, except Close, are safe
// for concurrent use. It stays readable when Write replaces the directory.
type Checkpoint struct {
	// Dir is the directory as given to Open.
	Dir string
	// Config is the validated config.json.
	Config Config
	// Manifest is assay.json, or a manifest with only the default threshold for a
	// directory without one. It is never nil.
	Manifest *Manifest

	directory *directory
	shards    []*shard
	tensors   map[string]located // by stored name
	alias     map[string]string  // canonical to stored name
}

// TensorInfo describes a stored tensor.
type TensorInfo struct {
	Name  string // as stored
	DType DType
	Shape []int // empty for a scalar
}

// Elements is the product of the shape.
func (t TensorInfo) Elements() int {
	n := 1
	for _, d := range t.Shape {
		n *= d
	}
	return n
}

// Bytes is the size of the tensor's data.
func (t TensorInfo) Bytes() int { return t.Elements() * t.DType.Size() }

// Open reads config.json, assay.json and the headers of the weights, and
// checks that every tensor of the architecture exists with a float type and the
// shape that the configuration implies. It loads no weights. The caller closes the
// checkpoint.
//
// The error wraps ErrDamaged, ErrUnsupported or fs.ErrNotExist.
func Open(dir string) (*Checkpoint, error) {
	// A writer may replace the directory and remove the old one while its
	// files are being opened; then the new one is tried.
	for attempt := 1; ; attempt++ {
		before, _ := os.Stat(durable.Survivor(dir))
		c, err := open(durable.Survivor(dir))
		if err == nil {
			c.Dir = dir
			return c, nil
		}
		after, _ := os.Stat(durable.Survivor(dir))
		if attempt == maxAttempts || os.SameFile(before, after) {
			return nil, fmt.Errorf("checkpoint %s: %w", dir, err)
		}
	}
}

func open(dir string) (*Checkpoint, error) {
	f, err := openDirectory(dir)
	if err != nil {
		return nil, err
	}
	c := &Checkpoint{directory: f}
	if err := c.load(); err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

func (c *Checkpoint) load() error {
	data, err := c.directory.read("config.json", maxConfig)
	if err != nil {
		return err
	}
	if c.Config, err = parseConfig(data); err != nil {
		return err
	}
	if c.Manifest, err = readManifest(c.directory, c.Config); err != nil {
		return err
	}
	tensors, shards, err := openWeights(c.directory)
	c.shards = shards
	if err != nil {
		return err
	}
	c.tensors = make(map[string]located, len(tensors))
	for _, t := range tensors {
		c.tensors[t.name] = t
	}
	if c.Config.Architecture == "" {
		_, classified := c.tensors[c.Config.headName()+".weight"]
		c.Config.Architecture = c.Config.class(classified)
	}
	return c.resolve()
}

// resolve finds the stored name of each tensor that the model needs, or may
// use, and checks its shape and type.
func (c *Checkpoint) resolve() error {
	arch := architectures[c.Config.Architecture]
	prefix := arch.prefix
	for _, p := range []string{arch.prefix, "", families[c.Config.ModelType].prefix} {
		if _, ok := c.tensors[p+c.Config.WordEmbeddings()]; ok {
			prefix = p
			break
		}
	}
	required := len(Specs(c.Config, arch.classifier))
	specs := Specs(c.Config, true)
	c.alias = make(map[string]string, len(specs))
	for i, spec := range specs {
		name := c.Config.storedName(prefix, spec.Name)
		t, ok := c.tensors[name]
		if legacy, named := legacyName(name); !ok && named {
			t, ok = c.tensors[legacy]
		}
		// The tensors of a base model under the names of the classifier belong to
		// another head; only its pooler can be used, and of a ModernBERT the dense
		// layer of that head, which transformers uses, too.
		if i >= required && !strings.HasPrefix(spec.Name, "pooler.") && !strings.HasPrefix(spec.Name, "head.") {
			continue
		}
		if !ok && i >= required {
			continue
		}
		if !ok {
			return fmt.Errorf("tensor %q is missing, which %s needs: %w", name, c.Config.Architecture, ErrDamaged)
		}
		if !slices.Equal(t.shape, spec.Shape) {
			return fmt.Errorf("%s: tensor %q has shape %v, but config.json implies %v: %w", t.shard.name, t.name, t.shape, spec.Shape, ErrDamaged)
		}
		switch {
		case t.dtype == I8 && c.Config.quantized() && Quantizable(spec):
			if err := c.checkScales(t); err != nil {
				return err
			}
		case !t.dtype.Float():
			return fmt.Errorf("%s: tensor %q is %s; weights must be F32, F16 or BF16: %w", t.shard.name, t.name, t.dtype, ErrUnsupported)
		}
		c.alias[spec.Name] = t.name
	}
	return nil
}

// Close closes the files. Reads fail after it.
func (c *Checkpoint) Close() error {
	errs := []error{c.directory.close()}
	for _, s := range c.shards {
		errs = append(errs, s.file.Close())
	}
	return errors.Join(errs...)
}

// HasClassifier reports whether the checkpoint is a sequence classifier. A base
// model is not, and gets a randomly initialized classification head in training.
func (c *Checkpoint) HasClassifier() bool {
	return architectures[c.Config.Architecture].classifier
}

// Labels returns for each aspect (Manifest.AspectList) the indices of its labels in
// the logits. Names are matched in any case and order; failing that, with a single
// aspect, index 0 is the violation. With one logit single is true, both indices are
// 0, and the probability of a violation is sigmoid(-logit). More than two labels
// that are not the pairs of aspects are an error that wraps ErrUnsupported.
func (c *Checkpoint) Labels() (rows []LabelRows, single bool, err error) {
	switch {
	case c.Config.NumLabels == 1:
		return []LabelRows{{}}, true, nil
	case c.Config.NumLabels == 2:
		v := c.Config.violation()
		return []LabelRows{{v, 1 - v}}, false, nil
	case c.Manifest == nil || len(c.Manifest.Aspects) == 0:
		return nil, false, fmt.Errorf("checkpoint %s: config.json: %d labels in id2label; a reward model has one or two, or NAME:violation and NAME:compliant for each aspect: %w", c.Dir, c.Config.NumLabels, ErrUnsupported)
	}
	if rows, err = c.Config.labelRows(c.Manifest.Aspects); err != nil {
		return nil, false, fmt.Errorf("checkpoint %s: %w: %w", c.Dir, err, ErrDamaged)
	}
	return rows, false, nil
}

// MaxLength is the maximum length of a sequence in tokens, including special
// tokens: the manifest's max_length, or else the number of positions of the model.
func (c *Checkpoint) MaxLength() int {
	if c.Manifest.MaxLength > 0 {
		return c.Manifest.MaxLength
	}
	return c.Config.Positions()
}

// MaxContext is the maximum length of a context in tokens, including special
// tokens; 0 for a model that was not trained with context.
func (c *Checkpoint) MaxContext() int {
	if !c.Manifest.Context {
		return 0
	}
	return min(cmp.Or(c.Manifest.ContextTokens, DefaultContextTokens), c.Config.Positions())
}

// Tensors lists every stored tensor by name, including those that the model does
// not use.
func (c *Checkpoint) Tensors() []TensorInfo {
	list := make([]TensorInfo, 0, len(c.tensors))
	for _, t := range c.tensors {
		list = append(list, t.info())
	}
	slices.SortFunc(list, func(a, b TensorInfo) int { return cmp.Compare(a.Name, b.Name) })
	return list
}

// Name returns the stored name of a canonical one (see TensorSpec); ok is
// false when the checkpoint has no such tensor.
func (c *Checkpoint) Name(canonical string) (stored string, ok bool) {
	stored, ok = c.alias[canonical]
	return stored, ok
}

// Info describes the tensor of a canonical or stored name; ok is false when
// there is none.
func (c *Checkpoint) Info(name string) (info TensorInfo, ok bool) {
	t, err := c.find(name)
	return t.info(), err == nil
}

// find looks a name up, canonical names first.
func (c *Checkpoint) find(name string) (located, error) {
	if stored, ok := c.alias[name]; ok {
		name = stored
	}
	t, ok := c.tensors[name]
	if !ok {
		return located{}, fmt.Errorf("checkpoint %s: tensor %q: %w", c.Dir, name, ErrNoTensor)
	}
	return t, nil
}

func (t stored) info() TensorInfo {
	return TensorInfo{Name: t.name, DType: t.dtype, Shape: slices.Clone(t.shape)}
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
