package checkpoint

import (
	"bytes"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// The weights of roberta-int8 were quantized by compressed-tensors from those of roberta-two.
func TestQuantizeAsReference(t *testing.T) {
	floats, reference := mustOpen(t, filepath.Join("testdata", "roberta-two")), mustOpen(t, filepath.Join("testdata", "roberta-int8"))
	quantized := 0
	for _, spec := range Specs(floats.Config, true) {
		want, err := reference.Float32(spec.Name)
		if err != nil {
			t.Fatal(err)
		}
		values, err := floats.Float32(spec.Name)
		if err != nil {
			t.Fatal(err)
		}
		info, _ := reference.Info(spec.Name)
		if !Quantizable(spec) {
			if info.DType != F32 || !slices.Equal(values, want) {
				t.Errorf("%s, %s: differs", spec.Name, info.DType)
			}
			continue
		}
		quantized++
		q := Quantize(spec.Name, spec.Shape, values)
		scales, err := reference.Float32(info.Name + scaleSuffix)
		if err != nil {
			t.Fatal(err)
		}
		var bytes bytes.Buffer
		if err := q.WriteTo(&bytes); err != nil {
			t.Fatal(err)
		}
		columns := spec.Shape[1]
		for i, b := range bytes.Bytes() {
			// The reference divides the range of -128 to 127 by 255, this package the magnitude by 127.
			if scale := q.Scales[i/columns]; math.Abs(float64(scale/scales[i/columns]-1)) > 0.005 {
				t.Fatalf("%s: scale %v, reference %v", spec.Name, scale, scales[i/columns])
			} else if got := float32(int8(b)) * scale; math.Abs(float64(got-values[i])) > 0.501*float64(scale) || math.Abs(float64(got-want[i])) > 1.01*float64(scale) {
				t.Fatalf("%s: element %d is %v, of the reference %v, was %v, scale %v", spec.Name, i, got, want[i], values[i], scale)
			}
		}
	}
	if quantized != 12 {
		t.Errorf("%d tensors are quantized", quantized)
	}
}

func TestQuantizeRows(t *testing.T) {
	q := Quantize("encoder.layer.0.output.dense.weight", []int{3, 2}, []float32{0, 0, -254, 127, 1e-3, -2e-3})
	var bytes bytes.Buffer
	if err := q.WriteTo(&bytes); err != nil {
		t.Fatal(err)
	}
	if got := bytes.Bytes(); !slices.Equal(got, []byte{0, 0, 0x81, 64, 64, 0x81}) {
		t.Errorf("bytes %v, scales %v", got, q.Scales)
	}
}

// An I8 tensor is read the same as floats of every type, in parts too.
func TestReadQuantized(t *testing.T) {
	c := mustOpen(t, filepath.Join("testdata", "roberta-int8"))
	const name = "encoder.layer.1.intermediate.dense.weight"
	want, err := c.Float32(name)
	if err != nil {
		t.Fatal(err)
	}
	for _, dtype := range []DType{F32, BF16, F16} {
		got := make([]byte, len(want)*dtype.Size())
		if err := c.ReadAs(name, dtype, got); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, dtype.narrow(nil, want)) {
			t.Errorf("%s differs", dtype)
		}
	}
}

// A tensor that the model does not need is not checked when the checkpoint is opened.
func TestReadUnusedQuantized(t *testing.T) {
	for header, text := range map[string]string{
		`"shape":[2,2],"data_offsets":[0,4]},"x_scale":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}}`: "must be floats of shape [2 1]",
		`"shape":[2,2],"data_offsets":[0,4]},"y":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}}`:       "has no scales",
		`"shape":[4],"data_offsets":[0,4]},"x_scale":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}}`:   "only matrices",
	} {
		path := filepath.Join(t.TempDir(), "x.safetensors")
		writeAll(t, safetensors(`{"x":{"dtype":"I8",`+header, "abcdABCD"), path)
		f, err := openDirectory(filepath.Dir(path))
		if err != nil {
			t.Fatal(err)
		}
		defer f.close()
		s, tensors, err := openShard(f, "x.safetensors")
		if err != nil {
			t.Fatal(err)
		}
		defer s.file.Close()
		c := &Checkpoint{tensors: map[string]located{}}
		for _, one := range tensors {
			c.tensors[one.name] = one
		}
		_, err = c.Float32("x")
		wantError(t, err, nil, text)
	}
}

