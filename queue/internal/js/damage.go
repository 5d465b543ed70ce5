package js

import (
	"maps"
	"slices"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
)

// maxDamaged limits the damaged records that a process remembers and reports.
const maxDamaged = 10_000

// DamagedRecord is a record that is not as assay wrote it.
type DamagedRecord struct {
	Stream   string
	Subject  string
	Sequence uint64
}

// Damage counts and logs the damaged records that a process reads, each once, up to
// maxDamaged. They stay in their streams, until they are erased or a later record of the
// subject replaces them. A nil *Damage reports nothing.
type Damage struct {
	count *prometheus.CounterVec // by stream
	log   zerolog.Logger

	mu     sync.Mutex
	seen   map[DamagedRecord]bool
	warned bool // that seen is full
	hooks  []func(DamagedRecord)
	erased []DamagedRecord
}

// NewDamage returns a Damage that counts by stream.
func NewDamage(count *prometheus.CounterVec, log zerolog.Logger) *Damage {
	return &Damage{count: count, log: log, seen: map[DamagedRecord]bool{}}
}

// Report reports a damaged record, unless it was reported before.
func (d *Damage) Report(r DamagedRecord) {
	d.report(r, "a stored record is damaged: it is ignored, and kept until a later one replaces it; check the disk, and restore it from a backup or an export")
}

// ReportErased reports a damaged record that was erased, so that another one can be stored
// on its subject.
func (d *Damage) ReportErased(r DamagedRecord) {
	if d == nil {
		return
	}
	d.mu.Lock()
	d.erased = append(d.erased, r)
	d.mu.Unlock()
	d.report(r, "a stored record was damaged, and is erased: a new one can be stored in its place; check the disk, and restore it from a backup or an export")
}

// ReportMissing reports the sequences of streamed responses that are missing and have no result,
// of the first maxLost each.
func (d *Damage) ReportMissing(stream string, sequences []uint64) {
	for _, sequence := range sequences[:min(len(sequences), maxLost)] {
		d.report(DamagedRecord{Stream: stream, Sequence: sequence},
			"a streamed response is missing, and has no result: a file of its stream was damaged; check the disk, and publish the response again")
	}
	if more := len(sequences) - maxLost; more > 0 && d != nil {
		d.log.Error().Str("stream", stream).Int("responses", more).Uint64("first", sequences[maxLost]).Uint64("last", sequences[len(sequences)-1]).
			Msg("more streamed responses are missing, and have no result")
	}
}

// Erased returns the records of a stream that were erased since the process started.
func (d *Damage) Erased(stream string) (erased []DamagedRecord) {
	if d == nil {
		return nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, r := range d.erased {
		if r.Stream == stream {
			erased = append(erased, r)
		}
	}
	return erased
}

func (d *Damage) report(r DamagedRecord, message string) {
	if d == nil {
		return
	}
	d.mu.Lock()
	known, full, hooks := d.seen[r], len(d.seen) >= maxDamaged, slices.Clone(d.hooks)
	warn := full && !known && !d.warned
	d.warned = d.warned || warn
	if !full {
		d.seen[r] = true
	}
	d.mu.Unlock()
	if warn {
		d.log.Warn().Int("records", maxDamaged).Msg("further damaged records are not reported")
	}
	if known || full { // what is not remembered would be reported at each read
		return
	}
	d.count.WithLabelValues(r.Stream).Inc()
	d.log.Error().Str("stream", r.Stream).Str("subject", r.Subject).Uint64("sequence", r.Sequence).
		Msg(message)
	for _, hook := range hooks {
		hook(r)
	}
}

// Known reports whether a record was reported.
func (d *Damage) Known(r DamagedRecord) bool {
	if d == nil {
		return false
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.seen[r]
}

// OnReport calls hook with each record that was reported, and from now on with each
// that is reported for the first time. hook must not block.
func (d *Damage) OnReport(hook func(DamagedRecord)) {
	d.mu.Lock()
	d.hooks = append(d.hooks, hook)
	known := slices.Collect(maps.Keys(d.seen))
	d.mu.Unlock()
	for _, r := range known {
		hook(r)
	}
}
