package queue

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"

	"assay/rewardmodel/retrain"
)

// keySalt is the key of ASSAY_STATE with the secret that decides which responses
// are held out.
const keySalt = "holdout.salt"

// saltSize is in bytes. The value is in hexadecimal.
const saltSize = 32

// HoldoutSalt returns the secret by which feedback.Split divides the responses.
// The first replica that asks creates it at random; it never changes after that,
// and all replicas get the same. One that was deleted or damaged is an error, and
// is not replaced. Nothing else reads it: those who know it can choose which of
// their labels judge the next candidate.
func (r *Registry) HoldoutSalt(ctx context.Context) ([]byte, error) {
	for {
		e, err := r.state.get(ctx, keySalt)
		if err != nil {
			return nil, err
		}
		if e.revision > 0 { // also without a value: then it was deleted
			return parseSalt(e.value)
		}
		salt := make([]byte, saltSize)
		_, _ = rand.Read(salt) // never fails
		_, err = r.state.put(ctx, keySalt, []byte(hex.EncodeToString(salt)), 0)
		switch {
		case err == nil:
			return salt, nil
		case !errors.Is(err, retrain.ErrChanged):
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