func TestOpenRejectsQuantized(t *testing.T) {
	const weights = "model.safetensors"
	config := func(old, new string) func(*testing.T, string) {
		return func(t *testing.T, dir string) { edit(t, filepath.Join(dir, "config.json"), old, new) }
	}
	header := func(old, new string) func(*testing.T, string) {
		return func(t *testing.T, dir string) { editHeader(t, filepath.Join(dir, weights), old, new) }
	}
	tests := []struct {
		name   string
		damage func(*testing.T, string)
		kind   error
		text   string
	}{
		{"method", config(`"compressed-tensors"`, `"awq"`), ErrUnsupported, `quant_method is "awq"`},
		{"format", config(`"int-quantized"`, `"pack-quantized"`), ErrUnsupported, `format is "pack-quantized"`},
		{"bits", config(`"num_bits": 8`, `"num_bits": 4`), ErrUnsupported, `weights of "group_0"`},
		{"asymmetric", config(`"symmetric": true`, `"symmetric": false`), ErrUnsupported, `weights of "group_0"`},
		{"one scale", config(`"channel"`, `"tensor"`), ErrUnsupported, `weights of "group_0"`},
		{"activations", config(`"input_activations": null`, `"input_activations": {"num_bits": 8}`), ErrUnsupported, `input_activations of "group_0"`},
		{"group with a long name", func(t *testing.T, dir string) {
			edit(t, filepath.Join(dir, "config.json"), `"group_0"`, `"`+strings.Repeat("g", 5000)+`"`)
			edit(t, filepath.Join(dir, "config.json"), `"num_bits": 8`, `"num_bits": 4`)
		}, ErrUnsupported, "weights of"},
		{"rotated", config(`"transform_config": {}`, `"transform_config": {"config_groups": {"u": {}}}`), ErrUnsupported, "transform_config is"},
		{"not an object", config(`"quant_method": "compressed-tensors"`, `"quant_method": 1`), ErrDamaged, "quantization_config"},
		{"not announced", config(`"quantization_config"`, `"other"`), ErrUnsupported, "is I8; weights must be"},
		{"no scales", header("query.weight_scale", "query.weight_other"), ErrDamaged, "has no scales"},
		{"scales of another shape", header(`"shape":[24,1]`, `"shape":[1,24]`), ErrDamaged, "must be floats of shape [24 1]"},
		{"embeddings", header(`"roberta.embeddings.position_embeddings.weight":{"dtype":"F32","shape":[24,16],`, `"roberta.embeddings.position_embeddings.weight":{"dtype":"I8","shape":[96,16],`), ErrDamaged, "position_embeddings"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			dir := copyDirectory(t, "roberta-int8")
			test.damage(t, dir)
			c, err := Open(dir)
			if err == nil {
				c.Close()
			}
			wantError(t, err, test.kind, test.text)
		})
	}
}

func TestWriteRejectsQuantized(t *testing.T) {
	c := mustOpen(t, filepath.Join("testdata", "roberta-int8"))
	for text, change := range map[string]func(*Tensor){
		"only the matrices of layers may be": func(x *Tensor) {
			if x.Name == "classifier.dense.weight" {
				*x = Quantize(x.Name, x.Shape, make([]float32, x.Shape[0]*x.Shape[1]))
			}
		},
		"has 1 scales for its 16 rows": func(x *Tensor) {
			if strings.HasSuffix(x.Name, "query.weight") {
				x.Scales = x.Scales[:1]
			}
		},
	} {
		tensors := tensorsOf(t, c)
		for i := range tensors {
			change(&tensors[i])
		}
		wantError(t, Write(filepath.Join(t.TempDir(), "model"), c.Config, Manifest{Version: "v1", Threshold: 0.5}, tensors), nil, text)
	}
}
