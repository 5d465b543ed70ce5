package registry

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"assay/queue/internal/js"
	"assay/rewardmodel/retrain"
)

// write stores the chunks of an object and completes info.
func (o *objectStore) write(ctx context.Context, info *jetstream.ObjectInfo, r io.Reader) error {
	var pending []jetstream.PubAckFuture
	defer func() { // after a failure: a chunk in flight must not arrive after drop
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanTimeout)
		defer cancel()
		for _, ack := range pending {
			if _, err := acknowledged(ctx, ack); err != nil {
				continue // as expected
			}
		}
	}()
	var last uint64
	await := func(window int) error {
		for len(pending) > window {
			ack, err := acknowledged(ctx, pending[0])
			if ctx.Err() == nil {
				pending = pending[1:]
			}
			if err != nil {
				return err
			}
			if ack.Sequence <= last {
				return fmt.Errorf("%w: a chunk was stored out of order", nats.ErrTimeout)
			}
			last = ack.Sequence
		}
		return nil
	}
	digest, chunk := sha256.New(), make([]byte, info.Opts.ChunkSize)
	info.Size, info.Chunks = 0, 0
	for {
		n, err := io.ReadFull(r, chunk)
		if n > 0 {
			digest.Write(chunk[:n])
			info.Size += uint64(n)
			info.Chunks++
			msg := &nats.Msg{Subject: SubjectChunks + info.NUID, Data: chunk[:n]}
			// No retry of one chunk: it would arrive after the next.
			ack, err := o.chunked.PublishMsgAsync(msg, jetstream.WithRetryAttempts(0))
			if err != nil {
				return err
			}
			pending = append(pending, ack)
			if err := await(chunkWindow); err != nil {
				return err
			}
		}
		if err == io.EOF || err == io.ErrUnexpectedEOF {
			break
		}
		if err != nil {
			return err
		}
	}
	info.Digest = jetstream.GetObjectDigestValue(digest)
	return await(0)
}

// acknowledged waits until a chunk is stored.
func acknowledged(ctx context.Context, ack jetstream.PubAckFuture) (*jetstream.PubAck, error) {
	select {
	case ack := <-ack.Ok():
		return ack, nil
	case err := <-ack.Err():
		return nil, err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// read writes the chunks of an object to w and verifies them.
func (o *objectStore) read(ctx context.Context, info *jetstream.ObjectInfo, w io.Writer) error {
	damaged := func(format string, args ...any) error {
		return fmt.Errorf("%w: object %s of %s: %s", retrain.ErrDamaged, info.Name, BucketModels, fmt.Sprintf(format, args...))
	}
	stored, err := o.chunks(ctx, info)
	if err != nil {
		return err
	}
	if stored != uint64(info.Chunks) {
		return damaged("it has %d of %d chunks", stored, info.Chunks)
	}
	f := &js.Follower{JetStream: o.js, Stream: StreamModels, Filter: SubjectChunks + info.NUID, Prefetch: chunkWindow, Log: o.log,
		OnIdle: func(ctx context.Context, times int) error {
			stored, err := o.chunks(ctx, info)
			switch {
			case err != nil:
				return err
			case stored != uint64(info.Chunks):
				return damaged("it has %d of %d chunks", stored, info.Chunks)
			case times > 1:
				return damaged("the server does not deliver all of its chunks")
			}
			return nil
		}}
	digest, left := sha256.New(), info.Chunks
	for left > 0 && ctx.Err() == nil {
		before := left
		for msg, err := range f.Messages(ctx) {
			if err != nil {
				return err
			}
			digest.Write(msg.Data())
			if _, err := w.Write(msg.Data()); err != nil {
				return err
			}
			if left--; left == 0 || msg.NumPending == 0 {
				break
			}
		}
		if left == 0 {
			break
		}
		// The server reports that no chunk is left. That is wrong if other objects
		// are removed while it reads, or if it is behind the leader: another read
		// continues where this one ended.
		stored, err := o.chunks(ctx, info)
		if err != nil {
			return err
		}
		if stored != uint64(info.Chunks) || left == before {
			return damaged("%d of %d chunks are missing", left, info.Chunks)
		}
	}
	if left > 0 {
		return fmt.Errorf("object %s of %s: %w", info.Name, BucketModels, context.Cause(ctx))
	}
	if jetstream.GetObjectDigestValue(digest) != info.Digest {
		return damaged("its SHA-256 is not the one that it was written with")
	}
	return nil
}
