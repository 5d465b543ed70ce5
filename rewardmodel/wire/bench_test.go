package wire

import (
	"bytes"
	"strings"
	"testing"
)

func BenchmarkDecodeRequest(b *testing.B) {
	text := strings.Repeat("A sentence of some words, no more. ", 40)
	body := bytes.TrimSuffix(bytes.Repeat([]byte(`{"id":"a","response":"`+text+`"},`), 512), []byte(","))
	body = append(append([]byte(`{"responses":[`), body...), "]}"...)
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := DecodeRequest(body, Limits{}); err != nil {
			b.Fatal(err)
		}
	}
}
