package queue

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"assay/queue/labels"
	"assay/queue/registry"
)

// outcome is how the handling of one delivery ended.
type outcome string

const (
	outcomeRewarded     outcome = "rewarded"      // acknowledged: its reward is stored
	outcomeDuplicate    outcome = "duplicate"     // acknowledged: it has its reward or dead letter already
	outcomeDeadLettered outcome = "dead_lettered" // terminated: its dead letter is stored
	outcomeOverloaded   outcome = "overloaded"    // negatively acknowledged: the scorer is overloaded
	outcomeShuttingDown outcome = "shutting_down" // negatively acknowledged: this process is stopping
	outcomeRetry        outcome = "retry"         // negatively acknowledged: the model failed
	outcomeStoreFailed  outcome = "store_failed"  // negatively acknowledged: JetStream failed
	outcomeDeferred     outcome = "deferred"      // negatively acknowledged: another process scores it in isolation
)

// completed reports whether the response is done.
func (o outcome) completed() bool {
	return o == outcomeRewarded || o == outcomeDuplicate || o == outcomeDeadLettered
}

// The kinds of messages whose handling may panic, in metrics and logs.
const (
	kindResponse = "response"
	kindRequest  = "request"
	kindLabel    = "label"
)

// damageable are the streams of which those records are reported that the server says it has lost. Not StreamResponses:
// after the death of a server, that includes responses which were completed. The ledger finds those that were not.
func damageable() []string {
	return []string{labels.StreamFeedback, labels.StreamScored, registry.StreamState, registry.StreamModels, registry.StreamEvents,
		StreamRewards, StreamDead}
}

type metrics struct {
	messages     *prometheus.CounterVec
	dead         *prometheus.CounterVec
	requests     *prometheus.CounterVec
	inFlight     prometheus.Gauge
	redeliveries prometheus.Counter
	publishErrs  prometheus.Counter
	pending      prometheus.Gauge
	ackPending   prometheus.Gauge
	feedback     *prometheus.CounterVec
	batches      *prometheus.CounterVec
	live         *prometheus.CounterVec
	panics       *prometheus.CounterVec
	damaged      *prometheus.CounterVec

	// Of the stream of responses.
	responses     prometheus.Gauge
	responseBytes prometheus.Gauge
	responseLimit prometheus.Gauge
	oldest        prometheus.Gauge
}

func newMetrics(reg prometheus.Registerer) *metrics {
	f := promauto.With(reg)
	m := &metrics{
		messages: f.NewCounterVec(prometheus.CounterOpts{Name: "assay_nats_messages_total",
			Help: "Deliveries of streamed responses, by outcome."}, []string{"outcome"}),
		dead: f.NewCounterVec(prometheus.CounterOpts{Name: "assay_nats_dead_letters_total",
			Help: "Responses that became dead letters, by reason."}, []string{"reason"}),
		requests: f.NewCounterVec(prometheus.CounterOpts{Name: "assay_nats_requests_total",
			Help: "Score requests over NATS, by HTTP status code."}, []string{"code"}),
		inFlight: f.NewGauge(prometheus.GaugeOpts{Name: "assay_nats_in_flight",
			Help: "Streamed responses that this process is working on."}),
		redeliveries: f.NewCounter(prometheus.CounterOpts{Name: "assay_nats_redeliveries_total",
			Help: "Deliveries of streamed responses that had been delivered before."}),
		publishErrs: f.NewCounter(prometheus.CounterOpts{Name: "assay_nats_publish_errors_total",
			Help: "Failed attempts to store a reward or a dead letter."}),
		pending: f.NewGauge(prometheus.GaugeOpts{Name: "assay_nats_consumer_pending",
			Help: "Streamed responses that wait for delivery to any replica."}),
		ackPending: f.NewGauge(prometheus.GaugeOpts{Name: "assay_nats_consumer_ack_pending",
			Help: "Streamed responses that are delivered to a replica and not yet acknowledged."}),
		feedback: f.NewCounterVec(prometheus.CounterOpts{Name: "assay_feedback_items_total",
			Help: "Feedback items that this process received, by outcome (accepted, duplicate, rejected, or failed: not stored) and label of the whole response, which is empty for items with labels of aspects only, and for those that cannot be read."}, []string{"outcome", "label"}),
		batches: f.NewCounterVec(prometheus.CounterOpts{Name: "assay_nats_feedback_requests_total",
			Help: "Feedback requests over NATS, by HTTP status code."}, []string{"code"}),
		live: f.NewCounterVec(prometheus.CounterOpts{Name: "assay_nats_live_requests_total",
			Help: "Messages of live sessions over NATS, by HTTP status code."}, []string{"code"}),
		panics: f.NewCounterVec(prometheus.CounterOpts{Name: "assay_nats_panics_total",
			Help: "Panics while a message was handled, by kind of message: response, request or label. Each one is a bug."}, []string{"kind"}),
		damaged: f.NewCounterVec(prometheus.CounterOpts{Name: "assay_nats_damaged_records_total",
			Help: "Stored records that this process found damaged, by stream: they are ignored, and kept until a later record replaces them."}, []string{"stream"}),
		responses: f.NewGauge(prometheus.GaugeOpts{Name: "assay_nats_responses_messages",
			Help: "Messages in the stream ASSAY_RESPONSES: responses that wait for delivery or acknowledgement."}),
		responseBytes: f.NewGauge(prometheus.GaugeOpts{Name: "assay_nats_responses_bytes",
			Help: "Size of the stream ASSAY_RESPONSES."}),
		responseLimit: f.NewGauge(prometheus.GaugeOpts{Name: "assay_nats_responses_max_bytes",
			Help: "Maximum size of the stream ASSAY_RESPONSES, at which publishing fails; 0: no limit."}),
		oldest: f.NewGauge(prometheus.GaugeOpts{Name: "assay_nats_responses_oldest_seconds",
			Help: "Age of the oldest message in the stream ASSAY_RESPONSES."}),
	}
	// An increase of a series that does not exist yet shows in no query.
	for _, reason := range []Reason{ReasonInvalid, ReasonTooLarge, ReasonModel, ReasonExpired, ReasonCrash} {
		m.dead.WithLabelValues(string(reason))
	}
	for _, o := range []outcome{outcomeRewarded, outcomeDuplicate, outcomeDeadLettered, outcomeOverloaded, outcomeShuttingDown,
		outcomeRetry, outcomeStoreFailed, outcomeDeferred} {
		m.messages.WithLabelValues(string(o))
	}
	for _, kind := range []string{kindResponse, kindRequest, kindLabel} {
		m.panics.WithLabelValues(kind)
	}
	for _, stream := range append(damageable(), StreamResponses) {
		m.damaged.WithLabelValues(stream)
	}
	return m
}
