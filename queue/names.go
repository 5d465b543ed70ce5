package queue

import "assay/queue/internal/js"

// Subjects, which clients use. Packages labels and registry have more.
const (
	SubjectScore     = "assay.v1.score"     // request-reply
	SubjectLive      = "assay.v1.live"      // request-reply: opens a live session, whose messages go to a subject below this
	SubjectResponses = "assay.v1.responses" // in: one score item per message, below this
	SubjectRewards   = "assay.v1.rewards"   // out: one result per message, with the tail of its response
	SubjectDead      = "assay.v1.dead"      // followed by the reason
	SubjectVerdicts  = "assay.v1.verdicts"  // out, of assay proxy: followed by compliant, violating or unknown; in no stream
)

// Streams, and the consumer that the replicas of assay share.
const (
	StreamResponses = "ASSAY_RESPONSES"
	StreamRewards   = "ASSAY_REWARDS"
	StreamDead      = "ASSAY_DEAD"
	ConsumerScorer  = "assay-scorer"
	ServiceName     = "assay" // of the micro service and its queue group
)

// Headers of responses, rewards, dead letters and score requests.
const (
	HeaderModelVersion = js.HeaderModelVersion // of the model that computed the reward
	HeaderNumerics     = "Assay-Numerics"      // the arithmetic that computed it; absent if unknown
	HeaderTraceparent  = "traceparent"         // W3C Trace Context: of the response, or of the span that publishes its result
	HeaderTracestate   = "tracestate"
	HeaderTimeout      = "Assay-Timeout"     // how long the requester or publisher waits, as a Go duration such as "2s"
	HeaderPriority     = "Assay-Priority"    // of a score request: interactive or bulk
	HeaderRetryAfter   = "Retry-After"       // whole seconds, with code 503
	HeaderSubject      = "Assay-Subject"     // dead letter: the subject of the original
	HeaderSequence     = js.HeaderSequence   // reward, dead letter: sequence of the response in ASSAY_RESPONSES; message of a live session: its number, from 1
	HeaderMsgID        = "Assay-Msg-Id"      // dead letter: its Nats-Msg-Id, if any
	HeaderDeliveries   = "Assay-Deliveries"  // dead letter: how often it was delivered
	HeaderCode         = "Assay-Error-Code"  // dead letter: HTTP status code, such as 400
	HeaderField        = "Assay-Error-Field" // dead letter: the invalid field, if any
	HeaderMessage      = "Assay-Error"       // dead letter: the error, and the fix
	HeaderTruncated    = "Assay-Truncated"   // dead letter: the size of the original, if only its start fits
)

// Reason is the last token of a dead letter's subject.
type Reason string

// Why a response could not be rewarded.
const (
	ReasonInvalid  Reason = "invalid"   // not a score item, or a subject that a reward cannot have
	ReasonTooLarge Reason = "too_large" // the response, or its result, exceeds a size limit
	ReasonModel    Reason = "model"     // the model failed on it, or its handling panicked, at every attempt
	ReasonExpired  Reason = "expired"   // its publisher no longer waits
	ReasonCrash    Reason = "crash"     // processes died of it
)
