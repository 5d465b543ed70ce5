package queue

import (
	"context"
	"encoding/base64"
	"encoding/json" // as the NATS library writes the information on objects
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/rs/xid"
	"github.com/rs/zerolog"

	"assay/rewardmodel/retrain"
)

const (
	chunkBytes   = 512 << 10 // of one message; less where the server takes less
	chunkWindow  = 16        // messages on the way to the server
	chunkTimeout = 15 * time.Second
	cleanTimeout = 5 * time.Second
	// orphanAge is when the chunks of an object that was never finished are
	// removed: a writer that lives sends one every chunkTimeout at least.
	orphanAge = 10 * time.Minute
)

// errNoObject says that the object store does not have a name.
var errNoObject = errors.New("no such object")

// objects is the object store ASSAY_MODELS in the format that all clients of
// NATS share (ADR-20): the chunks of an object are messages of one subject, and
// a message that names them makes it exist.
//
// The library's own writer repeats a chunk that no leader took after those that
// follow it, and names in the end what it wanted to write. Here an object that
// is there is whole: its chunks were acknowledged, in order, before.
type objects struct {
	nc     *nats.Conn
	js     jetstream.JetStream
	stream jetstream.Stream
	values *lastValues // the messages that name objects
	// chunked sends chunks, and gives up an acknowledgement after
	// chunkTimeout. It ends with the connection.
	chunked jetstream.JetStream
	log     zerolog.Logger
}

// info returns what is known of an object, nil when there is none, and the
// sequence of the message that says so.
func (o *objects) info(ctx context.Context, name string) (*jetstream.ObjectInfo, uint64, error) {
	msg, err := o.values.read(ctx, objectSubject+encodeName(name))
	switch {
	case errors.Is(err, jetstream.ErrMsgNotFound):
		return nil, 0, nil
	case err != nil:
		return nil, 0, fmt.Errorf("object %s of %s: %w", name, BucketModels, err)
	case msg.Header == nil:
		return nil, msg.Sequence, nil
	}
	var info jetstream.ObjectInfo
	if err := json.Unmarshal(msg.Data, &info); err != nil {
		return nil, 0, fmt.Errorf("object %s of %s: %w", name, BucketModels, err)
	}
	if info.Deleted {
		return nil, msg.Sequence, nil
	}
	return &info, msg.Sequence, nil
}

func encodeName(name string) string { return base64.URLEncoding.EncodeToString([]byte(name)) }

// chunks counts the stored chunks of an object.
func (o *objects) chunks(ctx context.Context, info *jetstream.ObjectInfo) (uint64, error) {
	counts, err := subjects(ctx, o.stream, chunkSubject+info.NUID)
	return counts[chunkSubject+info.NUID], err
}

