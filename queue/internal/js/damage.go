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
// maxDamaged. They stay in their streams, until a later record of the subject replaces
// them. A nil *Damage reports nothing.
type Damage struct {
	count *prometheus.CounterVec // by stream
	log   zerolog.Logger

	mu     sync.Mutex
	seen   map[DamagedRecord]bool
	warned bool // that seen is full
	hook   func(DamagedRecord)
}

// NewDamage returns a Damage that counts by stream.
func NewDamage(count *prometheus.CounterVec, log zerolog.Logger) *Damage {
	return &Damage{count: count, log: log, seen: map[DamagedRecord]bool{}}
}

// Report reports a damaged record, unless it was reported before.
func (d *Damage) Report(r DamagedRecord) {
	if d == nil {
		return
	}
	d.mu.Lock()
	known, full, hook := d.seen[r], len(d.seen) >= maxDamaged, d.hook
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
		Msg("a stored record is damaged: it is ignored, and kept until a later one replaces it; check the disk, and restore it from a backup or an export")
	if hook != nil {
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
	d.hook = hook
	known := slices.Collect(maps.Keys(d.seen))
	d.mu.Unlock()
	for _, r := range known {
		hook(r)
	}
}
