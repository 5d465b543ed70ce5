// Package blocks erases damaged messages in the files of a nats-server that is stopped.
//
// A stream that keeps one message per subject cannot replace a message that the server
// cannot read. When the server builds the state of a stream from its files again, it cuts
// off the file that such a message is in, with all that follows. So a message with a wrong
// checksum becomes what the server itself writes when it erases a message.
//
// Only messages are erased of which everything needed is certain: the records before and
// after it are intact, which proves its place and length and bounds its sequence, and its
// subject is known although a part of it is damaged. What it had replaced on its subject is erased
// with it, since the server would take that for the last message. Encrypted and compressed
// files are not changed.
package blocks

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"assay/internal/durable"
)

// stateFile is what the server knows of all blocks of a stream. It is optional.
const stateFile = "index.db"

// rewritten is the suffix of a block that will replace the one without it. The server ignores
// such files.
const rewritten = ".erased"

// Stream is a stream of a server that keeps one message per subject.
type Stream struct {
	Name string
	Dir  string // of its blocks
	// Subject returns the subject of a damaged message, and false unless it is certain.
	// subject is the stored one, and body the message with subject and headers.
	Subject func(subject string, body []byte) (string, bool)
}

// Message is a damaged message.
type Message struct {
	Sequence uint64
	Subject  string
}

// found is a damaged message with its place.
type found struct {
	Message
	block, record int // numbers from 0
}

// Damaged returns the messages that Erase would erase. The server may be running.
func (s Stream) Damaged() ([]Message, error) {
	all, err := s.find()
	return messages(all), err
}

// Erase erases the damaged messages and returns them. The server must be stopped. If this
// process dies meanwhile, Erase must be called again before the server starts.
func (s Stream) Erase() ([]Message, error) {
	all, err := s.find()
	if err != nil || len(all) == 0 {
		return nil, err
	}
	// First what may fail, on a full disk: without its state, the server would cut off the
	// blocks.
	changed, err := s.rewrite(all)
	if err != nil {
		return nil, err
	}
	// The state counts what is erased. Without it, the server reads the blocks.
	if err := os.Remove(filepath.Join(s.Dir, stateFile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if err := durable.SyncDir(s.Dir); err != nil {
		return nil, err
	}
	// In this order, a message is never gone while what it had replaced is still there.
	for _, name := range changed {
		path := filepath.Join(s.Dir, name)
		if err := os.Rename(path+rewritten, path); err != nil {
			return nil, err
		}
	}
	return messages(all), durable.SyncDir(s.Dir)
}

func messages(all []found) (out []Message) {
	for _, f := range all {
		out = append(out, f.Message)
	}
	return out
}

// find returns the damaged messages that can be erased, in order.
func (s Stream) find() (all []found, err error) {
	names, err := s.files()
	if err != nil {
		return nil, err
	}
	last := uint64(0) // sequence before the block
	for block, name := range names {
		b, err := s.read(name)
		if errors.Is(err, fs.ErrNotExist) { // the running server has removed it
			continue
		}
		if err != nil {
			return nil, err
		}
		all = append(all, s.findIn(b, block, last)...)
		last = max(last, b.last())
	}
	return all, nil
}

// findIn returns those of one block. last is the last sequence of the blocks before it.
func (s Stream) findIn(b *block, block int, last uint64) (all []found) {
	for i, r := range b.records {
		if sequence, ok := b.sequence(i, last); ok {
			if subject, ok := s.Subject(b.subject(r), b.body(r)); ok {
				all = append(all, found{Message{sequence, subject}, block, i})
			}
		}
	}
	return all
}

// rewrite writes the blocks in which something is erased, next to the stored ones, and
// returns their names.
func (s Stream) rewrite(all []found) (changed []string, err error) {
	names, err := s.files()
	if err != nil {
		return nil, err
	}
	for block, name := range names {
		b, err := s.read(name)
		if err != nil {
			return nil, err
		}
		if !b.eraseAll(block, all) {
			continue
		}
		path := filepath.Join(s.Dir, name)
		info, err := os.Stat(path)
		if err != nil {
			return nil, err
		}
		if err := durable.WriteFile(path+rewritten, b.content, info.Mode().Perm()); err != nil {
			return nil, err
		}
		changed = append(changed, name)
	}
	return changed, nil
}

// files returns the names of the blocks, in the order of their numbers; none if the stream
// does not exist.
func (s Stream) files() (names []string, err error) {
	entries, err := os.ReadDir(s.Dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	for _, entry := range entries {
		if number(entry.Name()) > 0 {
			names = append(names, entry.Name())
		}
	}
	slices.SortFunc(names, func(a, b string) int { return number(a) - number(b) })
	return names, err
}

// number returns the number of a block from the name of its file, 0 for other files.
func number(name string) int {
	text, ok := strings.CutSuffix(name, ".blk")
	n, err := strconv.Atoi(text)
	if !ok || err != nil || n < 0 {
		return 0
	}
	return n
}

func (s Stream) read(name string) (*block, error) {
	content, err := os.ReadFile(filepath.Join(s.Dir, name))
	if err != nil {
		return nil, err
	}
	return parse(content, s.Name, number(name))
}
