package checkpoint

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"strings"
	"testing"
)

func TestReadHeader(t *testing.T) {
	file := safetensors(`{"__metadata__":{"format":"pt"},"b":{"dtype":"F32","shape":[2,1],"data_offsets":[4,12]},`+
		`"empty":{"dtype":"I64","shape":[0,3],"data_offsets":[12,12]},"a":{"shape":[],"later":{"x":[1]},"data_offsets":[0,4],"dtype":"F32"}}   `, "aaaabbbbcccc")
	tensors, err := readHeader(bytes.NewReader(file), int64(len(file)))
	if err != nil {
		t.Fatal(err)
	}
	base := int64(len(file) - 12)
	got := fmt.Sprint(tensors)
	want := fmt.Sprintf("[{a F32 [] %d %d} {b F32 [2 1] %d %d} {empty I64 [0 3] %d %d}]", base, base+4, base+4, base+12, base+12, base+12)
	if got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestReadHeaderRejects(t *testing.T) {
	entry := func(shape, offsets string) string {
		return `{"a":{"dtype":"F32","shape":` + shape + `,"data_offsets":` + offsets + `}}`
	}
	two := func(first, second string) string {
		return `{"a":{"dtype":"F32","shape":[1],"data_offsets":` + first + `},"b":{"dtype":"F32","shape":[1],"data_offsets":` + second + `}}`
	}
	length := func(n uint64, rest string) []byte {
		return append(binary.LittleEndian.AppendUint64(nil, n), rest...)
	}
	many := func() string {
		var b strings.Builder
		b.WriteByte('{')
		for i := range maxTensors + 1 {
			fmt.Fprintf(&b, `"%d":{"dtype":"U8","shape":[0],"data_offsets":[0,0]},`, i)
		}
		b.WriteString(`"z":{}}`)
		return b.String()
	}
	tests := []struct {
		name string
		file []byte
		kind error
		text string
	}{
		{"empty file", nil, ErrDamaged, "0 bytes long"},
		{"nine bytes", length(1, "{"), ErrDamaged, "9 bytes long"},
		{"length over the bound", length(maxHeader+1, "{}"), ErrDamaged, "is over 100000000"},
		{"length with the top bit", length(1<<63, "{}"), ErrDamaged, "is over 100000000"},
		{"length past the end", length(64, "{}"), ErrDamaged, "truncated"},
		{"length zero", length(0, "{}{}"), ErrDamaged, "does not start with '{'"},
		{"length one", length(1, "{}{}"), ErrDamaged, "does not start with '{'"},
		{"length too short", length(10, `{"a":{"dtype":"F32"}}`), ErrDamaged, "unexpected EOF"},
		{"zip", append([]byte("PK\x03\x04"), make([]byte, 30)...), ErrUnsupported, "pickle"},
		{"zip with a size", []byte("PK\x03\x04\x00\x00\x08\x08archive/data.pkl"), ErrUnsupported, "pickle"},
		{"pickle", []byte("\x80\x02}q\x00(X\x05\x00\x00\x00"), ErrUnsupported, "pickle"},
		{"git lfs", []byte("version https://git-lfs.github.com/spec/v1\n"), ErrDamaged, "git lfs pull"},
		{"html", []byte("<!DOCTYPE html><html></html>"), ErrDamaged, "is over 100000000"},
		{"leading space", safetensors(` {}`, ""), ErrDamaged, "does not start with '{'"},
		{"an array", safetensors(`[1]`, ""), ErrDamaged, "does not start with '{'"},
		{"not JSON", safetensors(`{a:1}`, ""), ErrDamaged, "header"},
		{"cut JSON", safetensors(`{"a":{"dtype"`, ""), ErrDamaged, "unexpected EOF"},
		{"two values", safetensors(`{}{}`, ""), ErrDamaged, "more than one JSON value"},
		{"trailing text", safetensors(`{}x`, ""), ErrDamaged, "more than one JSON value"},
		{"invalid UTF-8", safetensors("{\"\xff\":{}}", ""), ErrDamaged, "UTF-8"},
		{"deep nesting", safetensors(`{"a":{"x":`+strings.Repeat("[", 1<<20)+`}}`, ""), ErrDamaged, "header"},
		{"duplicate tensor", safetensors(`{"a":{"dtype":"F32","shape":[0],"data_offsets":[0,0]},"a":{"dtype":"F32","shape":[0],"data_offsets":[0,0]}}`, ""), ErrDamaged, `"a" occurs twice`},
		{"duplicate metadata", safetensors(`{"__metadata__":{},"__metadata__":{}}`, ""), ErrDamaged, "occurs twice"},
		{"duplicate field", safetensors(`{"a":{"dtype":"F32","dtype":"F16","shape":[0],"data_offsets":[0,0]}}`, ""), ErrDamaged, "dtype occurs twice"},
		{"huge name", safetensors(`{"`+strings.Repeat("x", 1<<20)+`":{"dtype":"F32","shape":[-1],"data_offsets":[0,0]}}`, ""), ErrDamaged, "impossible dimension"},
		{"too many tensors", safetensors(many(), ""), ErrDamaged, "more than 131072 tensors"},
		{"metadata of numbers", safetensors(`{"__metadata__":{"a":1}}`, ""), ErrDamaged, "instead of a string"},
		{"tensor is null", safetensors(`{"a":null}`, ""), ErrDamaged, "instead of an object"},
		{"tensor is a string", safetensors(`{"a":"b"}`, ""), ErrDamaged, "instead of an object"},
		{"no dtype", safetensors(`{"a":{"shape":[0],"data_offsets":[0,0]}}`, ""), ErrDamaged, "unknown dtype"},
		{"unknown dtype", safetensors(`{"a":{"dtype":"F31","shape":[0],"data_offsets":[0,0]}}`, ""), ErrDamaged, `unknown dtype "F31"`},
		{"lower-case dtype", safetensors(`{"a":{"dtype":"f32","shape":[0],"data_offsets":[0,0]}}`, ""), ErrDamaged, "unknown dtype"},
		{"dtype is a number", safetensors(`{"a":{"dtype":1,"shape":[0],"data_offsets":[0,0]}}`, ""), ErrDamaged, "instead of a string"},
		{"no shape", safetensors(`{"a":{"dtype":"F32","data_offsets":[0,4]}}`, "aaaa"), ErrDamaged, "shape is missing"},
		{"no offsets", safetensors(`{"a":{"dtype":"F32","shape":[1]}}`, "aaaa"), ErrDamaged, "data_offsets must be two numbers"},
		{"one offset", safetensors(entry("[1]", "[0]"), "aaaa"), ErrDamaged, "data_offsets must be two numbers"},
		{"three offsets", safetensors(entry("[1]", "[0,4,8]"), "aaaa"), ErrDamaged, "at most 2 integers"},
		{"shape is a string", safetensors(entry(`"1"`, "[0,4]"), "aaaa"), ErrDamaged, "instead of an array"},
		{"shape of strings", safetensors(entry(`["1"]`, "[0,4]"), "aaaa"), ErrDamaged, "instead of a number"},
		{"fraction", safetensors(entry(`[1.5]`, "[0,4]"), "aaaa"), ErrDamaged, "integers"},
		{"beyond int64", safetensors(entry(`[18446744073709551616]`, "[0,4]"), "aaaa"), ErrDamaged, "integers"},
		{"negative dimension", safetensors(entry("[-1]", "[0,4]"), "aaaa"), ErrDamaged, "impossible dimension"},
		{"two negative dimensions", safetensors(entry("[-1,-1]", "[0,4]"), "aaaa"), ErrDamaged, "impossible dimension"},
		{"overflowing shape", safetensors(entry("[4294967296,4294967296,4]", "[0,4]"), "aaaa"), ErrDamaged, "too large"},
		{"overflow to the right size", safetensors(entry("[4611686018427387905,4]", "[0,16]"), "aaaabbbbccccdddd"), ErrDamaged, "too large"},
		{"huge shape", safetensors(entry("[1000000000,1000]", "[0,4]"), "aaaa"), ErrDamaged, "takes 4000000000000"},
		{"many dimensions", safetensors(entry("["+strings.Repeat("1,", 16)+"1]", "[0,4]"), "aaaa"), ErrDamaged, "at most 16"},
		{"negative offset", safetensors(entry("[1]", "[-4,0]"), "aaaa"), ErrDamaged, "not a range"},
		{"backward offsets", safetensors(entry("[1]", "[4,0]"), "aaaa"), ErrDamaged, "not a range"},
		{"offsets against shape", safetensors(entry("[2]", "[0,4]"), "aaaa"), ErrDamaged, "span 4 bytes, but shape [2] of F32 takes 8"},
		{"offset past the end", safetensors(entry("[2]", "[0,8]"), "aaaa"), ErrDamaged, "truncated"},
		{"huge offsets", safetensors(entry("[1]", "[9223372036854775803,9223372036854775807]"), "aaaa"), ErrDamaged, "out of range"},
		{"overlap", safetensors(two("[0,4]", "[2,6]"), "aaaabb"), ErrDamaged, "overlaps"},
		{"same place", safetensors(two("[0,4]", "[0,4]"), "aaaa"), ErrDamaged, "overlaps"},
		{"hole", safetensors(two("[0,4]", "[8,12]"), "aaaa....bbbb"), ErrDamaged, "hole of 4 bytes"},
		{"hole at the start", safetensors(entry("[1]", "[4,8]"), "....aaaa"), ErrDamaged, "hole of 4 bytes"},
		{"trailing bytes", safetensors(entry("[1]", "[0,4]"), "aaaabb"), ErrDamaged, "2 bytes follow"},
		{"no tensor but bytes", safetensors("{}", "aa"), ErrDamaged, "2 bytes follow"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			_, err := readHeader(bytes.NewReader(test.file), int64(len(test.file)))
			wantError(t, err, test.kind, test.text)
		})
	}
}

