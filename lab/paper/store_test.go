package paper

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

// writerEnv makes the test binary a process that appends records to the file it names.
const writerEnv = "ASSAY_TEST_APPEND"

func TestMain(m *testing.M) {
	if path := os.Getenv(writerEnv); path != "" {
		os.Exit(appendAll(path))
	}
	goleak.VerifyTestMain(m)
}

// appendAll adds all synthetic records and returns an exit code.
func appendAll(path string) int {
	store, err := OpenStore(path)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	for _, r := range syntheticRecords() {
		if err := store.Append(r); err != nil && !errors.Is(err, ErrDuplicate) {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	return 0
}

func openStore(t *testing.T, path string) *Store {
	t.Helper()
	s, err := OpenStore(path)
	require.NoError(t, err)
	return s
}

func TestStoreKeepsRecords(t *testing.T) {
	path := filepath.Join(t.TempDir(), "deep", "results.jsonl")
	s := openStore(t, path)
	want := syntheticRecords()
	for _, r := range want {
		require.False(t, s.Has(r.Spec))
		require.NoError(t, s.Append(r))
		require.True(t, s.Has(r.Spec))
	}
	require.Equal(t, want, s.Records())
	again := openStore(t, path)
	require.Equal(t, want, again.Records())
	require.Empty(t, again.Problems())
}

func TestStoreKeepsTheFirstRecordOfARun(t *testing.T) {
	path := filepath.Join(t.TempDir(), "results.jsonl")
	s := openStore(t, path)
	first := syntheticRecords()[0]
	require.NoError(t, s.Append(first))
	second := first
	second.Threshold = 0.1
	require.ErrorIs(t, s.Append(second), ErrDuplicate)

	line, err := second.AppendJSON(nil)
	require.NoError(t, err)
	appendBytes(t, path, append(line, '\n')) // as a program that ignores existing records would
	again := openStore(t, path)
	require.Equal(t, []Record{first}, again.Records())
	require.Len(t, again.Problems(), 1)
	require.ErrorIs(t, again.Problems()[0].Err, ErrDuplicate)
	require.Equal(t, 2, again.Problems()[0].Line)
}

func appendBytes(t *testing.T, path string, data []byte) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0o644)
	require.NoError(t, err)
	_, err = f.Write(data)
	require.NoError(t, err)
	require.NoError(t, f.Close())
}

// A process may die at any byte of a write.
func TestStoreSurvivesATornLine(t *testing.T) {
	records := syntheticRecords()[:3]
	line, err := records[1].AppendJSON(nil)
	require.NoError(t, err)
	for _, cut := range []int{1, len(line) / 2, len(line) - 1} {
		path := filepath.Join(t.TempDir(), "results.jsonl")
		require.NoError(t, openStore(t, path).Append(records[0]))
		appendBytes(t, path, line[:cut])

		s := openStore(t, path)
		require.Equal(t, records[:1], s.Records())
		require.Len(t, s.Problems(), 1)
		require.Equal(t, 2, s.Problems()[0].Line)
		require.NoError(t, s.Refresh())
		require.Len(t, s.Problems(), 1, "the same problem is reported once")

		require.NoError(t, s.Append(records[1]))
		require.NoError(t, s.Append(records[2]))
		require.Empty(t, s.Problems())
		again := openStore(t, path)
		require.Equal(t, records, again.Records())
		require.Empty(t, again.Problems())
	}
}

// A last record without a newline is complete: editors leave files like that.
func TestStoreKeepsARecordWithoutLineEnd(t *testing.T) {
	path := filepath.Join(t.TempDir(), "results.jsonl")
	records := syntheticRecords()[:2]
	line, err := records[0].AppendJSON(nil)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path, line, 0o644))
	s := openStore(t, path)
	require.Equal(t, records[:1], s.Records())
	require.NoError(t, s.Append(records[1]))
	require.Equal(t, records, openStore(t, path).Records())
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, 2, bytes.Count(data, []byte{'\n'}))
}

func TestStoreReportsBadLines(t *testing.T) {
	path := filepath.Join(t.TempDir(), "results.jsonl")
	good, err := syntheticRecords()[0].AppendJSON(nil)
	require.NoError(t, err)
	text := "{}\n\nnot JSON\n" + string(good) + "\n"
	require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
	s := openStore(t, path)
	require.Len(t, s.Records(), 1)
	require.Len(t, s.Problems(), 2)
	require.Equal(t, []int{1, 3}, []int{s.Problems()[0].Line, s.Problems()[1].Line})
	require.ErrorIs(t, s.Problems()[0].Err, ErrRecord)
}

func TestStoreRejectsInvalidRecords(t *testing.T) {
	s := openStore(t, filepath.Join(t.TempDir(), "results.jsonl"))
	r := syntheticRecords()[0]
	r.Metrics = map[string]float64{avgAcc: 1.5}
	require.ErrorIs(t, s.Append(r), ErrRecord)
	r.Metrics = nil
	require.ErrorIs(t, s.Append(r), ErrRecord)
	require.Empty(t, s.Records())
}

// Two stores of one process, and two processes, each write all records: the file contains every record once.
func TestStoresShareAFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "results.jsonl")
	var writers sync.WaitGroup
	for range 2 {
		writers.Go(func() {
			cmd := exec.CommandContext(t.Context(), os.Args[0])
			cmd.Env = append(os.Environ(), writerEnv+"="+path)
			out, err := cmd.CombinedOutput()
			if err != nil {
				t.Errorf("%v: %s", err, out)
			}
		})
		writers.Go(func() {
			if appendAll(path) != 0 {
				t.Error("a record was not written")
			}
		})
	}
	writers.Wait()
	s := openStore(t, path)
	require.Empty(t, s.Problems())
	require.ElementsMatch(t, syntheticRecords(), s.Records())
}

func FuzzParseRecord(f *testing.F) {
	for _, r := range syntheticRecords()[:2] {
		r.Loss, r.Train, r.Test = r.Loss[:1], Histograms{}, Histograms{} // short, for the fuzzer's sake
		line, err := r.AppendJSON(nil)
		require.NoError(f, err)
		f.Add(line)
		f.Add(line[:len(line)/2])
	}
	f.Add([]byte("{}"))
	f.Fuzz(func(t *testing.T, line []byte) {
		r, err := ParseRecord(line)
		if err != nil {
			if !errors.Is(err, ErrRecord) {
				t.Fatalf("%v does not wrap ErrRecord", err)
			}
			return
		}
		written, err := r.AppendJSON(nil)
		if err != nil {
			t.Fatalf("a record that was read cannot be written: %v", err)
		}
		again, err := ParseRecord(written)
		if err != nil {
			t.Fatal(err)
		}
		twice, err := again.AppendJSON(nil)
		if err != nil || !bytes.Equal(written, twice) {
			t.Fatalf("%s\nbecame\n%s (%v)", written, twice, err)
		}
		if bytes.IndexByte(written, '\n') >= 0 {
			t.Fatal("a record takes more than one line")
		}
	})
}
