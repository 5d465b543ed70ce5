// Package registry is what the replicas of assay share about models: records and
// state in the key-value bucket ASSAY_STATE, files in the object store ASSAY_MODELS,
// and the events of models, training runs and feedback in the stream ASSAY_EVENTS.
// The NATS tools read them all (nats kv get ASSAY_STATE current, nats object ls
// ASSAY_MODELS).
package registry

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/go-json-experiment/json"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/rs/zerolog"

	"assay/queue/internal/js"
	"assay/rewardmodel/retrain"
)

// Names of the buckets and of the stream of events. A bucket is a stream whose name
// and subjects all clients of NATS agree on.
const (
	BucketState   = "ASSAY_STATE"
	BucketModels  = "ASSAY_MODELS"
	StreamState   = "KV_" + BucketState
	StreamModels  = "OBJ_" + BucketModels
	StreamEvents  = "ASSAY_EVENTS"
	SubjectEvents = "assay.v1.events" // followed by the kind

	SubjectState  = "$KV." + BucketState + "."   // followed by a key
	SubjectChunks = "$O." + BucketModels + ".C." // followed by the id of an object
	SubjectNames  = "$O." + BucketModels + ".M." // followed by the encoded name of an object
)

// Keys of the bucket ASSAY_STATE. The last two are prefixes of a version.
const (
	keyCurrent   = "current"
	keyTraining  = "training"
	keyModel     = "model."
	keyReference = "reference."
)

// Registry is the state that the replicas share about models.
//
// Every change is a compare-and-set, so that of replicas that try the same change
// exactly one succeeds. All methods are safe for concurrent use. They retry through
// the restart of a server and the election of a leader until ctx ends: set a
// deadline. A change whose acknowledgement was lost counts as made.
type Registry struct {
	nc      *nats.Conn
	js      jetstream.JetStream
	state   *js.KeyValue
	objects *objectStore
	events  jetstream.Stream
	damage  *js.Damage
	log     zerolog.Logger
}

// Open returns the registry of a server that has its buckets and streams. domain is
// that of JetStream, "" for the domain of the server; damage gets the damaged records.
func Open(ctx context.Context, nc *nats.Conn, jet jetstream.JetStream, domain string, damage *js.Damage, log zerolog.Logger) (*Registry, error) {
	stream := func(name string) (stream jetstream.Stream, err error) {
		err = js.Retry(ctx, func(ctx context.Context) error {
			stream, err = jet.Stream(ctx, name)
			return err
		})
		if err != nil {
			return nil, fmt.Errorf("stream %s: %w", name, js.Explain(err))
		}
		return stream, nil
	}
	state, err := stream(StreamState)
	if err != nil {
		return nil, err
	}
	models, err := stream(StreamModels)
	if err != nil {
		return nil, err
	}
	events, err := stream(StreamEvents)
	if err != nil {
		return nil, err
	}
	chunked, err := js.New(nc, domain, jetstream.WithPublishAsyncTimeout(chunkTimeout))
	if err != nil {
		return nil, err
	}
	direct := func(subject string) string { return subject }
	objects := &objectStore{nc: nc, js: jet, stream: models, values: js.NewLastValues(jet, models, direct, damage, log), chunked: chunked, log: log}
	return &Registry{nc: nc, js: jet, state: js.NewKeyValue(nc, jet, state, domain, damage, log), objects: objects, events: events, damage: damage, log: log}, nil
}

// Model returns the record of a version. Its error wraps retrain.ErrNoModel, or retrain.ErrDamaged if the record is.
func (r *Registry) Model(ctx context.Context, version string) (retrain.Model, error) {
	m, revision, err := js.Load[retrain.Model](ctx, r.state, keyModel+token(version))
	switch {
	case errors.Is(err, js.ErrDamaged):
		err = fmt.Errorf("%w: the record of %s: %w", retrain.ErrDamaged, version, err)
	case err == nil && revision == 0:
		err = fmt.Errorf("%w: %s", retrain.ErrNoModel, version)
	}
	return m, err
}

// Models returns the records of all versions, the newest first.
func (r *Registry) Models(ctx context.Context) ([]retrain.Model, error) {
	entries, err := r.state.All(ctx, keyModel)
	if err != nil {
		return nil, err
	}
	slices.SortFunc(entries, func(a, b js.Entry) int { return cmp.Compare(b.Revision, a.Revision) })
	models := make([]retrain.Model, len(entries))
	for i, e := range entries {
		if err := json.Unmarshal(e.Value, &models[i]); err != nil {
			return nil, fmt.Errorf("revision %d of %s: %w", e.Revision, BucketState, err)
		}
	}
	slices.SortStableFunc(models, func(a, b retrain.Model) int { return b.Created.Compare(a.Created) })
	return models, nil
}

