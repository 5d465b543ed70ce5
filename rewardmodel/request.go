package rewardmodel

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"assay/rewardmodel/batching"

	"github.com/go-json-experiment/json/jsontext"
)

// Request asks for the rewards of a list of responses.
type Request struct {
	Responses []Item
	Model     string // the model's name or version; "" for the current model
	Options   Options
	// Priority affects when it is scored, not how, so it is sent as a header of
	// HTTP and NATS and not in the body.
	Priority Priority
	// Exclusive, unless nil, prevents batching the request with others. It is called
	// on the goroutine of the model, with true immediately before each model call
	// for the request and with false after it. It must return quickly, and may be
	// called after Score has returned if the caller canceled it.
	Exclusive func(computing bool)
	// Memory is charged for what scoring allocates, including the results, until
	// its owner closes it; nil: nothing is charged.
	Memory *Reservation
	// Internal excludes the results from the metrics of rewards and from the Observer:
	// the service scores for itself, and its choice of responses would distort their
	// distribution.
	Internal bool
	// Source is the transport and the endpoint that received the request, such as
	// "http /v1/score", for the Observer.
	Source string
}

// The default bounds of a request. Its instances cost up to about 700 bytes
// each, so that the largest request takes less than half of [DefaultMemory].
const (
	DefaultMaxResponses = 8192
	DefaultMaxInstances = 512 << 10
)

// MaxName is the maximum length of an identifier that a client chooses, in bytes:
// the id of a response, the name of a model, a tokenizer or a rater.
const MaxName = 512

// CheckName reports a name that is longer than MaxName.
func CheckName(field, name string) error {
	if len(name) > MaxName {
		return Invalidf(field, "has %d bytes; use at most %d", len(name), MaxName)
	}
	return nil
}

// Priority decides which requests are scored first.
type Priority string

// The priorities. A request that names none is interactive when it holds one
// response, else bulk.
const (
	PriorityInteractive Priority = "interactive" // a user waits: it is scheduled before bulk
	PriorityBulk        Priority = "bulk"        // throughput matters, not latency; it is never starved
)

// ParsePriority parses the value of the header of the given name; "" means that it
// is absent. Any other value that is not a priority is an *InputError.
func ParsePriority(header, value string) (Priority, error) {
	p := Priority(value)
	if err := oneOf(header, p, PriorityInteractive, PriorityBulk); err != nil {
		return "", err
	}
	return p, nil
}

// effectivePriority is that of a request, whether it names one or not.
func (r Request) effectivePriority() Priority {
	if r.Priority == PriorityInteractive || r.Priority == "" && len(r.Responses) <= 1 {
		return PriorityInteractive
	}
	return PriorityBulk
}

// priority is the effective one, as the queue orders jobs.
func (r Request) priority() batching.Priority {
	if r.effectivePriority() == PriorityInteractive {
		return batching.Interactive
	}
	return batching.Bulk
}

// Item is one response to score. Exactly one of Response, Messages and
// Instances is set (an empty, non-nil slice counts as set).
type Item struct {
	ID        string         // the client's; generated when empty
	Prompt    string         // context; offsets never index it
	Response  *string        // the text that is segmented and scored
	Messages  []Message      // a conversation: the messages of role assistant are scored
	Instances []string       // scored as given, never segmented
	Metadata  jsontext.Value // any JSON, not interpreted
	// TokenOffsets are the policy's tokens, for a dense reward: the start and the
	// end of each in Response, in Options.OffsetUnit, in the order of the text. An
	// empty one, such as a special token, is [n,n] with any n.
	TokenOffsets [][2]int
}

// Message is one turn of a conversation.
type Message struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

// RoleAssistant is the role of the messages that are scored.
const RoleAssistant = "assistant"

// Reward names the scale of a reward.
type Reward string

// The scales of a reward; see Result.Reward.
const (
	RewardCompliance Reward = "compliance" // in [0,1], 0.5 exactly at the threshold (default)
	RewardLogit      Reward = "logit"      // log-odds of compliance, in [-20,20]
	RewardRaw        Reward = "raw"        // 1 - violation, in [0,1]
)

// Aggregate names how the violations of the instances become that of the bag.
type Aggregate string

// The aggregates of instance violations.
const (
	AggregateMax     Aggregate = "max"      // the largest (default)
	AggregateTopK    Aggregate = "topk"     // mean of the k largest, or of all when there are fewer
	AggregateNoisyOr Aggregate = "noisy_or" // 1 - prod(1 - v): the chance of at least one violation
	AggregateMean    Aggregate = "mean"     // mean of all
)

// OffsetUnit names what the offsets of a span count.
type OffsetUnit string

// The units of offsets.
const (
	OffsetCodepoint OffsetUnit = "codepoint" // Unicode code points, as Python counts (default)
	OffsetUTF8      OffsetUnit = "utf8"      // bytes, as Go and Rust count
	OffsetUTF16     OffsetUnit = "utf16"     // UTF-16 code units, as JavaScript and Java count
)

// Reasoning selects what happens to <think> blocks.
type Reasoning string

// What happens to <think> blocks.
const (
	ReasoningSkip  Reasoning = "skip"  // they are not scored (default)
	ReasoningScore Reasoning = "score" // they are text like any other
	// ReasoningSkipOpened skips only what follows an opening tag of the response: a closing
	// tag without an opening one is text, and says nothing about the text before it.
	ReasoningSkipOpened Reasoning = "skip_opened"
)

// DefaultTopK is the k of AggregateTopK when the request names none, as in the
// paper's MIL top-k baseline.
const DefaultTopK = 3

