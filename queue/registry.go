package queue

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"

	"github.com/go-json-experiment/json"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/rs/zerolog"

	"assay/rewardmodel/feedback"
	"assay/rewardmodel/retrain"
)

// Keys of the bucket ASSAY_STATE. The last two are prefixes, followed by a
// version.
const (
	keyCurrent   = "current"
	keyTraining  = "training"
	keyModel     = "model."
	keyReference = "reference."
)

// objectHoldOut is the object of ASSAY_MODELS with the labels that the gate
// judges by.
const objectHoldOut = "holdout"

// Registry is what the replicas of assay know together of models and
// trainings: records and states in the bucket ASSAY_STATE, files in the object
// store ASSAY_MODELS, and what happened in the stream ASSAY_EVENTS.
//
// Whatever is changed is changed by compare-and-set, so that of replicas that
// do it at once exactly one succeeds. All methods are safe for concurrent use.
// They go on through the restart of a server and the election of a leader until
// ctx ends: give one with a deadline. What was stored although its
// acknowledgement got lost counts as stored.
type Registry struct {
	js      jetstream.JetStream
	state   *state
	objects *objects
	events  jetstream.Stream
	log     zerolog.Logger
}

// OpenRegistry returns the registry of the server of q, which Open has created
// when it was not there.
func (q *Queue) OpenRegistry(ctx context.Context) (*Registry, error) {
	handle := func(name string) (stream jetstream.Stream, err error) {
		err = retry(ctx, func(ctx context.Context) error {
			stream, err = q.js.Stream(ctx, name)
			return err
		})
		if err != nil {
			return nil, fmt.Errorf("stream %s: %w", name, explain(err))
		}
		return stream, nil
	}
	kv, err := handle(streamState)
	if err != nil {
		return nil, err
	}
	files, err := handle(streamModels)
	if err != nil {
		return nil, err
	}
	events, err := handle(StreamEvents)
	if err != nil {
		return nil, err
	}
	chunked, err := q.jetStream(jetstream.WithPublishAsyncTimeout(chunkTimeout))
	if err != nil {
		return nil, err
	}
	direct := func(subject string) string { return subject }
	objects := &objects{q.nc, q.js, files, newLastValues(q.js, files, direct, q.log), chunked, q.log}
	return &Registry{js: q.js, state: newState(q.nc, q.js, kv, q.cfg.Conn.Domain, q.log), objects: objects, events: events, log: q.log}, nil
}

// Model returns the record of a version, or retrain.ErrNoModel.
func (r *Registry) Model(ctx context.Context, version string) (retrain.Model, error) {
	m, revision, err := load[retrain.Model](ctx, r.state, keyModel+token(version))
	if err == nil && revision == 0 {
		err = fmt.Errorf("%w: %s", retrain.ErrNoModel, version)
	}
	return m, err
}

// Models returns all records, the newest first.
func (r *Registry) Models(ctx context.Context) ([]retrain.Model, error) {
	entries, err := r.state.all(ctx, keyModel)
	if err != nil {
		return nil, err
	}
	slices.SortFunc(entries, func(a, b entry) int { return cmp.Compare(b.revision, a.revision) })
	models := make([]retrain.Model, len(entries))
	for i, e := range entries {
		if err := json.Unmarshal(e.value, &models[i]); err != nil {
			return nil, fmt.Errorf("revision %d of %s: %w", e.revision, BucketState, err)
		}
	}
	slices.SortStableFunc(models, func(a, b retrain.Model) int { return b.Created.Compare(a.Created) })
	return models, nil
}

// Register stores the record of a new version. One that is there is
// retrain.ErrExists.
func (r *Registry) Register(ctx context.Context, m retrain.Model) error {
	if m.Version == "" {
		return errors.New("registering a model: its version is empty")
	}
	_, err := store(ctx, r.state, keyModel+token(m.Version), m, 0)
	if errors.Is(err, retrain.ErrChanged) {
		return fmt.Errorf("%w: %s", retrain.ErrExists, m.Version)
	}
	return err
}