// put writes an object, in place of one of that name. Readers see the old one
// or the new one. When somebody else writes the name at the same time, one of
// the two gets retrain.ErrChanged. check, unless it is nil, may forbid it; what
// others do after it makes put fail.
func (o *objects) put(ctx context.Context, name string, r io.ReadSeeker, check func(context.Context) error) error {
	old, revision, err := o.info(ctx, name)
	if err != nil {
		return err
	}
	if check != nil {
		if err := check(ctx); err != nil {
			return err
		}
	}
	info := &jetstream.ObjectInfo{Bucket: BucketModels, ObjectMeta: jetstream.ObjectMeta{Name: name,
		Opts: &jetstream.ObjectMetaOptions{ChunkSize: uint32(min(chunkBytes, o.nc.MaxPayload()/2))}}}
	err = repeat(ctx, passing, func() error {
		if _, err := r.Seek(0, io.SeekStart); err != nil {
			return err
		}
		info.NUID = xid.New().String()
		err := o.write(ctx, info, r)
		if err != nil {
			o.drop(ctx, info)
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("object %s of %s: %w", name, BucketModels, explainFull(err))
	}
	if err := o.name(ctx, info, revision); err != nil {
		o.drop(ctx, info)
		return fmt.Errorf("object %s of %s: %w", name, BucketModels, explainFull(err))
	}
	if old != nil {
		o.drop(ctx, old)
	}
	return nil
}

// name makes an object exist whose chunks are stored, if the name is still what
// it was at the given sequence.
func (o *objects) name(ctx context.Context, info *jetstream.ObjectInfo, revision uint64) error {
	data, err := json.Marshal(info)
	if err != nil {
		return err
	}
	msg := &nats.Msg{Subject: objectSubject + encodeName(info.Name), Data: data, Header: nats.Header{}}
	sign(msg.Subject, msg.Header)
	msg.Header.Set(jetstream.MsgRollup, jetstream.MsgRollupSubject)
	msg.Header.Set(jetstream.MsgIDHeader, info.NUID)
	err = retry(ctx, func(ctx context.Context) error {
		_, err := o.js.PublishMsg(ctx, msg, jetstream.WithExpectLastSequencePerSubject(revision))
		return err
	})
	if !wrongSequence(err) {
		return err
	}
	now, _, err := o.info(ctx, info.Name)
	switch {
	case err != nil:
		return err
	case now != nil && now.NUID == info.NUID: // ours: the acknowledgement was lost
		return nil
	}
	return retrain.ErrChanged
}

// drop removes chunks that nobody needs. What it misses, sweep finds.
func (o *objects) drop(ctx context.Context, info *jetstream.ObjectInfo) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanTimeout)
	defer cancel()
	if err := o.stream.Purge(ctx, jetstream.WithPurgeSubject(chunkSubject+info.NUID)); err != nil {
		o.log.Warn().Err(err).Str("object", info.Name).Msg("chunks of a stored file are left behind for now")
	}
}

// get writes an object to what open returns, which is called again when the
// object is replaced meanwhile. One that is not as it was written is
// retrain.ErrDamaged, one that is not there errNoObject.
func (o *objects) get(ctx context.Context, name string, open func() (io.Writer, error)) error {
	for {
		info, _, err := o.info(ctx, name)
		if err != nil {
			return err
		}
		if info == nil {
			return fmt.Errorf("%w: %s of %s", errNoObject, name, BucketModels)
		}
		w, err := open()
		if err != nil {
			return err
		}
		err = o.read(ctx, info, w)
		if !errors.Is(err, retrain.ErrDamaged) {
			return err
		}
		now, _, again := o.info(ctx, name)
		if again != nil {
			return again
		}
		if now != nil && now.NUID == info.NUID {
			return err
		}
	}
}

// remove makes an object not exist, if it does.
func (o *objects) remove(ctx context.Context, name string) error {
	info, _, err := o.info(ctx, name)
	if err != nil || info == nil {
		return err
	}
	purge := func(subject string) error {
		return retry(ctx, func(ctx context.Context) error {
			return o.stream.Purge(ctx, jetstream.WithPurgeSubject(subject))
		})
	}
	// Never a name without chunks.
	subject := objectSubject + encodeName(name)
	if err := purge(subject); err != nil {
		return fmt.Errorf("object %s of %s: %w", name, BucketModels, err)
	}
	o.values.forget(subject)
	if err := purge(chunkSubject + info.NUID); err != nil {
		return fmt.Errorf("object %s of %s: %w", name, BucketModels, err)
	}
	return nil
}

// names returns the names of all objects that begin with prefix, sorted.
func (o *objects) names(ctx context.Context, prefix string) (names []string, err error) {
	all, err := subjects(ctx, o.stream, objectSubject+">")
	if err != nil {
		return nil, fmt.Errorf("listing %s: %w", BucketModels, err)
	}
	for subject := range all {
		name, err := base64.URLEncoding.DecodeString(strings.TrimPrefix(subject, objectSubject))
		if err == nil && strings.HasPrefix(string(name), prefix) {
			names = append(names, string(name))
		}
	}
	slices.Sort(names)
	return names, nil
}

// explainFull adds what to do when the object store is full.
func explainFull(err error) error {
	var api *jetstream.APIError
	if errors.As(err, &api) && strings.Contains(api.Description, "maximum bytes") {
		return fmt.Errorf("%w; keep fewer versions, or enlarge the bucket", err)
	}
	return err
}
