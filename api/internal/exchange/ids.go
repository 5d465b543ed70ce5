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
