package cli

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"testing"
)

// FuzzParseConfig reads arbitrary files: each is rejected with an error, or yields
// texts and lists of texts, which are the same when they are written out and read again.
func FuzzParseConfig(f *testing.F) {
	f.Add([]byte("listen: 0.0.0.0:8080\nmax-body: 64MiB\nlr: 1e-5\nprivate: no\ntrusted-origin: [a, \"b\"]\n"))
	f.Add([]byte("# only a comment\n---\na: |\n  x\n  y\nb: >-\n  z\n...\n"))
	f.Add([]byte("a: &x 1\nb: *x\n<<: {c: 1}\n? d\n: !!str 7\n"))
	f.Add([]byte("a:\n  - 'it''s'\n  - .inf\n  - ~\n"))
	f.Add([]byte("\ufeffa: \"\\u0041\\x41\\U0001F600\"\t\r\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		values, err := parseConfig(data)
		if err != nil {
			return
		}
		var again strings.Builder
		plain := true
		write := func(text string) string {
			for _, r := range text {
				plain = plain && r >= ' ' && r <= '~'
			}
			return strconv.Quote(text)
		}
		for key, value := range values {
			switch value := value.(type) {
			case string:
				fmt.Fprintf(&again, "%s: %s\n", write(key), write(value))
			case []any:
				list := make([]string, len(value))
				for i, element := range value {
					list[i] = write(element.(string))
				}
				fmt.Fprintf(&again, "%s: [%s]\n", write(key), strings.Join(list, ", "))
			default:
				t.Fatalf("%q is a %T", key, value)
			}
		}
		if !plain {
			return // strconv.Quote and YAML escape other characters differently
		}
		got, err := parseConfig([]byte(again.String()))
		if err != nil || !reflect.DeepEqual(got, values) {
			t.Fatalf("%q: got %v (%v), want %v", again.String(), got, err, values)
		}
	})
}
