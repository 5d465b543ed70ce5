package registry

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"

	"github.com/nats-io/nats.go/jetstream"

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
			salt, err := parseSalt(e.Value)
			if err == nil {
				r.markSalt(ctx)
			}
			return salt, err
		}
		cfg, err := r.stateConfig(ctx)
		if err != nil {
			return nil, err
		}
		if cfg.Metadata[metadataSalt] != "" {
			if e, err = r.state.Get(ctx, keySalt); err == nil && e.Revision > 0 {
				continue // another replica has created it in the meantime
			}
			return nil, errors.Join(err, errLostSalt)
		}
		salt := make([]byte, saltSize)
		_, _ = rand.Read(salt) // never fails
		_, err = r.state.Put(ctx, keySalt, []byte(hex.EncodeToString(salt)), 0)
		switch {
		case err == nil:
			r.markSalt(ctx)
			return salt, nil
		case !errors.Is(err, js.ErrChanged):
			return nil, err
		}
	}
}

// metadataSalt is set in the metadata of the stream of ASSAY_STATE once there is a salt.
// The server stores metadata in another file than messages, so that a process does not
// create another salt when it discards a damaged file of messages.
const metadataSalt = "assay.holdout.salt"

var errLostSalt = fmt.Errorf("%s of %s: there was one, and the NATS server has lost it; restore it from a backup: another value would move responses between training and hold-out",
	keySalt, BucketState)

// stateConfig returns the configuration of the stream of ASSAY_STATE.
func (r *Registry) stateConfig(ctx context.Context) (cfg jetstream.StreamConfig, err error) {
	err = js.Retry(ctx, func(ctx context.Context) error {
		stream, err := r.js.Stream(ctx, StreamState)
		if err == nil {
			cfg = stream.CachedInfo().Config
		}
		return err
	})
	return cfg, err
}

// markSalt records that there is a salt. Without permission to change the stream, the
// salt is used all the same.
func (r *Registry) markSalt(ctx context.Context) {
	cfg, err := r.stateConfig(ctx)
	if err != nil || cfg.Metadata[metadataSalt] != "" {
		return
	}
	cfg.Metadata = maps.Clone(cfg.Metadata)
	if cfg.Metadata == nil {
		cfg.Metadata = map[string]string{}
	}
	cfg.Metadata[metadataSalt] = "created"
	if _, err := r.js.UpdateStream(ctx, cfg); err != nil {
		r.log.Warn().Err(err).Str("stream", StreamState).Msg("cannot record that the salt of the hold-out exists")
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