// A header of 640 bytes starts like a pickle, and one of 67 MB like a zip file.
func TestReadHeaderThatLooksLikeAPickle(t *testing.T) {
	file := safetensors("{}"+strings.Repeat(" ", 638), "")
	if !bytes.HasPrefix(file, []byte("\x80\x02")) {
		t.Fatal("not the intended header")
	}
	if _, err := readHeader(bytes.NewReader(file), int64(len(file))); err != nil {
		t.Error(err)
	}
}

func FuzzReadHeader(f *testing.F) {
	f.Add(safetensors(`{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}`, "aaaa"))
	f.Add(safetensors(`{"__metadata__":{"format":"pt"},"b":{"dtype":"BF16","shape":[2,1],"data_offsets":[0,4]},"a":{"dtype":"U8","shape":[],"data_offsets":[4,5]}} `, "aaaab"))
	f.Add(safetensors(`{"a":{"dtype":"F32","shape":[-1],"data_offsets":[0,18446744073709551615]}}`, ""))
	f.Add([]byte("PK\x03\x04"))
	f.Fuzz(func(t *testing.T, file []byte) {
		tensors, err := readHeader(bytes.NewReader(file), int64(len(file)))
		if err != nil {
			if len(err.Error()) > 800 {
				t.Errorf("error of %d bytes", len(err.Error()))
			}
			return
		}
		// Accepted tensors are in the file, in order, and have the stated
		// length.
		at := int64(8 + binary.LittleEndian.Uint64(file))
		for _, tensor := range tensors {
			if tensor.start != at || int64(tensor.info().Bytes()) != tensor.end-tensor.start {
				t.Fatalf("%+v does not follow %d", tensor, at)
			}
			at = tensor.end
		}
		if at != int64(len(file)) {
			t.Fatalf("tensors end at %d of %d", at, len(file))
		}
	})
}
