package encoder

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"

	"assay/rewardmodel"
	"assay/rewardmodel/checkpoint"
)

// classifierReader reads the classifier of a checkpoint, in float32. Layers that the checkpoint lacks are randomly
// initialized: pool has to be read before out, for the order of the random numbers.
type classifierReader struct {
	ckpt   *checkpoint.Checkpoint
	change changes
	rng    *rand.Rand
}

// classifierWeights are a linear layer of it: weight [outputs, hidden] and bias [outputs].
type classifierWeights struct {
	name         string
	weight, bias []float32
}

func (r *classifierReader) names() (pool, out string) {
	if r.ckpt.Config.ModelType == checkpoint.Roberta {
		return "classifier.dense", "classifier.out_proj"
	}
	return "pooler.dense", "classifier"
}

// pool reads the layer [hidden, hidden] before the last one. ModernBERT has another one.
func (r *classifierReader) pool() (classifierWeights, error) {
	name, _ := r.names()
	if _, ok := r.ckpt.Info(name + ".weight"); ok {
		return r.layer(name)
	}
	h := r.ckpt.Config.HiddenSize
	return classifierWeights{name, normal(r.rng, h*h), make([]float32, h)}, nil
}

func (r *classifierReader) layer(name string) (w classifierWeights, err error) {
	w.name = name
	if w.weight, err = r.ckpt.Float32(name + ".weight"); err == nil {
		w.bias, err = r.ckpt.Float32(name + ".bias")
	}
	return w, err
}

// out reads the last layer, with two rows per aspect, violation first, and the names of the aspects. A single logit z of
// compliance becomes the rows -z/2 and z/2, whose difference is the same margin.
func (r *classifierReader) out() (w classifierWeights, aspects []string, err error) {
	aspects, from, err := r.aspects()
	if err != nil {
		return w, nil, err
	}
	head, err := r.head()
	if err != nil {
		return w, nil, err
	}
	_, w.name = r.names()
	for _, i := range from {
		if i < 0 {
			w.weight, w.bias = append(w.weight, normal(r.rng, 2*r.ckpt.Config.HiddenSize)...), append(w.bias, 0, 0)
		} else {
			w.weight, w.bias = append(w.weight, head.weight[i]...), append(w.bias, head.bias[i][:]...)
		}
	}
	return w, aspects, nil
}

// aspects returns the names of the aspects and for each one the aspect of the checkpoint that it starts from, or -1.
func (r *classifierReader) aspects() (names []string, from []int, err error) {
	known := map[string]int{}
	inits := r.change.aspects
	for i, a := range r.ckpt.Manifest.AspectList() {
		if r.ckpt.HasClassifier() {
			known[a.Name] = i
		}
		if r.change.aspects == nil {
			inits = append(inits, AspectInit{Name: a.Name})
		}
	}
	for _, a := range inits {
		source := a.From
		if source == "" {
			source = a.Name
		}
		i, ok := known[source]
		if !ok {
			i = -1
		}
		switch {
		case rewardmodel.CheckAspect(a.Name) != nil:
			return nil, nil, fmt.Errorf("encoder: %q is not a name of an aspect", a.Name)
		case slices.Contains(names, a.Name):
			return nil, nil, fmt.Errorf("encoder: two aspects are named %q", a.Name)
		case a.From != "" && !ok:
			return nil, nil, fmt.Errorf("encoder: %s has no aspect %q for the aspect %q to start from", r.ckpt.Dir, a.From, a.Name)
		}
		names, from = append(names, a.Name), append(from, i)
	}
	if len(names) == 0 {
		return nil, nil, errors.New("encoder: a model needs at least one aspect")
	}
	return names, from, nil
}

// head is the last layer of a checkpoint's classifier, by aspect: the row of the violation before that of compliance.
type head struct {
	weight [][]float32
	bias   [][2]float32
}

// head reads the last layer of the classifier; a base model has none.
func (r *classifierReader) head() (head, error) {
	if !r.ckpt.HasClassifier() {
		return head{}, nil
	}
	_, name := r.names()
	rows, single, err := r.ckpt.Labels()
	if err != nil {
		return head{}, err
	}
	w, err := r.layer(name)
	if err != nil {
		return head{}, err
	}
	h := r.ckpt.Config.HiddenSize
	if single {
		both := make([]float32, 2*h)
		for i := range h {
			both[i], both[h+i] = -w.weight[i]/2, w.weight[i]/2
		}
		return head{[][]float32{both}, [][2]float32{{-w.bias[0] / 2, w.bias[0] / 2}}}, nil
	}
	var out head
	for _, row := range rows {
		out.weight = append(out.weight, slices.Concat(w.weight[row.Violation*h:(row.Violation+1)*h], w.weight[row.Compliant*h:(row.Compliant+1)*h]))
		out.bias = append(out.bias, [2]float32{w.bias[row.Violation], w.bias[row.Compliant]})
	}
	return out, nil
}

// normal samples from a normal distribution with standard deviation 0.02, as transformers initializes a new classifier.
func normal(rng *rand.Rand, n int) []float32 {
	v := make([]float32, n)
	for i := range v {
		v[i] = float32(0.02 * rng.NormFloat64())
	}
	return v
}
