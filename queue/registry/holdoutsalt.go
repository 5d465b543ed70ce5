package registry

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"

	"assay/queue/internal/js"
)

// keySalt is the key of ASSAY_STATE with the secret that selects the responses of the
// hold-out set.
const keySalt = "holdout.salt"

// saltSize is in bytes. The value is hexadecimal.
const saltSize = 32

// HoldoutSalt returns the secret by which feedback.Split divides the responses. The
// first replica that calls it creates a random salt; it never changes after that, and
// all replicas get the same. A salt that was deleted or damaged is an error, and is
// not replaced. It is a secret because a rater who knows it can choose which labels
// judge the next candidate.
func (r *Registry) HoldoutSalt(ctx context.Context) ([]byte, error) {
	for {
		e, err := r.state.Get(ctx, keySalt)
		if err != nil {
			return nil, err
		}
		if e.Revision > 0 { // even without a value: then it was deleted
			return parseSalt(e.Value)
		}
		salt := make([]byte, saltSize)
		_, _ = rand.Read(salt) // never fails
		_, err = r.state.Put(ctx, keySalt, []byte(hex.EncodeToString(salt)), 0)
		switch {
		case err == nil:
			return salt, nil
		case !errors.Is(err, js.ErrChanged):
			return nil, err
		}
	}
}

func parseSalt(value []byte) ([]byte, error) {
	salt, err := hex.DecodeString(string(value))
	if err != nil || len(salt) != saltSize {
		return nil, fmt.Errorf("%s of %s: deleted, or not %d bytes in hexadecimal; restore it from a backup: another value would move responses between training and hold-out",
			keySalt, BucketState, saltSize)
	}
	return salt, nil
}
