package checkpoint

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"os"
	"path/filepath"
	"sync"
	"testing"
)

func TestHalfPrecisionIsExact(t *testing.T) {
	for bits, want := range map[uint16]float32{
		0x0000: 0, 0x8000: float32(math.Copysign(0, -1)), 0x3c00: 1, 0xc000: -2, 0x7bff: 65504,
		0x0001: 0x1p-24, 0x03ff: 1023 * 0x1p-24, 0x0400: 0x1p-14, 0x3555: 0.333251953125, 0xfbff: -65504,
	} {
		if got := halfToFloat(bits); math.Float32bits(got) != math.Float32bits(want) {
			t.Errorf("%#04x is %v, not %v", bits, got, want)
		}
	}
	// Every finite F16 and BF16 value round-trips.
	for b := range 1 << 16 {
		raw := binary.LittleEndian.AppendUint16(nil, uint16(b))
		for _, d := range []DType{F16, BF16} {
			if d.nonFinite(raw) >= 0 {
				continue
			}
			var wide [1]float32
			d.widen(wide[:], raw)
			if back := d.narrow(nil, wide[:]); !bytes.Equal(back, raw) {
				t.Fatalf("%s %#04x became %v became %x", d, b, wide[0], back)
			}
		}
	}
}

func TestRounding(t *testing.T) {
	for _, test := range []struct {
		x           float32
		half, brain uint16
	}{
		{1 + 0x1p-11, 0x3c00, 0x3f80},                   // halfway to even, down
		{1 + 3*0x1p-11, 0x3c02, 0x3f80},                 // halfway to even, up
		{1 + 0x1p-8, 0x3c04, 0x3f80},                    // halfway for bfloat16, down
		{1 + 3*0x1p-8, 0x3c0c, 0x3f82},                  // halfway for bfloat16, up
		{65519, 0x7bff, 0x4780},                         // the last that stays finite
		{65520, 0x7c00, 0x4780},                         // the first half-precision infinity
		{0x1p-25, 0x0000, 0x3300},                       // halfway to zero
		{0x1.8p-25, 0x0001, 0x3340},                     // up to the smallest subnormal
		{0x1p-14 - 0x1p-26, 0x0400, 0x3880},             // up from subnormal to normal
		{-1.0 / 3, 0xb555, 0xbeab},                      //
		{math.MaxFloat32, 0x7c00, 0x7f80},               // overflows both
		{float32(math.Inf(-1)), 0xfc00, 0xff80},         //
		{math.SmallestNonzeroFloat32, 0x0000, 0x0000},   //
		{float32(math.Copysign(0, -1)), 0x8000, 0x8000}, //
	} {
		if got := floatToHalf(test.x); got != test.half {
			t.Errorf("half of %v is %#04x, want %#04x", test.x, got, test.half)
		}
		if got := floatToBrain(test.x); got != test.brain {
			t.Errorf("bfloat16 of %v is %#04x, want %#04x", test.x, got, test.brain)
		}
	}
	nan := float32(math.NaN())
	if floatToHalf(nan)&0x7c00 != 0x7c00 || floatToHalf(nan)&0x3ff == 0 || floatToBrain(nan)&0x7f == 0 {
		t.Error("NaN is lost")
	}
}

func TestReadTensor(t *testing.T) {
	c := mustOpen(t, filepath.Join("testdata", "roberta-bf16"))
	info, _ := c.Info("classifier.dense.weight")
	raw := make([]byte, info.Bytes())
	if err := c.ReadTensor("classifier.dense.weight", raw); err != nil {
		t.Fatal(err)
	}
	wide, err := c.Float32(info.Name)
	if err != nil {
		t.Fatal(err)
	}
	if len(wide) != info.Elements() || !bytes.Equal(BF16.narrow(nil, wide), raw) {
		t.Error("the bytes and the floats differ")
	}

	wantError(t, c.ReadTensor("classifier.dense.weight", raw[:10]), nil, "takes 512 bytes, the destination has 10")
	wantError(t, c.ReadFloat32("classifier.dense.weight", make([]float32, 3)), nil, "has 256 elements, the destination 3")
	_, err = c.Float32("ghost")
	wantError(t, err, ErrNoTensor, `"ghost"`)
	wantError(t, c.ReadTensor("ghost", nil), ErrNoTensor, `"ghost"`)

	c = mustOpen(t, filepath.Join("testdata", "bert-pretraining-legacy"))
	_, err = c.Float32("bert.embeddings.position_ids")
	wantError(t, err, ErrUnsupported, "is I64, not a float")
	raw = make([]byte, 22*8)
	if err := c.ReadTensor("bert.embeddings.position_ids", raw); err != nil || raw[8] != 1 {
		t.Errorf("position_ids: %v, %v", raw, err)
	}
}

// A tensor larger than the buffer is read in parts.
func TestReadInParts(t *testing.T) {
	const n = 3*chunk/4 + 5
	values := make([]float32, n)
	for i := range values {
		values[i] = float32(i)
	}
	path := filepath.Join(t.TempDir(), "x")
	writeAll(t, F32.narrow(nil, values), path)
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	c := &Checkpoint{tensors: map[string]located{"x": {stored: stored{"x", F32, []int{n}, 0, 4 * n}, shard: &shard{file, "x"}}}}
	got, err := c.Float32("x")
	if err != nil {
		t.Fatal(err)
	}
	for i := range got {
		if got[i] != values[i] {
			t.Fatalf("element %d is %v", i, got[i])
		}
	}
	raw := make([]byte, 4*n)
	if err := c.ReadTensor("x", raw); err != nil || !bytes.Equal(raw, F32.narrow(nil, values)) {
		t.Errorf("raw bytes differ: %v", err)
	}
}

