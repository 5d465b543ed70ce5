package paper

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"assay/internal/durable"
)

// ErrDuplicate reports that the store has a record of the same run; the first one counts.
var ErrDuplicate = errors.New("paper: the run is already recorded")

// Store is an append-only file of records, one JSON object per line. Several processes may append to the same file.
// It is safe for concurrent use.
type Store struct {
	path string

	mu       sync.Mutex
	records  []Record
	known    map[string]bool
	problems []Problem
	offset   int64 // of the first byte that was not read yet
	line     int   // lines before it
	torn     bool  // the last problem is about the bytes after offset
	unended  bool  // offset is after a record without a newline
}

// Problem is an ignored line of the file.
type Problem struct {
	Line int // counted from 1
	Err  error
}

// OpenStore reads the file, which need not exist yet. It ignores lines that are not records; Problems lists them.
func OpenStore(path string) (*Store, error) {
	s := &Store{path: path, known: map[string]bool{}}
	if err := s.Refresh(); err != nil {
		return nil, err
	}
	return s, nil
}

// Refresh reads what other processes have appended since.
func (s *Store) Refresh() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	f, err := os.Open(s.path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("paper: results: %w", err)
	}
	defer f.Close()
	_, err = s.read(f)
	return err
}

// read takes the complete lines after offset and returns the bytes after the last of them.
func (s *Store) read(f *os.File) (tail []byte, err error) {
	info, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("paper: results: %w", err)
	}
	added := make([]byte, max(info.Size()-s.offset, 0))
	if _, err := io.ReadFull(io.NewSectionReader(f, s.offset, int64(len(added))), added); err != nil && err != io.EOF {
		return nil, fmt.Errorf("paper: results: %s: %w", s.path, err)
	}
	if s.torn {
		s.torn, s.problems = false, s.problems[:len(s.problems)-1]
	}
	for {
		end := bytes.IndexByte(added, '\n')
		if end < 0 {
			break
		}
		s.offset += int64(end) + 1
		s.line++
		s.take(added[:end], s.line)
		added, s.unended = added[end+1:], false
	}
	if len(added) == 0 {
		return nil, nil
	}
	if _, err := ParseRecord(added); err == nil { // an editor removed the newline
		s.offset += int64(len(added))
		s.take(added, s.line+1)
		s.unended = true
		return nil, nil
	}
	if len(bytes.TrimSpace(added)) > 0 {
		s.torn = true
		s.problems = append(s.problems, Problem{s.line + 1, errors.New("the line is incomplete; the next record that is written truncates it")})
	}
	return added, nil
}

// take adds one line.
func (s *Store) take(line []byte, number int) {
	if len(bytes.TrimSpace(line)) == 0 {
		return
	}
	r, err := ParseRecord(line)
	if err == nil && s.known[r.Key] {
		err = fmt.Errorf("%w: %s", ErrDuplicate, r.Key)
	}
	if err != nil {
		s.problems = append(s.problems, Problem{number, err})
		return
	}
	s.known[r.Key] = true
	s.records = append(s.records, r)
}

// Append writes and syncs a record. It fails with ErrDuplicate when this or another process has recorded the run.
func (s *Store) Append(r Record) error {
	r.Key = r.Spec.Key()
	line, err := r.AppendJSON(nil)
	if err != nil {
		return err
	}
	line = append(line, '\n')
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := os.MkdirAll(filepath.Dir(s.path), 0o755); err != nil {
		return fmt.Errorf("paper: results: %w", err)
	}
	f, err := os.OpenFile(s.path, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o644)
	if err != nil {
		return fmt.Errorf("paper: results: %w", err)
	}
	if err := s.write(f, r.Key, line); err != nil {
		f.Close()
		return err
	}
	if err := f.Close(); err != nil {
		return fmt.Errorf("paper: results: %w", err)
	}
	return nil
}

// write appends a line under an exclusive lock.
func (s *Store) write(f *os.File, key string, line []byte) error {
	lock, err := durable.WaitLock(s.path)
	if err != nil {
		return fmt.Errorf("paper: results: %w", err)
	}
	defer lock.Unlock()
	tail, err := s.read(f)
	if err != nil {
		return err
	}
	if s.known[key] {
		return fmt.Errorf("%w: %s", ErrDuplicate, key)
	}
	if len(tail) > 0 { // the remains of a write that was interrupted
		if err := f.Truncate(s.offset); err != nil {
			return fmt.Errorf("paper: results: %s: truncate the incomplete last line: %w", s.path, err)
		}
	}
	if s.unended {
		line = append([]byte{'\n'}, line...)
	}
	if _, err := f.Write(line); err != nil {
		return fmt.Errorf("paper: results: %w", err)
	}
	if err := f.Sync(); err != nil {
		return fmt.Errorf("paper: results: %w", err)
	}
	_, err = s.read(f)
	return err
}

// Has reports whether the run is recorded in the part of the file that was read.
func (s *Store) Has(spec Spec) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.known[spec.Key()]
}

// Records returns the records in the order of the file, the first of each run.
func (s *Store) Records() []Record {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.records)
}

// Problems lists the ignored lines.
func (s *Store) Problems() []Problem {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.problems)
}

// Path returns the path of the file.
func (s *Store) Path() string { return s.path }
