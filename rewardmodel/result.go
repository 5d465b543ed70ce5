package rewardmodel

// ScoreResponse contains the results of a request, in its order.
type ScoreResponse struct {
	Model      ModelInfo  `json:"model"`
	OffsetUnit OffsetUnit `json:"offset_unit"`
	Results    []Result   `json:"results"`
	TimingMS   Timing     `json:"timing_ms"`
}

// ModelInfo identifies the model that computed the results.
type ModelInfo struct {
	Name    string `json:"name"`
	Version string `json:"version"`
	// Numerics identifies the arithmetic: two results of the same version with the same
	// numerics are equal bit by bit. It is "" where a score may depend on its batch.
	Numerics string `json:"numerics,omitzero"`
}

// Timing breaks down the time of a request, in milliseconds. Queue, Tokenize and
// Inference do not overlap; Total includes them and everything else.
type Timing struct {
	Queue     float64 `json:"queue"`     // admitted, while the model worked on others
	Tokenize  float64 `json:"tokenize"`  // segmentation, tokenization and cache lookups
	Inference float64 `json:"inference"` // while the model worked on batches that held this request
	Total     float64 `json:"total"`
}

// Result is the reward of one response, with the reason for it.
type Result struct {
	ID        string  `json:"id"`        // the client's, or generated
	Reward    float64 `json:"reward"`    // on the scale that the request asked for; always finite
	Compliant bool    `json:"compliant"` // Violation <= Threshold
	Violation float64 `json:"violation"` // of the bag: the aggregate of its instances, in [0,1]
	Threshold float64 `json:"threshold"` // the adjusted decision threshold T of that aggregate, for the number of scored instances
	// Aspect is the rule that Violation, Threshold, Witness and Instances are of: of
	// a model with several, the one that decides; "" when the model has one.
	Aspect    string     `json:"aspect,omitzero"`
	Witness   *Witness   `json:"witness"` // the instance with the largest violation; nil when empty
	Instances []Instance `json:"instances,omitzero"`
	Truncated bool       `json:"truncated"` // there are more instances than are scored: the rest was skipped
	Empty     bool       `json:"empty"`     // no character to score; Reward is the configured one

	Aspects map[string]AspectResult `json:"aspects,omitzero"` // by name, where Options.Aspects asks for them
	// Scores are those of each aspect of a model with several, in its order, whether or
	// not Options.Aspects asks for aspects: for a caller that monitors them. nil when
	// the response is empty.
	Scores []AspectScore `json:"-"`

	TokenRewards []float64 `json:"token_rewards,omitzero"` // one for each token of a dense reward; see Dense
	TokenOffsets [][2]int  `json:"token_offsets,omitzero"` // of the tokens, where Options.Tokenizer made them
}

// AspectResult is the result of one rule; its fields are as in Result. Of an empty
// response every aspect has the configured reward.
type AspectResult struct {
	Reward    float64  `json:"reward"` // of this aspect alone
	Compliant bool     `json:"compliant"`
	Violation float64  `json:"violation"`
	Threshold float64  `json:"threshold"`
	Witness   *Witness `json:"witness"`
}

// AspectScore is the score of a response for one rule; its fields are as in Result.
type AspectScore struct {
	Aspect               string
	Violation, Threshold float64
}

// Witness is the most anomalous instance of a response. Start and End are in the
// result's offset unit and index the response, the content of message Message, or
// the given instance Index.
type Witness struct {
	Index     int     `json:"index"` // into Result.Instances, or the given instances
	Message   *int    `json:"message,omitzero"`
	Start     int     `json:"start"`
	End       int     `json:"end"`
	Text      string  `json:"text"`
	Violation float64 `json:"violation"`
}

// Instance is one scored utterance; its fields are as in Witness.
type Instance struct {
	Message   *int    `json:"message,omitzero"`
	Start     int     `json:"start"`
	End       int     `json:"end"`
	Violation float64 `json:"violation"` // g_-1(x), in [0,1]
	// Aspects are the violations by the name of the aspect, where Options.Aspects asks
	// for them.
	Aspects map[string]float64 `json:"aspects,omitzero"`
}
