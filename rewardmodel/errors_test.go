package rewardmodel

import "testing"

func TestErrorKindCodes(t *testing.T) {
	for kind, want := range map[ErrorKind]struct {
		code   string
		status int
	}{
		KindInvalid: {"invalid", 400}, KindNotFound: {"not_found", 404}, KindTooLarge: {"too_large", 413}, KindUnprocessable: {"unprocessable", 422},
	} {
		if kind.String() != want.code || kind.Status() != want.status {
			t.Errorf("got %q and %d, want %q and %d", kind, kind.Status(), want.code, want.status)
		}
	}
}
