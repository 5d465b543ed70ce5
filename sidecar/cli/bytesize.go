package cli

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// ByteSize is a number of bytes on the command line: 1048576, 1MiB or 1MB.
type ByteSize int64

// UnmarshalText parses an integer with an optional unit.
func (b *ByteSize) UnmarshalText(text []byte) error {
	s := strings.TrimSpace(string(text))
	number, scale := s, int64(1)
	for _, unit := range []struct {
		suffix string
		scale  int64
	}{
		{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"TiB", 1 << 40},
		{"kB", 1e3}, {"KB", 1e3}, {"MB", 1e6}, {"GB", 1e9}, {"TB", 1e12}, {"B", 1},
	} {
		if rest, ok := strings.CutSuffix(s, unit.suffix); ok {
			number, scale = strings.TrimSpace(rest), unit.scale
			break
		}
	}
	n, err := strconv.ParseInt(number, 10, 64)
	if err != nil || n < 0 || n > math.MaxInt64/scale {
		return fmt.Errorf("invalid size %q; give a number of bytes such as 1048576 or 64MiB", s)
	}
	*b = ByteSize(n * scale)
	return nil
}

// String formats the number with the largest binary unit that divides it; UnmarshalText parses the result.
func (b ByteSize) String() string {
	for _, unit := range []struct {
		suffix string
		scale  ByteSize
	}{{"TiB", 1 << 40}, {"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}} {
		if b != 0 && b%unit.scale == 0 {
			return strconv.FormatInt(int64(b/unit.scale), 10) + unit.suffix
		}
	}
	return strconv.FormatInt(int64(b), 10)
}
