package queue

// Subjects. They are public: clients build on them.
const (
	SubjectScore     = "assay.v1.score"     // request-reply
	SubjectResponses = "assay.v1.responses" // in: one score item a message, below this
	SubjectRewards   = "assay.v1.rewards"   // out: one result a message, same tail as its response
	SubjectFeedback  = "assay.v1.feedback"
	SubjectDead      = "assay.v1.dead"   // followed by the reason
	SubjectEvents    = "assay.v1.events" // followed by what happened
)

// Streams, buckets and the consumer that the replicas of assay share.
const (
	StreamResponses = "ASSAY_RESPONSES"
	StreamRewards   = "ASSAY_REWARDS"
	StreamDead      = "ASSAY_DEAD"
	StreamFeedback  = "ASSAY_FEEDBACK"
	StreamEvents    = "ASSAY_EVENTS"
	BucketState     = "ASSAY_STATE"
	BucketModels    = "ASSAY_MODELS"
	ConsumerScorer  = "assay-scorer"
	ServiceName     = "assay" // of the micro service and its queue group
)

// Headers of responses, rewards, dead letters and score requests.
const (
	HeaderModelVersion = "Assay-Model-Version" // of the model that gave the reward
	HeaderTraceparent  = "traceparent"         // W3C Trace Context, copied from the response
	HeaderTracestate   = "tracestate"
	HeaderTimeout      = "Assay-Timeout"     // how long the requester or publisher waits, as a Go duration such as "2s"
	HeaderPriority     = "Assay-Priority"    // of a score request: interactive or bulk
	HeaderRetryAfter   = "Retry-After"       // whole seconds, with code 503
	HeaderSubject      = "Assay-Subject"     // dead letter: the subject of the original
	HeaderSequence     = "Assay-Sequence"    // dead letter: its sequence in ASSAY_RESPONSES
	HeaderMsgID        = "Assay-Msg-Id"      // dead letter: its Nats-Msg-Id, when it had one
	HeaderDeliveries   = "Assay-Deliveries"  // dead letter: how often it was tried
	HeaderCode         = "Assay-Error-Code"  // dead letter: as over HTTP, such as 400
	HeaderField        = "Assay-Error-Field" // dead letter: the field at fault, when one is
	HeaderMessage      = "Assay-Error"       // dead letter: what was wrong, and the fix
	HeaderTruncated    = "Assay-Truncated"   // dead letter: the size of the original when only its head fits
)

// Reason is the last token of a dead letter's subject.
type Reason string

// Why a response could not be rewarded.
const (
	ReasonInvalid  Reason = "invalid"   // not a score item, or a subject that no reward can have
	ReasonTooLarge Reason = "too_large" // the response, or its result, passes a size limit
	ReasonModel    Reason = "model"     // the model failed on it, or its handling panicked, at every attempt
	ReasonExpired  Reason = "expired"   // its publisher waits no longer
	ReasonCrash    Reason = "crash"     // processes died of it
)
