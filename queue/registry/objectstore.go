package registry

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

	"assay/queue/internal/js"
	"assay/rewardmodel/retrain"
)

const (
	chunkBytes   = 512 << 10 // of one message; less if the server accepts less
	chunkWindow  = 16        // messages in flight
	chunkTimeout = 15 * time.Second
	cleanTimeout = 5 * time.Second
	// orphanAge is when the chunks of an unfinished object are removed: a live
	// writer sends at least one per chunkTimeout.
	orphanAge = 10 * time.Minute
)

// errNoObject reports that the object store does not contain a name.
var errNoObject = errors.New("no such object")

// objectStore is the object store ASSAY_MODELS in the format that all clients of NATS
// share (ADR-20): the chunks of an object are messages of one subject, and a message
// with its name makes the object exist.
//
// The writer of the client library retries a chunk that no leader accepted after the
// chunks that follow it, and then names what it intended to write. Here an object that
// exists is complete: its chunks were acknowledged, in order, before.
type objectStore struct {
	nc     *nats.Conn
	js     jetstream.JetStream
	stream jetstream.Stream
	values *js.LastValues // of the messages with names
	// chunked sends chunks, and waits for an acknowledgement for chunkTimeout. It
	// ends with the connection.
	chunked jetstream.JetStream
	log     zerolog.Logger
}

