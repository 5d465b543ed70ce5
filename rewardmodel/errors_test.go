package rewardmodel

import "testing"

func TestErrorKindCodes(t *testing.T) {
	for kind, want := range map[ErrorKind]string{
		KindInvalid: "invalid", KindNotFound: "not_found", KindTooLarge: "too_large", KindUnprocessable: "unprocessable",
	} {
		if kind.String() != want {
			t.Errorf("got %q, want %q", kind, want)
		}
	}
}