// Non-finite values are found at every position, and no finite value is reported.
func TestNonFinite(t *testing.T) {
	for d, bad := range map[DType][]byte{F32: {0, 0, 0x80, 0x7f}, BF16: {0x80, 0xff}, F16: {1, 0x7c}} {
		largest := map[DType][]byte{F32: {0xff, 0xff, 0x7f, 0xff}, BF16: {0x7f, 0xff}, F16: {0xff, 0xfb}}[d]
		for n := range 40 {
			b := bytes.Repeat(largest, n)
			if i := d.nonFinite(b); i != -1 {
				t.Errorf("%s: element %d of %d finite ones", d, i, n)
			}
			for at := range n {
				b := bytes.Clone(b)
				copy(b[at*len(bad):], bad)
				if i := d.nonFinite(b); i != at {
					t.Errorf("%s: element %d of %d is found at %d", d, at, n, i)
				}
			}
		}
	}
	if I64.nonFinite(bytes.Repeat([]byte{0xff}, 16)) != -1 {
		t.Error("an integer is always finite")
	}
}

func TestReadFindsWhatIsNotFinite(t *testing.T) {
	for _, test := range []struct {
		dir  string
		bits []byte
	}{
		{"bert-two", []byte{0, 0, 0xc0, 0x7f}}, // NaN
		{"bert-two", []byte{0, 0, 0x80, 0xff}}, // -Inf
		{"bert-two", []byte{1, 0, 0x80, 0x7f}}, // signaling NaN
		{"bert-f16", []byte{0, 0x7c}},
		{"roberta-bf16", []byte{0xc0, 0xff}},
	} {
		dir := copyDirectory(t, test.dir)
		c := mustOpen(t, dir)
		name := "encoder.layer.1.output.dense.weight"
		tensor, err := c.find(name)
		if err != nil {
			t.Fatal(err)
		}
		file := readFile(t, dir, weightsFile)
		copy(file[tensor.start+int64(7*len(test.bits)):], test.bits)
		writeAll(t, file, dir, weightsFile)

		_, err = c.Float32(name)
		wantError(t, err, ErrNotFinite, tensor.name+`": element 7`)
		wantError(t, c.ReadTensor(name, make([]byte, tensor.end-tensor.start)), ErrNotFinite, tensor.name)
		if _, err := c.Float32("encoder.layer.0.output.dense.weight"); err != nil {
			t.Errorf("another tensor: %v", err)
		}
	}
}

func TestReadFromFileCutAfterOpen(t *testing.T) {
	dir := copyDirectory(t, "bert-two")
	c := mustOpen(t, dir)
	if err := os.Truncate(filepath.Join(dir, weightsFile), 8000); err != nil {
		t.Fatal(err)
	}
	var failed bool
	for _, spec := range Specs(c.Config, true) {
		if _, err := c.Float32(spec.Name); err != nil {
			wantError(t, err, ErrDamaged, "truncated after it was opened")
			failed = true
		}
	}
	if !failed {
		t.Error("every tensor was read")
	}
}

func TestReadAtTheSameTime(t *testing.T) {
	c := mustOpen(t, filepath.Join("testdata", "roberta-sharded"))
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			for _, spec := range Specs(c.Config, true) {
				if _, err := c.Float32(spec.Name); err != nil {
					t.Error(err)
				}
			}
		})
	}
	group.Wait()
}

func TestReadAfterClose(t *testing.T) {
	c, err := Open(filepath.Join("testdata", "bert-two"))
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Float32("classifier.weight"); !errors.Is(err, os.ErrClosed) {
		t.Errorf("got %v", err)
	}
}

// ReadAs equals Float32 followed by FromFloat32, for all types and numbers of chunks.
func TestReadAs(t *testing.T) {
	const n = chunk/4*2 + 3
	values := make([]float32, n)
	for i := range values {
		values[i] = float32(i%1001)/7 - 60
	}
	for _, stored := range []DType{F32, F16, BF16} {
		var raw bytes.Buffer
		if err := FromFloat32("x", stored, []int{n}, values).WriteTo(&raw); err != nil {
			t.Fatal(err)
		}
		c := readable(t, stored, raw.Bytes(), n)
		wide, err := c.Float32("x")
		if err != nil {
			t.Fatal(err)
		}
		for _, dtype := range []DType{F32, F16, BF16} {
			var want bytes.Buffer
			if err := FromFloat32("x", dtype, []int{n}, wide).WriteTo(&want); err != nil {
				t.Fatal(err)
			}
			got := make([]byte, n*dtype.Size())
			if err := c.ReadAs("x", dtype, got); err != nil || !bytes.Equal(got, want.Bytes()) {
				t.Errorf("%s as %s: %v", stored, dtype, err)
			}
			if err := c.ReadAs("x", dtype, got[1:]); err == nil {
				t.Errorf("%s as %s: a destination that is too small", stored, dtype)
			}
		}
		if err := c.ReadAs("x", I64, make([]byte, 8*n)); !errors.Is(err, ErrUnsupported) {
			t.Error(err)
		}
		if err := c.ReadAs("y", F32, nil); !errors.Is(err, ErrNoTensor) {
			t.Error(err)
		}
	}
}

// readable returns a checkpoint with only the tensor x.
func readable(t *testing.T, dtype DType, raw []byte, n int) *Checkpoint {
	t.Helper()
	file, err := os.CreateTemp(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { file.Close() })
	if _, err := file.Write(raw); err != nil {
		t.Fatal(err)
	}
	return &Checkpoint{tensors: map[string]located{"x": {
		stored: stored{name: "x", dtype: dtype, shape: []int{n}, end: int64(len(raw))}, shard: &shard{name: "x", file: file},
	}}}
}