// info returns the metadata of an object, nil if there is none, and the sequence of
// the message that says so. Its error wraps retrain.ErrDamaged if that message is
// damaged.
func (o *objectStore) info(ctx context.Context, name string) (*jetstream.ObjectInfo, uint64, error) {
	msg, err := o.values.Read(ctx, SubjectNames+encodeName(name))
	switch {
	case errors.Is(err, jetstream.ErrMsgNotFound):
		return nil, 0, nil
	case errors.Is(err, js.ErrDamaged):
		return nil, msg.Sequence, fmt.Errorf("%w: the metadata of object %s of %s: %w", retrain.ErrDamaged, name, BucketModels, err)
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

// olderThan reports whether the last change of an object has the given age.
func (o *objectStore) olderThan(ctx context.Context, name string, age time.Duration) (bool, error) {
	msg, err := o.values.Read(ctx, SubjectNames+encodeName(name))
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return true, nil // removed by another process
	}
	if err != nil {
		return false, err
	}
	info, err := o.stream.Info(ctx)
	if err != nil {
		return false, err
	}
	return info.TimeStamp.Sub(msg.Time) >= age, nil // both are times of the server
}

func encodeName(name string) string { return base64.URLEncoding.EncodeToString([]byte(name)) }

// chunks counts the stored chunks of an object.
func (o *objectStore) chunks(ctx context.Context, info *jetstream.ObjectInfo) (uint64, error) {
	counts, err := js.SubjectCounts(ctx, o.stream, SubjectChunks+info.NUID)
	return counts[SubjectChunks+info.NUID], err
}

// put writes an object. It replaces an object of that name: readers see the old or the
// new one. If two writers use one name at the same time, one of them gets
// retrain.ErrChanged. check, unless it is nil, may prevent the write; a write of
// another client after check makes put fail.
func (o *objectStore) put(ctx context.Context, name string, r io.ReadSeeker, check func(context.Context) error) error {
	old, revision, err := o.info(ctx, name)
	if err != nil && !errors.Is(err, retrain.ErrDamaged) { // it replaces a damaged one
		return err
	}
	if check != nil {
		if err := check(ctx); err != nil {
			return err
		}
	}
	info := &jetstream.ObjectInfo{Bucket: BucketModels, ObjectMeta: jetstream.ObjectMeta{Name: name,
		Opts: &jetstream.ObjectMetaOptions{ChunkSize: uint32(min(chunkBytes, o.nc.MaxPayload()/2))}}}
	err = js.RetryWhile(ctx, js.Retryable, func() error {
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
	if err := o.putName(ctx, info, revision); err != nil {
		return fmt.Errorf("object %s of %s: %w", name, BucketModels, explainFull(err))
	}
	if old != nil {
		o.drop(ctx, old)
	}
	return nil
}

// putName makes an object exist whose chunks are stored, if the last message of its
// name still has the given sequence. If it fails, and the object will certainly not exist, it
// removes the chunks. Otherwise, as after a canceled request, the server may have stored the
// name or store it later, and a name without chunks would be a damaged object: removeOrphans
// removes the chunks if they have no name then.
func (o *objectStore) putName(ctx context.Context, info *jetstream.ObjectInfo, revision uint64) error {
	data, err := json.Marshal(info)
	if err != nil {
		return err
	}
	msg := &nats.Msg{Subject: SubjectNames + encodeName(info.Name), Data: data, Header: nats.Header{}}
	msg.Header.Set(jetstream.MsgRollup, jetstream.MsgRollupSubject)
	msg.Header.Set(jetstream.MsgIDHeader, info.NUID)
	js.Seal(msg.Subject, msg.Header, data)
	err = js.Retry(ctx, func(ctx context.Context) error {
		_, err := o.js.PublishMsg(ctx, msg, jetstream.WithExpectLastSequencePerSubject(revision))
		return err
	})
	if js.WrongSequence(err) {
		now, _, infoErr := o.info(ctx, info.Name)
		switch {
		case infoErr != nil:
			return infoErr
		case now != nil && now.NUID == info.NUID: // it is stored, and the acknowledgement was lost
			return nil
		}
		err = retrain.ErrChanged
	} else if !js.Rejected(err) {
		return err
	}
	o.drop(ctx, info)
	return err
}

// drop removes chunks that are not needed. removeOrphans finds what it misses.
func (o *objectStore) drop(ctx context.Context, info *jetstream.ObjectInfo) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanTimeout)
	defer cancel()
	if err := o.stream.Purge(ctx, jetstream.WithPurgeSubject(SubjectChunks+info.NUID)); err != nil {
		o.log.Warn().Err(err).Str("object", info.Name).Msg("cannot remove unused chunks of a stored file yet")
	}
}

// get writes an object to the writer that open returns; get calls open again if the
// object is replaced in the meantime. Its error wraps retrain.ErrDamaged if the object
// is not as it was written, or errNoObject.
func (o *objectStore) get(ctx context.Context, name string, open func() (io.Writer, error)) error {
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

// remove deletes an object, if it exists.
func (o *objectStore) remove(ctx context.Context, name string) error {
	info, _, err := o.info(ctx, name)
	if err != nil || info == nil {
		return err
	}
	purge := func(subject string) error {
		return js.Retry(ctx, func(ctx context.Context) error {
			return o.stream.Purge(ctx, jetstream.WithPurgeSubject(subject))
		})
	}
	// The name first: a name without chunks would be a damaged object.
	subject := SubjectNames + encodeName(name)
	if err := purge(subject); err != nil {
		return fmt.Errorf("object %s of %s: %w", name, BucketModels, err)
	}
	o.values.Forget(subject)
	if err := purge(SubjectChunks + info.NUID); err != nil {
		return fmt.Errorf("object %s of %s: %w", name, BucketModels, err)
	}
	return nil
}

// names returns the names of all objects that begin with prefix, sorted.
func (o *objectStore) names(ctx context.Context, prefix string) (names []string, err error) {
	all, err := js.SubjectCounts(ctx, o.stream, SubjectNames+">")
	if err != nil {
		return nil, fmt.Errorf("listing %s: %w", BucketModels, err)
	}
	for subject := range all {
		name, err := base64.URLEncoding.DecodeString(strings.TrimPrefix(subject, SubjectNames))
		if err == nil && strings.HasPrefix(string(name), prefix) {
			names = append(names, string(name))
		}
	}
	slices.Sort(names)
	return names, nil
}

// explainFull adds the fix to the error of a full object store.
func explainFull(err error) error {
	if js.Full(err) {
		return fmt.Errorf("%w; keep fewer versions, or enlarge the bucket", err)
	}
	return err
}
