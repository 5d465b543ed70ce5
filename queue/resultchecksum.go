package queue

import (
	"github.com/nats-io/nats.go"

	"assay/queue/internal/js"
)

// ErrDamaged reports a message that is not as assay wrote it.
var ErrDamaged = js.ErrDamaged

// VerifyChecksum returns ErrDamaged if a reward, dead letter or event differs from its
// checksum, the header Assay-Checksum. subject is that of the stream. A message of an earlier
// release has none, which is no error.
func VerifyChecksum(subject string, header nats.Header, data []byte) error {
	_, err := js.Verify(subject, header, data)
	return err
}
