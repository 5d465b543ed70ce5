package serve

import (
	"bytes"
	"os"
	"sync"

	"github.com/rs/zerolog"
)

// auditFile appends lines to a file. It opens the file again when the path names
// another one or none, so that it may be rotated. Only this user can read it. Lines
// that cannot be written go to the log.
type auditFile struct {
	path string
	log  zerolog.Logger
	mu   sync.Mutex
	file *os.File
	torn bool // the last line of the file is not complete, as after a full disk or a crash
}

func openAuditFile(path string, log zerolog.Logger) (*auditFile, error) {
	a := &auditFile{path: path, log: log}
	return a, a.open()
}

// open opens the file of the path. After an error, the file before stays open.
func (a *auditFile) open() error {
	file, err := os.OpenFile(a.path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	a.file, a.torn = file, a.endsTorn(file)
	return nil
}

// endsTorn reports whether a file has content that does not end with a line. One that
// cannot be read counts as torn: an empty line spoils no other.
func (a *auditFile) endsTorn(file *os.File) bool {
	info, err := file.Stat()
	if err != nil || !info.Mode().IsRegular() || info.Size() == 0 {
		return false
	}
	reader, err := os.Open(a.path) // the file itself is open for appending only
	if err != nil {
		return true
	}
	defer reader.Close()
	var last [1]byte
	_, err = reader.ReadAt(last[:], info.Size()-1)
	return err != nil || last[0] != '\n'
}

// Write implements io.Writer.
func (a *auditFile) Write(line []byte) (int, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	err := a.rotate()
	if err == nil {
		err = a.append(line)
	}
	if err != nil {
		a.log.Error().Err(err).RawJSON("line", bytes.TrimSuffix(line, []byte("\n"))).Msg("the audit log cannot be written")
	}
	return len(line), nil
}

// append writes a line, after the end of one that was not written completely.
func (a *auditFile) append(line []byte) error {
	if a.torn {
		if _, err := a.file.Write([]byte("\n")); err != nil {
			return err
		}
		a.torn = false
	}
	n, err := a.file.Write(line)
	a.torn = n > 0 && n < len(line)
	return err
}

// rotate opens the file of the path, unless it is open.
func (a *auditFile) rotate() error {
	open, err := a.file.Stat()
	if err != nil {
		return err
	}
	if named, err := os.Stat(a.path); err == nil && os.SameFile(open, named) {
		return nil
	}
	before := a.file
	if err := a.open(); err != nil {
		return err
	}
	return before.Close()
}
