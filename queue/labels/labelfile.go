package labels

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// ErrDamagedFile reports an export that is not as it was written. Its message names
// the line.
var ErrDamagedFile = errors.New("damaged export")

// fileFormat is the first line of an export. Later releases may add fields.
const fileFormat = "assay-feedback-1"

// fileSum is the size of the checksum of a line, in bytes of SHA-256.
const fileSum = 8

// fileLine is a line of an export: JSON with a checksum of the bytes of Entry.
type fileLine struct {
	Sum   string         `json:"sum"`
	Entry jsontext.Value `json:"entry"`
}

// fileEntry is the content of a line. The first has Format, the last Trailer, and each
// other one a stored message.
type fileEntry struct {
	Format  string `json:"format,omitzero"`
	Subject string `json:"subject,omitzero"`
	// Headers are those that begin with Assay-, with the checksums of the record.
	Headers map[string]string `json:"headers,omitzero"`
	Record  string            `json:"record,omitzero"` // JSON, verbatim; none: erased or withdrawn
	Trailer *fileTrailer      `json:"trailer,omitzero"`
}

// fileTrailer ends an export: one without it is cut off.
type fileTrailer struct {
	Entries int    `json:"entries"`
	SHA256  string `json:"sha256"` // of all lines before this one, with their line breaks
}

// fileWriter writes an export.
type fileWriter struct {
	w       *bufio.Writer
	entries int
	hash    hash.Hash // of all lines
}

func newFileWriter(w io.Writer) (*fileWriter, error) {
	f := &fileWriter{w: bufio.NewWriter(w), hash: sha256.New()}
	return f, f.line(fileEntry{Format: fileFormat})
}

// add writes a stored message.
func (f *fileWriter) add(e fileEntry) error {
	f.entries++
	return f.line(e)
}

// finish writes the trailer.
func (f *fileWriter) finish() error {
	trailer := fileTrailer{Entries: f.entries, SHA256: hex.EncodeToString(f.hash.Sum(nil))}
	if err := f.line(fileEntry{Trailer: &trailer}); err != nil {
		return err
	}
	return f.w.Flush()
}

func (f *fileWriter) line(e fileEntry) error {
	entry, err := json.Marshal(e, json.Deterministic(true))
	if err != nil {
		return err
	}
	text := fmt.Appendf(nil, `{"sum":%q,"entry":%s}`+"\n", sumOfLine(entry), entry)
	f.hash.Write(text)
	_, err = f.w.Write(text)
	return err
}

func sumOfLine(entry []byte) string {
	sum := sha256.Sum256(entry)
	return hex.EncodeToString(sum[:fileSum])
}

// readFile calls each with the messages of an export and their lines, from 1. Its
// error wraps ErrDamagedFile and names the line if the export is not as it was
// written, or is that of each or of r.
func readFile(r io.Reader, each func(line int, e fileEntry) error) error {
	in, all, entries := bufio.NewReader(r), sha256.New(), 0
	damaged := func(line int, format string, args ...any) error {
		return fmt.Errorf("%w: line %d: %s", ErrDamagedFile, line, fmt.Sprintf(format, args...))
	}
	for line := 1; ; line++ {
		text, err := in.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return damaged(line, "the file is cut off here")
		}
		if err != nil {
			return err
		}
		var l fileLine
		if err := json.Unmarshal(text, &l); err != nil {
			return damaged(line, "%v", err)
		}
		if l.Sum != sumOfLine(l.Entry) {
			return damaged(line, "its checksum differs")
		}
		var e fileEntry
		if err := json.Unmarshal(l.Entry, &e); err != nil {
			return damaged(line, "%v", err)
		}
		switch {
		case line == 1 && e.Format != fileFormat:
			return damaged(line, "the format is %.40q, not %s", e.Format, fileFormat)
		case line == 1:
		case e.Trailer != nil:
			if e.Trailer.Entries != entries || e.Trailer.SHA256 != hex.EncodeToString(all.Sum(nil)) {
				return damaged(line, "lines are missing, repeated or in another order")
			}
			if _, err := in.ReadByte(); !errors.Is(err, io.EOF) {
				return damaged(line+1, "there is text after the trailer")
			}
			return nil
		default:
			entries++
			if err := each(line, e); err != nil {
				return err
			}
		}
		all.Write(text)
	}
}
