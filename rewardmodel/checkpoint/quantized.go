package checkpoint

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// A quantized checkpoint stores the matrices of the layers as 8-bit integers with one scale per row, in the format
// int-quantized of compressed-tensors, which transformers loads: next to "NAME.weight", I8 [out, in], is
// "NAME.weight_scale", float [out, 1], and the weight is their product. Embeddings, norms, biases and the classifier stay
// floats.

const (
	quantizationMethod = "compressed-tensors"
	quantizationFormat = "int-quantized"
	scaleSuffix        = "_scale"
	maxQuantized       = 127 // symmetric: -128 is not used
)

// quantization is quantization_config of config.json.
type quantization struct {
	Method string                       `json:"quant_method"`
	Format string                       `json:"format"`
	Status string                       `json:"quantization_status"`
	Ignore []string                     `json:"ignore"`
	Groups map[string]quantizationGroup `json:"config_groups"`
	// Transforms, such as rotations, that the weights need the activations to have as well.
	Transforms struct {
		Groups map[string]jsontext.Value `json:"config_groups,omitempty"`
	} `json:"transform_config"`
}

// quantizationGroup says how the modules that it targets are quantized.
type quantizationGroup struct {
	Targets []string            `json:"targets"`
	Format  string              `json:"format"`
	Weights quantizationWeights `json:"weights"`
	Inputs  jsontext.Value      `json:"input_activations"`
	Outputs jsontext.Value      `json:"output_activations"`
}

type quantizationWeights struct {
	Bits      int    `json:"num_bits"`
	Type      string `json:"type"`
	Symmetric bool   `json:"symmetric"`
	Strategy  string `json:"strategy"`
}

// rowsOfBytes are weights in 8-bit integers, with a scale for each row.
var rowsOfBytes = quantizationWeights{Bits: 8, Type: "int", Symmetric: true, Strategy: "channel"}

// checkQuantization checks that quantization_config is the format of this file.
func checkQuantization(raw jsontext.Value) error {
	var q quantization
	if err := json.Unmarshal(raw, &q); err != nil {
		return fmt.Errorf("config.json: quantization_config: %.200s: %w", err.Error(), ErrDamaged)
	}
	unsupported := func(field, value, want string) error {
		return fmt.Errorf("config.json: quantization_config: %s is %.80q; it must be %q, or use the weights in float32, float16 or bfloat16: %w", field, value, want, ErrUnsupported)
	}
	switch {
	case q.Method != quantizationMethod:
		return unsupported("quant_method", q.Method, quantizationMethod)
	case q.Format != quantizationFormat:
		return unsupported("format", q.Format, quantizationFormat)
	case len(q.Transforms.Groups) > 0:
		return unsupported("transform_config", strings.Join(sortedKeys(q.Transforms.Groups), " "), "{}")
	}
	for _, name := range sortedKeys(q.Groups) {
		g, in := q.Groups[name], fmt.Sprintf(" of %.40q", name)
		switch {
		case cmp.Or(g.Format, q.Format) != quantizationFormat:
			return unsupported("format"+in, g.Format, quantizationFormat)
		case g.Weights != rowsOfBytes:
			return unsupported("weights"+in, fmt.Sprintf("%+v", g.Weights), fmt.Sprintf("%+v", rowsOfBytes))
		case set(g.Inputs):
			return unsupported("input_activations"+in, string(g.Inputs), "null")
		case set(g.Outputs):
			return unsupported("output_activations"+in, string(g.Outputs), "null")
		}
	}
	return nil
}

// quantized reports whether the checkpoint that cfg was read from may have quantized weights.
func (cfg Config) quantized() bool { return set(cfg.raw["quantization_config"]) }

// Quantized reports whether the matrices of the layers are 8-bit integers.
func (c *Checkpoint) Quantized() bool { return c.Config.quantized() }

// set reports whether a field of JSON is present and not null.
func set(v jsontext.Value) bool { return len(v) > 0 && v.Kind() != 'n' }

