package blocks

import (
	"encoding/binary"
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

const testStream = "S"

// subjects of test messages are their first byte, which the body has a second time.
func testSubject(subject string, body []byte) (string, bool) {
	if len(body) < 2 {
		return "", false
	}
	return subject, subject != "" && subject == string(body[1])
}

// build returns a block of messages with one letter each, and of tombstones, which are
// their negative sequences.
func build(t testing.TB, first uint64, messages ...any) []byte {
	content := []byte{}
	for _, m := range messages {
		body, length, sequence := "", uint16(0), first
		switch m := m.(type) {
		case string:
			body, length = m+m+"....", 1
			first++
		case int:
			sequence = uint64(-m) | tombstone
		}
		record := binary.LittleEndian.AppendUint32(nil, uint32(minRecord+len(body)))
		record = binary.LittleEndian.AppendUint64(record, sequence)
		record = binary.LittleEndian.AppendUint64(record, 7)
		record = binary.LittleEndian.AppendUint16(record, length)
		record = append(append(record, body...), make([]byte, checksumSize)...)
		b := seal(t, record)
		content = append(content, b...)
	}
	return content
}

func seal(t testing.TB, data []byte) []byte {
	b, err := parse(data, testStream, 1)
	require.NoError(t, err)
	require.Len(t, b.records, 1)
	copy(data[len(data)-checksumSize:], b.checksum(b.records[0]))
	return data
}

// live returns the messages that a server has after it has read the blocks: the last of each
// subject, without those that were deleted.
func live(t testing.TB, content []byte) map[uint64]string {
	b, err := parse(content, testStream, 1)
	require.NoError(t, err)
	last := map[string]uint64{}
	for _, r := range b.records {
		if r.intact && r.isMessage() {
			last[b.subject(r)] = r.sequence
		}
	}
	out := map[uint64]string{}
	for subject, sequence := range last {
		out[sequence] = subject
	}
	for _, r := range b.records {
		if r.intact && r.sequence&tombstone != 0 {
			delete(out, r.sequence&^tombstone)
		}
	}
	return out
}

// erase erases in a copy of a block.
func erase(t testing.TB, content []byte) (after []byte, erased []Message) {
	b, err := parse(slices.Clone(content), testStream, 1)
	require.NoError(t, err)
	all := Stream{Subject: testSubject}.findIn(b, 0, 0)
	require.Equal(t, len(all) > 0, b.eraseAll(0, all))
	return b.content, messages(all)
}

// Whichever bit is flipped: what is erased is the message that has the bit, and nothing that
// it had replaced comes back.
func TestEveryBit(t *testing.T) {
	t.Parallel()
	content := build(t, 5, "a", "b", -5, "c", "b", "d", -7, "e")
	want := map[uint64]string{8: "b", 9: "d", 10: "e"}
	require.Equal(t, want, live(t, content))
	b, err := parse(content, testStream, 1)
	require.NoError(t, err)
	count := 0
	for i, r := range b.records {
		for bit := range 8 * r.length {
			flipped := slices.Clone(content)
			flipped[r.at+bit/8] ^= 1 << (bit % 8)
			after, erased := erase(t, flipped)
			if len(erased) == 0 {
				require.Equal(t, flipped, after)
				continue
			}
			count++
			require.Len(t, erased, 1)
			if i > 0 { // the sequences before the first one are free, so that its own is not certain
				require.Equal(t, r.sequence, erased[0].Sequence, "record %d, bit %d", i, bit)
			}
			left := maps.Clone(want)
			delete(left, r.sequence)
			require.Equal(t, left, live(t, after), "record %d, bit %d", i, bit)
			_, erased = erase(t, after)
			require.Empty(t, erased)
		}
	}
	require.Greater(t, count, 6*8*20) // of a message, all but its length and subject
}

// Two damaged messages next to each other stay: neither proves the length of the other.
func TestDamagedNeighbors(t *testing.T) {
	content := build(t, 1, "a", "b", "c", "d")
	b, err := parse(content, testStream, 1)
	require.NoError(t, err)
	for _, r := range b.records[1:3] {
		content[r.at+r.length-1] ^= 1
	}
	after, erased := erase(t, content)
	require.Empty(t, erased)
	require.Equal(t, content, after)
}

// FuzzErase erases in files with any content. Intact messages stay, but for what the erased
// ones had replaced.
func FuzzErase(f *testing.F) {
	f.Add(build(f, 1, "a", "b", -1, "c", "b"))
	f.Add(build(f, 1<<40, "a"))
	f.Fuzz(func(t *testing.T, content []byte) {
		before, err := parse(slices.Clone(content), testStream, 1)
		require.NoError(t, err)
		after, erased := erase(t, content)
		b, err := parse(after, testStream, 1)
		require.NoError(t, err)
		require.Len(t, b.records, len(before.records))
		require.Len(t, after, len(content))
		replaced := map[string]bool{}
		for _, m := range erased {
			replaced[m.Subject] = true
		}
		for i, r := range b.records {
			was := before.records[i]
			if was.intact && !(was.isMessage() && replaced[before.subject(was)]) {
				require.Equal(t, before.content[was.at:was.at+was.length], after[r.at:r.at+r.length])
			}
		}
	})
}