// Options selects how a request is scored. The zero value of a field is its
// default.
type Options struct {
	Reward     Reward
	Aggregate  Aggregate
	OffsetUnit OffsetUnit
	Reasoning  Reasoning
	Instances  *bool // whether results list their instances; default true
	TopK       *int  // k of AggregateTopK, at least 1; the other aggregates ignore it

	Aspects     bool               // whether results list the result of each aspect
	Combination Combination        // how the aspects become one reward; "": as the model says
	Weights     map[string]float64 // of aspects in the combination, by name; the others keep those of the model

	Dense     Dense    // how the reward is assigned to tokens; "": not at all
	Gamma     *float64 // discount in (0,1] of DenseShaped, default 1; the others ignore it
	Tokenizer string   // name of the tokenizer for items without TokenOffsets
}

// Validate reports the first unknown value as an *InputError whose field is
// below "options".
func (o Options) Validate() error {
	checks := []*InputError{
		oneOf("options.reward", o.Reward, RewardCompliance, RewardLogit, RewardRaw),
		oneOf("options.aggregate", o.Aggregate, Aggregates()...),
		oneOf("options.offset_unit", o.OffsetUnit, OffsetCodepoint, OffsetUTF8, OffsetUTF16),
		oneOf("options.reasoning", o.Reasoning, ReasoningSkip, ReasoningScore, ReasoningSkipOpened),
		oneOf("options.combination", o.Combination, Combinations()...),
		oneOf("options.dense", o.Dense, DenseLast, DenseInstance, DenseWitness, DenseShaped),
	}
	for _, err := range checks {
		if err != nil {
			return err
		}
	}
	if o.TopK != nil && *o.TopK < 1 {
		return Invalidf("options.top_k", "must be at least 1, got %d", *o.TopK)
	}
	for _, name := range slices.Sorted(maps.Keys(o.Weights)) {
		if !validWeight(o.Weights[name]) {
			return Invalidf("options.weights", "the weight of %s is %v; use 0 or a positive number", Quote(name), o.Weights[name])
		}
	}
	if o.Gamma != nil && !(*o.Gamma > 0 && *o.Gamma <= 1) {
		return Invalidf("options.gamma", "must be above 0 and at most 1, got %v", *o.Gamma)
	}
	if o.Tokenizer != "" && o.Dense == "" {
		return Invalidf("options.tokenizer", "applies only to dense rewards; set options.dense as well, or omit it")
	}
	return nil
}

// oneOf accepts the zero value, which means the default.
func oneOf[T ~string](field string, value T, known ...T) *InputError {
	if value == "" || slices.Contains(known, value) {
		return nil
	}
	return Invalidf(field, "unknown value %s; use one of %s", Quote(string(value)), join(known))
}

func join[T ~string](values []T) string {
	words := make([]string, len(values))
	for i, v := range values {
		words[i] = string(v)
	}
	return strings.Join(words, ", ")
}

// withDefaults returns o with every field set.
func (o Options) withDefaults() Options {
	if o.Reward == "" {
		o.Reward = RewardCompliance
	}
	if o.Aggregate == "" {
		o.Aggregate = AggregateMax
	}
	if o.OffsetUnit == "" {
		o.OffsetUnit = OffsetCodepoint
	}
	if o.Reasoning == "" {
		o.Reasoning = ReasoningSkip
	}
	if o.Instances == nil {
		o.Instances = new(true)
	}
	if o.TopK == nil {
		o.TopK = new(DefaultTopK)
	}
	if o.Gamma == nil {
		o.Gamma = new(1.0)
	}
	return o
}

// Validate reports whether exactly one of Response, Messages and Instances is
// set, as an *InputError.
func (it Item) Validate() error {
	if err := it.validate(); err != nil {
		return err
	}
	return nil
}

// validate returns an error without the path of the item, which the caller adds.
func (it Item) validate() *InputError {
	var given []string
	if it.Response != nil {
		given = append(given, "response")
	}
	if it.Messages != nil {
		given = append(given, "messages")
	}
	if it.Instances != nil {
		given = append(given, "instances")
	}
	const fix = "give exactly one of response, messages and instances"
	switch len(given) {
	case 1:
		if it.TokenOffsets != nil && it.Response == nil {
			return Invalidf("token_offsets", "index a response; omit them with %s", given[0])
		}
		return nil
	case 0:
		return Invalidf("", "there is nothing to score; %s", fix)
	default:
		return Invalidf("", "%s are given together; %s", strings.Join(given, " and "), fix)
	}
}

// Validate reports the first thing wrong with r as an *InputError.
func (r Request) Validate() error {
	if len(r.Responses) == 0 {
		return &InputError{Kind: KindUnprocessable, Field: "responses", Message: "the list is empty; send at least one response"}
	}
	for i, it := range r.Responses {
		if err := it.validate(); err != nil {
			return err.Within(fmt.Sprintf("responses[%d]", i))
		}
	}
	if err := r.Options.Validate(); err != nil {
		return err
	}
	if err := oneOf("priority", r.Priority, PriorityInteractive, PriorityBulk); err != nil {
		return err
	}
	return r.validateDense()
}

// validateDense reports an item whose tokens are missing but required, or given but
// unused.
func (r Request) validateDense() error {
	for i, it := range r.Responses {
		field := fmt.Sprintf("responses[%d]", i)
		switch {
		case r.Options.Dense == "" && it.TokenOffsets != nil:
			return Invalidf(field+".token_offsets", `are given without options.dense; set it to last, instance, witness or shaped, or omit them`)
		case r.Options.Dense == "":
		case it.Response == nil:
			return Invalidf(field, "options.dense assigns rewards to the tokens of a response; give response instead of messages or instances")
		case it.TokenOffsets == nil && r.Options.Tokenizer == "":
			return Invalidf(field, "options.dense needs the tokens; give token_offsets, or options.tokenizer")
		}
	}
	return nil
}
