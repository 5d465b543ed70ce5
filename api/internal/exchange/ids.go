package exchange

import (
	"crypto/rand"
	"strings"
)

const maxRequestID = 128

// validRequestID returns the client's id if it is short and safe to log and
// echo, otherwise a new one.
func validRequestID(id string) string {
	if id == "" || len(id) > maxRequestID || !IsIdentifier(id) {
		return rand.Text()
	}
	return id
}

// IsIdentifier reports whether s consists of ASCII letters, digits and
// -_.:/+=@ only.
func IsIdentifier(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool {
		switch {
		case 'a' <= r && r <= 'z', 'A' <= r && r <= 'Z', '0' <= r && r <= '9':
			return false
		}
		return !strings.ContainsRune("-_.:/+=@", r)
	})
}

// validTraceparent returns a W3C trace context header ("00-<32 hex>-<16 hex>-<2
// hex>") unchanged, or "" if it is malformed.
func validTraceparent(header string) string {
	parts := strings.Split(header, "-")
	if len(parts) != 4 {
		return ""
	}
	for i, length := range [4]int{2, 32, 16, 2} {
		if len(parts[i]) != length || strings.Trim(parts[i], "0123456789abcdef") != "" {
			return ""
		}
	}
	return header
}
