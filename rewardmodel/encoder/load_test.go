package encoder

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/sugarme/gotch"
	"github.com/sugarme/gotch/ts"

	"assay/rewardmodel/checkpoint"
)

// The scores of a model do not change while others are loaded and freed on its thread.
func TestScoringWhileLoading(t *testing.T) {
	dir := filepath.Join("../checkpoint/testdata", "roberta-two")
	r := newRuntime(t)
	serving := loadModel(t, r, dir, BF16)
	batch := readGolden(t, dir).sequences()
	want, err := serving.Margins(batch)
	if err != nil {
		t.Fatal(err)
	}
	ckpt := openCheckpoint(t, dir)
	stop, loads := make(chan struct{}), make(chan int)
	go func() {
		n := 0
		for {
			m, err := r.Load(ckpt, BF16)
			if err != nil {
				t.Error(err)
			} else if got, err := m.Margins(batch); err != nil || !slices.Equal(got, want) {
				t.Errorf("the new model returns %v (%v), the old one %v", got, err, want)
			} else if err := m.Close(); err != nil {
				t.Error(err)
			}
			n++
			select {
			case <-stop:
				loads <- n
				return
			default:
			}
		}
	}()
	for range 200 {
		if got, err := serving.Margins(batch); err != nil || !slices.Equal(got, want) {
			t.Fatalf("%v (%v), want %v", got, err, want)
		}
	}
	close(stop)
	t.Logf("%d loads", <-loads)
}

// A load that fails halfway frees what it has read.
func TestFailedLoadFreesAll(t *testing.T) {
	dir := t.TempDir()
	good := openCheckpoint(t, filepath.Join("../checkpoint/testdata", "roberta-two"))
	var tensors []checkpoint.Tensor
	for _, spec := range checkpoint.Specs(good.Config, true) {
		tensor, err := good.Tensor(spec.Name)
		if err != nil {
			t.Fatal(err)
		}
		tensors = append(tensors, tensor)
	}
	out := filepath.Join(dir, "damaged")
	if err := checkpoint.Write(out, good.Config, checkpoint.Manifest{Version: "damaged"}, tensors); err != nil {
		t.Fatal(err)
	}
	file, err := os.OpenFile(filepath.Join(out, "model.safetensors"), os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := file.WriteAt([]byte{255, 255, 255, 255}, info.Size()-4); err != nil { // a NaN
		t.Fatal(err)
	}
	r := newRuntime(t)
	before := ts.LiveTensors.Load()
	for range 3 {
		if _, err := r.Load(openCheckpoint(t, out), FP32); !errors.Is(err, checkpoint.ErrNotFinite) {
			t.Errorf("a NaN weight: %v", err)
		}
	}
	if now := ts.LiveTensors.Load(); now > before {
		t.Errorf("%d tensors live after failed loads, %d before", now, before)
	}
	l := &loader{runtime: r, ckpt: openCheckpoint(t, out), kind: gotch.Float, viaCPU: true}
	if _, _, err := l.load(); !errors.Is(err, checkpoint.ErrNotFinite) {
		t.Errorf("in steps: %v", err)
	}
	if now := ts.LiveTensors.Load(); now > before {
		t.Errorf("%d tensors live after a failed load in steps, %d before", now, before)
	}
	r.Close()
	if _, err := r.Load(good, FP32); !errors.Is(err, ErrClosed) {
		t.Error(err)
	}
}

func TestBytes(t *testing.T) {
	r := newRuntime(t)
	ckpt := openCheckpoint(t, filepath.Join("../checkpoint/testdata", "roberta-two"))
	var elements int64
	for _, info := range ckpt.Tensors() {
		elements += int64(info.Elements())
	}
	for precision, size := range map[Precision]int64{FP32: 4, BF16: 2} {
		if got, err := r.Bytes(ckpt, precision); err != nil || got != size*elements {
			t.Errorf("%s takes %d bytes (%v), not %d", precision, got, err, size*elements)
		}
	}
	if r.hasInt8() == nil {
		quantized := openCheckpoint(t, filepath.Join("../checkpoint/testdata", "roberta-int8"))
		if got, err := r.Bytes(quantized, Auto); err != nil || got != 4*elements {
			t.Errorf("to load quantized weights in int8 takes %d bytes (%v), not those of fp32, %d", got, err, 4*elements)
		}
	}
	if _, err := r.Bytes(ckpt, "fp4"); err == nil {
		t.Error("an unknown precision has a size")
	}
}

// A model that is moved in steps, as to a GPU, is the same.
func TestStagedLoad(t *testing.T) {
	for _, name := range []string{"roberta-two", "deberta-v2", "roberta-model"} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join("../checkpoint/testdata", name)
			r := newRuntime(t)
			plain := loadPlain(t, r, dir, BF16)
			l := &loader{runtime: r, ckpt: openCheckpoint(t, dir), kind: gotch.BFloat16, viaCPU: true, chunkBytes: 64}
			net, params, err := l.load()
			if err != nil {
				t.Fatal(err)
			}
			staged := &Model{runtime: r, net: net, params: params}
			defer staged.Close()
			batch := sequences([]int32{0, 5, 6, 2}, []int32{0, 7, 2})
			want, err := plain.Logits(batch)
			if err != nil {
				t.Fatal(err)
			}
			if got, err := staged.Logits(batch); err != nil || !slices.EqualFunc(got, want, slices.Equal) {
				t.Errorf("%v (%v), want %v", got, err, want)
			}
		})
	}
}
