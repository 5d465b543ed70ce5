package queue

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// outcome is how the handling of one delivery ended.
type outcome string

const (
	outcomeRewarded   outcome = "rewarded"   // its reward is stored, it is acknowledged
	outcomeDuplicate  outcome = "duplicate"  // it had its reward already, it is acknowledged
	outcomeDead       outcome = "dead"       // its dead letter is stored, it is terminated
	outcomeOverloaded outcome = "overloaded" // handed back: the scorer is full
	outcomeClosed     outcome = "closed"     // handed back: this process is stopping
	outcomeRetry      outcome = "retry"      // handed back: the model failed
	outcomeUnstored   outcome = "unstored"   // handed back: its reward or dead letter could not be stored
	outcomeHeld       outcome = "held"       // negatively acknowledged: another process scores it alone
)

// settled reports whether the response is done.
func (o outcome) settled() bool {
	return o == outcomeRewarded || o == outcomeDuplicate || o == outcomeDead
}

// The kinds of messages whose handling may panic, in metrics and logs.
const (
	kindResponse = "response"
	kindRequest  = "request"
	kindLabel    = "label"
)

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
	panics       *prometheus.CounterVec

	// Of the stream of responses.
	responses     prometheus.Gauge
	responseBytes prometheus.Gauge
	responseLimit prometheus.Gauge
	oldest        prometheus.Gauge
}

func newMetrics(reg prometheus.Registerer) *metrics {
	f := promauto.With(reg)
	return &metrics{
		messages: f.NewCounterVec(prometheus.CounterOpts{Name: "assay_nats_messages_total",
			Help: "Deliveries of JetStream responses, by how they ended."}, []string{"outcome"}),
		dead: f.NewCounterVec(prometheus.CounterOpts{Name: "assay_nats_dead_letters_total",
			Help: "Responses that could not be scored, by reason."}, []string{"reason"}),
		requests: f.NewCounterVec(prometheus.CounterOpts{Name: "assay_nats_requests_total",
			Help: "Score requests of the micro service, by code (as over HTTP)."}, []string{"code"}),
		inFlight: f.NewGauge(prometheus.GaugeOpts{Name: "assay_nats_in_flight",
			Help: "JetStream responses that this process holds."}),
		redeliveries: f.NewCounter(prometheus.CounterOpts{Name: "assay_nats_redeliveries_total",
			Help: "Deliveries of responses that had been delivered before."}),
		publishErrs: f.NewCounter(prometheus.CounterOpts{Name: "assay_nats_publish_errors_total",
			Help: "Failed attempts to store a reward or a dead letter."}),
		pending: f.NewGauge(prometheus.GaugeOpts{Name: "assay_nats_consumer_pending",
			Help: "Responses that wait for delivery to any replica."}),
		ackPending: f.NewGauge(prometheus.GaugeOpts{Name: "assay_nats_consumer_ack_pending",
			Help: "Responses that are delivered to some replica and not yet settled."}),
		feedback: f.NewCounterVec(prometheus.CounterOpts{Name: "assay_feedback_items_total",
			Help: "Items of feedback that this process took, by outcome."}, []string{"outcome"}),
		batches: f.NewCounterVec(prometheus.CounterOpts{Name: "assay_nats_feedback_requests_total",
			Help: "Feedback requests of the micro service, by code (as over HTTP)."}, []string{"code"}),
		panics: f.NewCounterVec(prometheus.CounterOpts{Name: "assay_nats_panics_total",
			Help: "Panics while a message was handled, by its kind: response, request or label. Each one is a bug."}, []string{"kind"}),
		responses: f.NewGauge(prometheus.GaugeOpts{Name: "assay_nats_responses_messages",
			Help: "Responses in ASSAY_RESPONSES: those that wait, and those that are delivered and not settled."}),
		responseBytes: f.NewGauge(prometheus.GaugeOpts{Name: "assay_nats_responses_bytes",
			Help: "Size of ASSAY_RESPONSES."}),
		responseLimit: f.NewGauge(prometheus.GaugeOpts{Name: "assay_nats_responses_max_bytes",
			Help: "Size of ASSAY_RESPONSES at which publishers are refused; 0: no limit."}),
		oldest: f.NewGauge(prometheus.GaugeOpts{Name: "assay_nats_responses_oldest_seconds",
			Help: "Age of the oldest response in ASSAY_RESPONSES."}),
	}
}
