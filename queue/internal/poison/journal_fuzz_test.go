package poison

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/rs/xid"
)

// FuzzReadJournal reads arbitrary files: an unreadable one is empty, and one that was cut
// off names no response that the whole one does not name. Only slots with the right
// checksum name any.
func FuzzReadJournal(f *testing.F) {
	path := filepath.Join(f.TempDir(), "seed")
	j, err := NewJournal(path, xid.New(), time.Unix(1_800_000_000, 0), 3)
	if err != nil {
		f.Fatal(err)
	}
	j.Begin(7).Computing(true)
	j.Begin(1 << 40)
	_ = j.Close()
	seed, err := os.ReadFile(path)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(seed, uint16(journalHeader+slotSize))
	f.Add(seed, uint16(journalHeader+2*slotSize))
	f.Add([]byte(journalMagic), uint16(3))
	f.Add([]byte{}, uint16(0))
	f.Fuzz(func(t *testing.T, file []byte, cut uint16) {
		read := func(file []byte) Crash {
			path := filepath.Join(t.TempDir(), "journal")
			if err := os.WriteFile(path, file, 0o600); err != nil {
				t.Fatal(err)
			}
			left, err := ReadJournal(path)
			if err != nil {
				t.Fatal(err)
			}
			return left
		}
		whole := read(file)
		if len(whole.Sequences) > len(file)/slotSize {
			t.Fatalf("%d responses in %d bytes", len(whole.Sequences), len(file))
		}
		if whole.Sequences == nil && (whole.Owner != "" || whole.Created != 0) {
			t.Fatalf("got %+v of a file without slots", whole)
		}
		for sequence := range read(file[:min(int(cut), len(file))]).Sequences {
			if _, ok := whole.Sequences[sequence]; !ok {
				t.Fatalf("the first %d bytes name response %d, the file names %v", cut, sequence, whole.Sequences)
			}
		}
		for sequence := range whole.Sequences {
			if sequence&slotIsolated != 0 {
				t.Fatalf("response %d has the bit of isolated ones", sequence)
			}
		}
	})
}
