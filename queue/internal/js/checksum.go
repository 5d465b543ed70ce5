package js

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"slices"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// HeaderChecksum has the checksums of a record, as hexadecimal: of its payload, and,
// after a period, of its subject, its headers and the first one. A reader of headers
// verifies the second.
//
// The checksum of nats-server does not cover the length of the headers, and is not
// read again once a record is in the server's cache. This one is verified at each read.
const HeaderChecksum = "Assay-Checksum"

// ErrDamaged reports a record that is not as assay wrote it.
var ErrDamaged = errors.New("damaged: its checksum differs")

const (
	sumBytes       = 8 // of SHA-256
	checksumLength = 4*sumBytes + 1
)

// Seal marks a record that will be stored under a subject (see HeaderRecord) and
// adds its checksums. Headers that are set later and that coverage includes make it
// damaged.
func Seal(subject string, header nats.Header, data []byte) {
	header.Set(HeaderRecord, subject)
	payload := sumOf(data)
	header.Set(HeaderChecksum, payload+"."+sumOf(coverage(subject, header, payload)))
}

// Verify returns whether a record has checksums, which those of earlier releases do
// not, and ErrDamaged if they differ.
func Verify(subject string, header nats.Header, data []byte) (sealed bool, err error) {
	payload, sealed, err := verifyHeader(subject, header)
	if err == nil && sealed && payload != sumOf(data) || err == nil && header == nil && hasHeaders(data) {
		err = ErrDamaged
	}
	return sealed, err
}

// VerifyHeader is Verify for a record that was read without its payload.
func VerifyHeader(subject string, header nats.Header) (sealed bool, err error) {
	_, sealed, err = verifyHeader(subject, header)
	return sealed, err
}

func verifyHeader(subject string, header nats.Header) (payload string, sealed bool, err error) {
	value := header.Get(HeaderChecksum)
	if value == "" {
		for _, values := range header { // the name of the header may be damaged
			if slices.ContainsFunc(values, isChecksum) {
				return "", true, ErrDamaged
			}
		}
		return "", false, nil
	}
	payload, sum, _ := strings.Cut(value, ".")
	if sum != sumOf(coverage(subject, header, payload)) {
		return "", true, ErrDamaged
	}
	return payload, true, nil
}

// SubjectOf returns the subject of a damaged record, and false unless it is certain: it is
// stored twice, and covered by the checksum of the headers. subject is the stored one, and
// body contains the headers.
func SubjectOf(subject string, body []byte) (string, bool) {
	if subject != "" && bytes.Contains(body, []byte("\r\n"+HeaderRecord+": "+subject+"\r\n")) {
		return subject, true
	}
	start := max(bytes.Index(body, []byte("NATS/1.0\r\n")), 0)
	header, err := nats.DecodeHeadersMsg(body[start:])
	if err != nil {
		return "", false
	}
	for _, certain := range []string{subject, header.Get(HeaderRecord)} {
		header.Set(HeaderRecord, certain)
		if sealed, err := VerifyHeader(certain, header); sealed && err == nil {
			return certain, true
		}
	}
	return "", false
}

// hasHeaders reports whether a payload contains the end of a header block: the length
// of the headers is damaged.
func hasHeaders(data []byte) bool {
	return bytes.HasPrefix(data, []byte("NATS/1.0")) || bytes.Contains(data, []byte("\r\n\r\n"))
}

func isChecksum(value string) bool {
	return len(value) == checksumLength && value[2*sumBytes] == '.' && strings.Trim(value, "0123456789abcdef.") == ""
}

// coverage returns what the second checksum covers: the headers that assay reads,
// and not those that servers add.
func coverage(subject string, header nats.Header, payload string) (covered []byte) {
	add := func(text string) {
		covered = binary.AppendUvarint(covered, uint64(len(text)))
		covered = append(covered, text...)
	}
	add(subject)
	add(payload)
	names := make([]string, 0, len(header))
	for name := range header {
		if strings.HasPrefix(name, "Assay-") && name != HeaderChecksum || name == jetstream.MsgIDHeader ||
			name == headerKVOperation || name == jetstream.MsgRollup {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		add(name)
		for _, value := range header[name] {
			add(value)
		}
	}
	return covered
}

func sumOf(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:sumBytes])
}
