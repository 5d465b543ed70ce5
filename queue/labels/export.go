package labels

import (
	"context"
	"fmt"
	"io"
	"strings"

	"assay/queue/internal/js"
	"assay/rewardmodel/feedback"

	"github.com/nats-io/nats.go"
)

// Export writes all that the log has to w, as JSON Lines with a checksum each and a
// trailer: the labels, those that were withdrawn, without their text, and which ids
// were erased. It omits damaged records, which it reports in the returned
// Verification. Its error wraps feedback.ErrUnavailable, or is that of ctx or w.
func (l *Log) Export(ctx context.Context, w io.Writer) (feedback.Verification, error) {
	if err := l.CaughtUp(ctx); err != nil { // so that all erasures are known
		return feedback.Verification{}, err
	}
	file, err := newFileWriter(w)
	if err != nil {
		return feedback.Verification{}, fmt.Errorf("writing an export: %w", err)
	}
	v, err := l.verify(ctx, func(msg js.Message) error {
		id, _, _ := strings.Cut(strings.TrimPrefix(msg.Subject, subjectRecords+"."), ".")
		if hash, err := feedback.ParseHash(id); err == nil && l.Index().Erased(hash) {
			return nil
		}
		header := nats.Header{}
		for name := range msg.Header {
			if strings.HasPrefix(name, "Assay-") && name != js.HeaderChecksum {
				header.Set(name, msg.Header.Get(name))
			}
		}
		js.Seal(msg.Subject, header, msg.Data) // without the Nats-Msg-Id
		entry := fileEntry{Subject: msg.Subject, Headers: map[string]string{}, Record: string(msg.Data)}
		for name := range header {
			entry.Headers[name] = header.Get(name)
		}
		return file.add(entry)
	})
	if err == nil {
		err = file.finish()
	}
	if err != nil {
		return v, fmt.Errorf("writing an export: %w", err)
	}
	return v, nil
}
