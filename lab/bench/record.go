package bench

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"

	"github.com/go-json-experiment/json"
)

// Key identifies a measurement. Two records with the same key measured the same.
type Key struct {
	Model      string `json:"model"`
	Server     string `json:"server"`
	Protocol   string `json:"front"` // the name in files that exist
	Case       string `json:"case"`
	Work       string `json:"work"` // Digest
	Threads    int    `json:"threads"`
	Repetition int    `json:"repetition"`
}

// Record is what one server did with one case. CPU seconds are user and system.
type Record struct {
	Key
	Date      time.Time         `json:"date"`
	Processor string            `json:"processor"`
	Cores     int               `json:"cores"` // that the servers may use
	Versions  map[string]string `json:"versions,omitzero"`

	Error      string   `json:"error,omitzero"` // of the last request that failed, or why the server did not start
	Failed     int      `json:"failed_requests"`
	Requests   int      `json:"answered_requests"`
	Responses  int      `json:"responses"` // answered, like all fields below
	Utterances int      `json:"utterances"`
	Tokens     int      `json:"tokens"`
	GFLOP      float64  `json:"gflop"`
	Seconds    float64  `json:"seconds"`
	P50        float64  `json:"p50_ms"`
	P99        float64  `json:"p99_ms"`
	CPU        float64  `json:"cpu_seconds"`                // of the server
	ModelCPU   float64  `json:"model_cpu_seconds,omitzero"` // of it, in the threads that compute the model; 0: unknown
	LoaderCPU  float64  `json:"loader_cpu_seconds"`
	OtherCPU   float64  `json:"other_cpu_seconds"`       // of everything else on the machine
	Peak       int64    `json:"peak_rss_bytes"`          // of the server
	Agreement  *float64 `json:"rank_agreement,omitzero"` // Spearman's correlation with the reference's scores
}

// measured reports whether the record has metrics.
func (r Record) measured() bool { return r.Responses > 0 && r.Seconds > 0 }

// Records are stored in a JSONL file, each written as soon as it is known.
type Records struct {
	path string
	all  []Record
}

// OpenRecords reads the records that the file has, none where there is no file. A last line that was cut off by a crash
// is dropped.
func OpenRecords(path string) (*Records, error) {
	r := &Records{path: path}
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return r, nil
	}
	if err != nil {
		return nil, err
	}
	if whole := bytes.LastIndexByte(text, '\n') + 1; whole < len(text) {
		if err := os.Truncate(path, int64(whole)); err != nil {
			return nil, err
		}
		text = text[:whole]
	}
	in := bufio.NewReader(bytes.NewReader(text))
	for n := 1; ; n++ {
		line, err := in.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return r, nil
		}
		var record Record
		if err := json.Unmarshal(line, &record); err != nil {
			return nil, fmt.Errorf("%s, line %d: %w", path, n, err)
		}
		r.all = append(r.all, record)
	}
}

// All returns the records in the order in which they were added.
func (r *Records) All() []Record { return r.all }

// Has reports whether the measurement succeeded: a failed one is repeated.
func (r *Records) Has(k Key) bool {
	for _, record := range r.all {
		if record.Key == k && record.measured() && record.Failed == 0 {
			return true
		}
	}
	return false
}

// Add appends the record to the file.
func (r *Records) Add(record Record) (err error) {
	line, err := json.Marshal(record)
	if err != nil {
		return err
	}
	file, err := os.OpenFile(r.path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	if _, err := file.Write(append(line, '\n')); err != nil {
		return err
	}
	r.all = append(r.all, record)
	return nil
}