// Register stores the record of a new version. Its error wraps retrain.ErrExists if
// the version is registered already.
func (r *Registry) Register(ctx context.Context, m retrain.Model) error {
	if m.Version == "" {
		return errors.New("registering a model: the version is empty")
	}
	_, err := store(ctx, r.state, keyModel+token(m.Version), m, 0)
	if errors.Is(err, retrain.ErrChanged) {
		return fmt.Errorf("%w: %s", retrain.ErrExists, m.Version)
	}
	return err
}

// Update replaces the record of a registered version. Its error wraps
// retrain.ErrNoModel if the version is not registered.
func (r *Registry) Update(ctx context.Context, m retrain.Model) error {
	for {
		_, revision, err := js.Load[retrain.Model](ctx, r.state, keyModel+token(m.Version))
		if err != nil {
			return err
		}
		if revision == 0 {
			return fmt.Errorf("%w: %s", retrain.ErrNoModel, m.Version)
		}
		_, err = store(ctx, r.state, keyModel+token(m.Version), m, revision)
		if !errors.Is(err, retrain.ErrChanged) {
			return err
		}
	}
}

// Current returns the version in service. Its revision is 0 if none was ever set.
func (r *Registry) Current(ctx context.Context) (retrain.Current, error) {
	c, revision, err := js.Load[retrain.Current](ctx, r.state, keyCurrent)
	return currentAt(c, revision), err
}

// SetCurrent makes another version the current one, and returns c with its new
// revision. Its error wraps retrain.ErrChanged if another writer did so since c was
// read.
func (r *Registry) SetCurrent(ctx context.Context, c retrain.Current) (retrain.Current, error) {
	revision, err := store(ctx, r.state, keyCurrent, c, c.Revision)
	if err != nil {
		return retrain.Current{}, err
	}
	return currentAt(c, revision), nil
}

// WatchCurrent sends the current version, if there is one, and then each later one,
// through restarts of the server, until ctx ends; then it closes the channel. It
// never sends a revision twice.
func (r *Registry) WatchCurrent(ctx context.Context) <-chan retrain.Current {
	values := make(chan retrain.Current)
	go func() {
		defer close(values)
		for e := range r.state.Watch(ctx, keyCurrent) {
			var c retrain.Current
			if err := json.Unmarshal(e.Value, &c); err != nil {
				r.log.Error().Err(err).Msg("ignored an invalid current version")
				continue
			}
			select {
			case values <- currentAt(c, e.Revision):
			case <-ctx.Done():
				return
			}
		}
	}()
	return values
}

func currentAt(c retrain.Current, revision uint64) retrain.Current {
	c.Revision = revision
	return c
}

// Status returns the state of the training runs of all replicas. Its revision is 0 if
// none was ever set.
func (r *Registry) Status(ctx context.Context) (retrain.Status, error) {
	s, revision, err := js.Load[retrain.Status](ctx, r.state, keyTraining)
	return statusAt(s, revision), err
}

// SetStatus stores the state of the training runs, and returns s with its new
// revision. Its error wraps retrain.ErrChanged if another writer did so since s was
// read.
func (r *Registry) SetStatus(ctx context.Context, s retrain.Status) (retrain.Status, error) {
	revision, err := store(ctx, r.state, keyTraining, s, s.Revision)
	if err != nil {
		return retrain.Status{}, err
	}
	return statusAt(s, revision), nil
}

func statusAt(s retrain.Status, revision uint64) retrain.Status {
	s.Revision = revision
	return s
}

// store writes a T to a key. Its error wraps retrain.ErrChanged if another writer was
// first.
func store[T any](ctx context.Context, state *js.KeyValue, key string, value T, revision uint64) (uint64, error) {
	revision, err := js.Store(ctx, state, key, value, revision)
	return revision, changed(err)
}

// changed translates js.ErrChanged to the error of package retrain.
func changed(err error) error {
	if errors.Is(err, js.ErrChanged) {
		return fmt.Errorf("%w: %w", retrain.ErrChanged, err)
	}
	return err
}

// token encodes a version for keys and names of objects. Most versions stay as they
// are; a slash, a character that a key cannot contain, and a dot at either end or next
// to another become = and two hexadecimal digits.
func token(version string) string {
	var b []byte
	for i := range len(version) {
		c := version[i]
		plain := c == '-' || c == '_' || '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
		if c == '.' {
			plain = i > 0 && i < len(version)-1 && version[i-1] != '.'
		}
		if plain {
			b = append(b, c)
			continue
		}
		b = fmt.Appendf(b, "=%02X", c)
	}
	return string(b)
}
