package registry

import (
	"bytes"
	"context"
	"time"

	"assay/queue/internal/js"
	"assay/rewardmodel/retrain"

	"github.com/nats-io/nats.go/jetstream"
)

// Access to internals for package registry_test.
const (
	ChunkBytes = chunkBytes
	KeySalt    = keySalt
	SaltSize   = saltSize
)

func Token(version string) string { return token(version) }

func DescribeFiles(dir string) (map[string]retrain.File, error) { return describeFiles(dir) }

func (r *Registry) State() *js.KeyValue { return r.state }

// ReplaceState makes the registry use another JetStream for its state.
func (r *Registry) ReplaceState(state *js.KeyValue) { r.state = state }

func (r *Registry) RemoveOrphans(ctx context.Context, age time.Duration) error {
	return r.objects.removeOrphans(ctx, age)
}

func (r *Registry) RemoveAbandoned(ctx context.Context, uploading string, age time.Duration) error {
	return r.removeAbandoned(ctx, uploading, age)
}

func (r *Registry) ObjectInfo(ctx context.Context, name string) (*jetstream.ObjectInfo, error) {
	info, _, err := r.objects.info(ctx, name)
	return info, err
}

var ErrUnrecognizedEvent = errUnrecognizedEvent

func EncodeName(name string) string { return encodeName(name) }

func (r *Registry) PutObject(ctx context.Context, name string, data []byte) error {
	return r.objects.put(ctx, name, bytes.NewReader(data), nil)
}

func (r *Registry) GetObject(ctx context.Context, name string) ([]byte, error) {
	info, _, err := r.objects.info(ctx, name)
	if err != nil {
		return nil, err
	}
	var got bytes.Buffer
	err = r.objects.read(ctx, info, &got)
	return got.Bytes(), err
}

func (r *Registry) RemoveObject(ctx context.Context, name string) error {
	return r.objects.remove(ctx, name)
}