// Update replaces the record of a version that is registered. One that is not
// is retrain.ErrNoModel.
func (r *Registry) Update(ctx context.Context, m retrain.Model) error {
	for {
		_, revision, err := load[retrain.Model](ctx, r.state, keyModel+token(m.Version))
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

// Current returns which version serves. Its revision is 0 when none was ever
// set.
func (r *Registry) Current(ctx context.Context) (retrain.Current, error) {
	c, revision, err := load[retrain.Current](ctx, r.state, keyCurrent)
	return currentAt(c, revision), err
}

// SetCurrent makes another version the current one, if nobody else did since c
// was read: that is retrain.ErrChanged. It returns c with its new revision.
func (r *Registry) SetCurrent(ctx context.Context, c retrain.Current) (retrain.Current, error) {
	revision, err := store(ctx, r.state, keyCurrent, c, c.Revision)
	if err != nil {
		return retrain.Current{}, err
	}
	return currentAt(c, revision), nil
}

// WatchCurrent sends the current version, if there is one, and then each later
// one, through restarts of the server, until ctx ends and the channel is
// closed. A revision never comes twice.
func (r *Registry) WatchCurrent(ctx context.Context) <-chan retrain.Current {
	values := make(chan retrain.Current)
	go func() {
		defer close(values)
		for e := range r.state.watch(ctx, keyCurrent) {
			var c retrain.Current
			if err := json.Unmarshal(e.value, &c); err != nil {
				r.state.log.Error().Err(err).Msg("the current version cannot be read")
				continue
			}
			select {
			case values <- currentAt(c, e.revision):
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

// Status returns the training of the fleet. Its revision is 0 when none was
// ever set.
func (r *Registry) Status(ctx context.Context) (retrain.Status, error) {
	s, revision, err := load[retrain.Status](ctx, r.state, keyTraining)
	return statusAt(s, revision), err
}

// SetStatus stores the training of the fleet, if nobody else did since s was
// read: that is retrain.ErrChanged. It returns s with its new revision.
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

// Reference returns the distribution of scores that was set for a version: nil
// when none was.
func (r *Registry) Reference(ctx context.Context, version string) ([]float64, error) {
	e, err := r.state.get(ctx, keyReference+token(version))
	if err != nil || e.value == nil {
		return nil, err
	}
	if len(e.value)%8 != 0 {
		return nil, fmt.Errorf("%s%s of %s: %d bytes are no whole numbers", keyReference, version, BucketState, len(e.value))
	}
	scores := make([]float64, 0, len(e.value)/8)
	for b := range slices.Chunk(e.value, 8) {
		scores = append(scores, math.Float64frombits(binary.LittleEndian.Uint64(b)))
	}
	return scores, nil
}

// SetReference keeps the distribution of the scores of a version, as 8 bytes
// each, little-endian. The first writer wins; whoever comes later gets no
// error.
func (r *Registry) SetReference(ctx context.Context, version string, scores []float64) error {
	value := make([]byte, 0, 8*len(scores))
	for _, score := range scores {
		value = binary.LittleEndian.AppendUint64(value, math.Float64bits(score))
	}
	_, err := r.state.put(ctx, keyReference+token(version), value, 0)
	if errors.Is(err, retrain.ErrChanged) {
		return nil
	}
	return err
}

// frozen is the object with the labels of the hold-out.
type frozen struct {
	Version string          `json:"version"`
	Labels  map[string]bool `json:"labels"` // by the hash of the id; true: violation
}

// Freeze keeps the labels of the hold-out as they are at the promotion of a
// version, in place of those before.
func (r *Registry) Freeze(ctx context.Context, labels map[feedback.Hash]bool, version string) error {
	f := frozen{Version: version, Labels: make(map[string]bool, len(labels))}
	for id, label := range labels {
		f.Labels[id.String()] = label
	}
	data, err := json.Marshal(f, json.Deterministic(true))
	if err != nil {
		return fmt.Errorf("labels of the hold-out: %w", err)
	}
	return r.objects.put(ctx, objectHoldOut, bytes.NewReader(data), nil)
}

// Frozen returns the labels of the hold-out at the last promotion, and of which
// version that was. The map is nil when there was none.
func (r *Registry) Frozen(ctx context.Context) (labels map[feedback.Hash]bool, version string, err error) {
	var data bytes.Buffer
	err = r.objects.get(ctx, objectHoldOut, func() (io.Writer, error) { data.Reset(); return &data, nil })
	switch {
	case errors.Is(err, errNoObject):
		return nil, "", nil
	case err != nil:
		return nil, "", err
	}
	var f frozen
	if err := json.Unmarshal(data.Bytes(), &f); err != nil {
		return nil, "", fmt.Errorf("object %s of %s: %w", objectHoldOut, BucketModels, err)
	}
	labels = make(map[feedback.Hash]bool, len(f.Labels))
	for id, label := range f.Labels {
		hash, err := feedback.ParseHash(id)
		if err != nil {
			return nil, "", fmt.Errorf("object %s of %s: %w", objectHoldOut, BucketModels, err)
		}
		labels[hash] = label
	}
	return labels, f.Version, nil
}

// token makes a version a part of keys and of the names of objects. Versions
// are plain words as a rule and stay what they are; what a key cannot hold, a
// slash, and a dot at either end or beside another become = and two hexadecimal
// digits.
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
