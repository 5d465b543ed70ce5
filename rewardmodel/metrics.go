package rewardmodel

import (
	"context"
	"errors"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"

	"assay/internal/trace"
)

// metrics are the scorer's, for one model version.
type metrics struct {
	queueTokens    prometheus.Gauge
	batchTokens    prometheus.Observer
	batchSequences prometheus.Observer
	batches        *prometheus.CounterVec // by reason
	wait           prometheus.Observer
	inference      prometheus.Observer
	instances      prometheus.Counter
	cacheHits      prometheus.Counter
	cacheMisses    prometheus.Counter
	coalesced      prometheus.Counter
	cacheBytes     prometheus.Gauge
	responses      prometheus.Counter
	rewards        prometheus.Observer
	violations     map[string]prometheus.Counter // by Result.Aspect
	empty          prometheus.Counter
	truncated      prometheus.Counter
	rejected       *prometheus.CounterVec // by reason
	modelErrors    prometheus.Counter

	forget func() // removes the series of this version
}

// newMetrics registers with reg, which may be nil. Scorers of several versions
// can share a registerer, as they do while one model replaces another.
func newMetrics(reg prometheus.Registerer, version string, aspects []Aspect) (*metrics, error) {
	r := registration{reg: reg, version: version}
	violations := r.counters("assay_violations_total",
		"Responses that are not compliant, without empty ones, by the aspect that decides. The aspect is empty for a model with one.", "aspect")
	m := &metrics{
		queueTokens:    r.gauge("assay_queue_tokens", "Tokens of admitted requests that the model has not computed yet."),
		batchTokens:    r.histogram("assay_batch_tokens", "Tokens in a batch.", prometheus.ExponentialBuckets(16, 2, 12)),
		batchSequences: r.histogram("assay_batch_sequences", "Sequences in a batch.", prometheus.ExponentialBuckets(1, 2, 12)),
		batches:        r.counters("assay_batches_total", "Batches by the reason for closing them: budget or drained.", "reason"),
		wait:           r.histogram("assay_queue_wait_seconds", "Time from admission to the first batch, in seconds.", prometheus.ExponentialBuckets(0.0005, 2, 18)),
		inference:      r.histogram("assay_inference_seconds", "Time of the model to compute a batch, in seconds.", prometheus.ExponentialBuckets(0.0005, 2, 18)),
		instances:      r.counter("assay_instances_total", "Instances in requests, including cached and repeated ones."),
		cacheHits:      r.counter("assay_cache_hits_total", "Instances that were scored without the model."),
		cacheMisses:    r.counter("assay_cache_misses_total", "Instances that the model had to score."),
		coalesced:      r.counter("assay_instances_joined_total", "Sequences that were coalesced with a pending sequence of another request and computed once."),
		cacheBytes:     r.gauge("assay_cache_bytes", "Memory of the instance cache, in bytes."),
		responses:      r.counter("assay_responses_total", "Responses that were scored."),
		rewards: r.histogram("assay_response_reward",
			"Compliance of scored responses, in [0,1], without empty ones, on whatever scale the request asks for its reward.", rewardBuckets()),
		violations:  map[string]prometheus.Counter{},
		empty:       r.counter("assay_responses_empty_total", "Scored responses without text, which get the configured reward."),
		truncated:   r.counter("assay_responses_truncated_total", "Scored responses with more instances than are scored: the rest was skipped."),
		rejected:    r.counters("assay_requests_rejected_total", "Requests without a result by reason: overloaded, closed, canceled or model.", "reason"),
		modelErrors: r.counter("assay_model_errors_total", "Batches on which the model failed."),
	}
	if r.err != nil {
		return nil, fmt.Errorf("metrics of the scorer: %w", r.err)
	}
	for _, name := range decidingAspects(aspects) {
		m.violations[name] = violations.WithLabelValues(name)
	}
	for _, reason := range []string{reasonOverloaded, reasonClosed, reasonCanceled, reasonModel} {
		m.rejected.WithLabelValues(reason) // an increase of a series that does not exist yet shows in no query
	}
	m.forget = func() {
		for _, vec := range r.vecs {
			vec.DeletePartialMatch(prometheus.Labels{VersionLabel: version})
		}
	}
	return m, nil
}

// rewardBuckets divide [0,1] evenly, but for its ends: rewards that are nearly all 0 or
// 1 teach a policy nothing.
func rewardBuckets() []float64 {
	return []float64{.001, .01, .05, .1, .2, .3, .4, .5, .6, .7, .8, .9, .95, .99, .999, 1}
}

// decidingAspects are the values of Result.Aspect.
func decidingAspects(aspects []Aspect) []string {
	if len(aspects) == 1 {
		return []string{""}
	}
	names := make([]string, len(aspects))
	for i, a := range aspects {
		names[i] = a.Name
	}
	return names
}

// observe counts a result, whose reward is compliance on the scale RewardCompliance.
// The trace in ctx becomes the exemplar of the reward.
func (m *metrics) observe(ctx context.Context, r Result, compliance float64) {
	if r.Truncated {
		m.truncated.Inc()
	}
	if r.Empty {
		m.empty.Inc()
		return
	}
	trace.Observe(ctx, m.rewards, compliance)
	if !r.Compliant {
		m.violations[r.Aspect].Inc()
	}
}

// registration keeps the first error, so that the list above reads as a list.
type registration struct {
	reg     prometheus.Registerer
	version string
	vecs    []vec
	err     error
}

// vec is a collector with a label for the version.
type vec interface {
	prometheus.Collector
	DeletePartialMatch(prometheus.Labels) int
}

// VersionLabel is the label of metrics that names the model version.
const VersionLabel = "model_version"

func (r *registration) gauge(name, help string) prometheus.Gauge {
	vec := register(r, prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, []string{VersionLabel}))
	return vec.WithLabelValues(r.version)
}

func (r *registration) counter(name, help string) prometheus.Counter {
	return r.counters(name, help).WithLabelValues()
}

func (r *registration) counters(name, help string, labels ...string) *prometheus.CounterVec {
	labels = append([]string{VersionLabel}, labels...)
	vec := register(r, prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels))
	return vec.MustCurryWith(prometheus.Labels{VersionLabel: r.version})
}

func (r *registration) histogram(name, help string, buckets []float64) prometheus.Observer {
	opts := prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets}
	return register(r, prometheus.NewHistogramVec(opts, []string{VersionLabel})).WithLabelValues(r.version)
}

// register returns the collector of that name that reg has already, if any.
func register[T vec](r *registration, c T) T {
	if r.reg == nil {
		return c
	}
	err := r.reg.Register(c)
	if known, ok := errors.AsType[prometheus.AlreadyRegisteredError](err); ok {
		if existing, ok := known.ExistingCollector.(T); ok {
			c, err = existing, nil
		}
	}
	r.vecs = append(r.vecs, c)
	r.err = errors.Join(r.err, err)
	return c
}