// quantizationOf describes the quantized tensors among those that are written; nil if there are none.
func (cfg Config) quantizationOf(tensors []Tensor) *quantization {
	if !slices.ContainsFunc(tensors, func(t Tensor) bool { return t.DType == I8 }) {
		return nil
	}
	var ignored []string // linear layers outside the layers of the encoder
	for _, spec := range Specs(cfg, true) {
		module, weight := strings.CutSuffix(spec.Name, ".weight")
		if weight && len(spec.Shape) == 2 && !Quantizable(spec) && !strings.HasPrefix(module, "embeddings.") && !strings.HasSuffix(module, "rel_embeddings") {
			ignored = append(ignored, cfg.storedName(architectures[cfg.Architecture].prefix, module))
		}
	}
	return &quantization{
		Method: quantizationMethod, Format: quantizationFormat, Status: "compressed", Ignore: ignored,
		Groups: map[string]quantizationGroup{"group_0": {
			Targets: []string{"Linear"}, Format: quantizationFormat, Weights: rowsOfBytes,
			Inputs: jsontext.Value("null"), Outputs: jsontext.Value("null"),
		}},
	}
}

// Quantizable reports whether a tensor may be stored as I8: a matrix of a layer of the encoder.
func Quantizable(spec TensorSpec) bool {
	return len(spec.Shape) == 2 && (strings.HasPrefix(spec.Name, "encoder.layer.") || strings.HasPrefix(spec.Name, "layers."))
}

// Quantize returns a matrix [out, in], row-major, as a tensor of type I8 for writing. Each row is divided by a scale,
// its largest magnitude over 127, and rounded to the nearest integer, so that a weight changes by at most half the scale.
func Quantize(name string, shape []int, values []float32) Tensor {
	rows, columns := shape[0], shape[1]
	scales := make([]float32, rows)
	for i := range scales {
		for _, x := range values[i*columns : (i+1)*columns] {
			scales[i] = max(scales[i], float32(math.Abs(float64(x)))/maxQuantized)
		}
	}
	return Tensor{Name: name, DType: I8, Shape: shape, Scales: scales, WriteTo: func(w io.Writer) error {
		row := make([]byte, columns)
		for i, scale := range scales {
			for j, x := range values[i*columns : (i+1)*columns] {
				row[j] = 0
				if scale > 0 {
					row[j] = byte(int8(max(-maxQuantized, min(math.RoundToEven(float64(x)/float64(scale)), maxQuantized))))
				}
			}
			if _, err := w.Write(row); err != nil {
				return err
			}
		}
		return nil
	}}
}

// withScales returns the tensors to store: after the quantized ones, their scales.
func withScales(tensors []Tensor) []Tensor {
	var all []Tensor
	for _, t := range tensors {
		all = append(all, t)
		if t.DType == I8 {
			all = append(all, FromFloat32(t.Name+scaleSuffix, F32, []int{t.Shape[0], 1}, t.Scales))
		}
	}
	return all
}

// checkScales checks that a quantized tensor has its scales.
func (c *Checkpoint) checkScales(t located) error {
	scales, ok := c.tensors[t.name+scaleSuffix]
	switch {
	case len(t.shape) != 2:
		return fmt.Errorf("%s: tensor %q is I8 and has shape %v; only matrices may be quantized: %w", t.shard.name, t.name, t.shape, ErrUnsupported)
	case !ok:
		return fmt.Errorf("%s: tensor %q is I8 and has no scales, %q: %w", t.shard.name, t.name, t.name+scaleSuffix, ErrDamaged)
	case !scales.dtype.Float() || !slices.Equal(scales.shape, []int{t.shape[0], 1}):
		return fmt.Errorf("%s: tensor %q is %s %v; the scales of %q must be floats of shape %v: %w", scales.shard.name, scales.name, scales.dtype, scales.shape, t.name, []int{t.shape[0], 1}, ErrDamaged)
	}
	return nil
}

// scales reads the scales of a tensor; nil for one that is not quantized.
func (c *Checkpoint) scales(t located) ([]float32, error) {
	if t.dtype != I8 {
		return nil, nil
	}
	if err := c.checkScales(t); err != nil {
		return nil, fmt.Errorf("checkpoint %s: %w", c.Dir, err)
	}
	return c.Float32(t.name + scaleSuffix)
}

// multiply multiplies the elements of t from the one at start by the scales of their rows; nil scales are all 1.
func (t stored) multiply(values []float32, start int, scales []float32) {
	if scales == nil {
		return
	}
	columns := t.shape[1]
	for i := range values {
		values[i] *= scales[(start+i)/columns]
	}
}
