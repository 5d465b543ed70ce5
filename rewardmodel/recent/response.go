package recent

import (
	"fmt"
	"hash/maphash"
	"iter"
	"strings"
	"time"
	"unicode/utf8"

	"assay/rewardmodel"
)

// Response is a response that was scored. Fields that a Result has as well have the
// same meaning.
type Response struct {
	Sequence uint64    `json:"sequence"` // increases with each recorded response, also over a restart
	Time     time.Time `json:"time"`
	ID       string    `json:"id"`
	Source   string    `json:"source"` // transport and endpoint, such as "http /v1/score"
	Model    string    `json:"model"`  // the version

	Reward     float64            `json:"reward"`     // on the scale that the request asked for
	Scale      rewardmodel.Reward `json:"scale"`      // of Reward
	Compliance float64            `json:"compliance"` // the reward on the scale compliance, in [0,1]
	Violation  float64            `json:"violation"`
	Threshold  float64            `json:"threshold"`
	Compliant  bool               `json:"compliant"`
	Aspect     string             `json:"aspect,omitzero"`
	Empty      bool               `json:"empty"`
	Truncated  bool               `json:"truncated"`
	Utterances int                `json:"utterances"`
	Characters int                `json:"characters"` // Unicode code points of the scored text

	Step *float64 `json:"step,omitzero"` // "step" of the metadata, if it is a number
	// Group is the same for the responses to one prompt: "group" of the metadata if it
	// is a string or a number, otherwise a keyed hash of the prompt, whose key is
	// random for each process. "" without either.
	Group string `json:"group,omitzero"`

	kept time.Time // Time, by the monotonic clock
	// The texts are "" unless they are kept. Each may be cut off at its limit.
	Prompt   string `json:"prompt,omitzero"`
	Response string `json:"response,omitzero"`
	Witness  string `json:"witness,omitzero"`
}

// The limits of texts, in bytes.
const (
	maxPrompt   = 4 << 10
	maxResponse = 16 << 10
	maxWitness  = 1 << 10
)

// size is about what r takes in memory, in bytes.
func (r *Response) size() int {
	return 384 + len(r.ID) + len(r.Group) + len(r.Prompt) + len(r.Response) + len(r.Witness)
}

// withoutTexts returns a copy.
func (r *Response) withoutTexts() *Response {
	bare := *r
	bare.Prompt, bare.Response, bare.Witness = "", "", ""
	return &bare
}

// describe describes the results of a request.
func describe(request rewardmodel.Request, response rewardmodel.ScoreResponse, observations []rewardmodel.Observation, seed maphash.Seed, texts bool) []*Response {
	now := time.Now()
	all := make([]Response, len(response.Results))
	out := make([]*Response, len(all))
	for i, result := range response.Results {
		item, observed := request.Responses[i], observations[i]
		r := Response{
			Time: now.UTC(), kept: now, ID: strings.Clone(result.ID), Source: request.Source, Model: response.Model.Version,
			Reward: result.Reward, Scale: request.Options.Reward, Compliance: observed.Compliance,
			Violation: result.Violation, Threshold: result.Threshold, Compliant: result.Compliant, Aspect: result.Aspect,
			Empty: result.Empty, Truncated: result.Truncated, Utterances: observed.Utterances, Characters: characters(item),
		}
		r.Step, r.Group = stepAndGroup(item.Metadata)
		if r.Group == "" {
			r.Group = promptGroup(seed, item)
		}
		if texts {
			r.Prompt, r.Response = clip(promptOf(item), maxPrompt), clip(scoredText(item), maxResponse)
			if result.Witness != nil {
				r.Witness = clip(result.Witness.Text, maxWitness)
			}
		}
		all[i] = r
		out[i] = &all[i]
	}
	return out
}

// promptGroup returns the hash of the prompt in hexadecimal, "" without one. It is
// keyed, so that a reader who may not see the prompt cannot confirm a guess of it.
func promptGroup(seed maphash.Seed, item rewardmodel.Item) string {
	var h maphash.Hash
	h.SetSeed(seed)
	empty := true
	for text := range promptParts(item) {
		empty = empty && text == ""
		_, _ = h.WriteString(text)
		_ = h.WriteByte(0)
	}
	if empty {
		return ""
	}
	return fmt.Sprintf("%016x", h.Sum64())
}

// promptParts yields the prompt, and of a conversation the messages before the first
// one of the assistant.
func promptParts(item rewardmodel.Item) iter.Seq[string] {
	return func(yield func(string) bool) {
		if item.Prompt != "" && !yield(item.Prompt) {
			return
		}
		for _, m := range item.Messages {
			if m.Role == rewardmodel.RoleAssistant || !yield(m.Content) {
				return
			}
		}
	}
}

// scoredParts yields the texts that are scored.
func scoredParts(item rewardmodel.Item) iter.Seq[string] {
	return func(yield func(string) bool) {
		if item.Response != nil && !yield(*item.Response) {
			return
		}
		for _, m := range item.Messages {
			if m.Role == rewardmodel.RoleAssistant && !yield(m.Content) {
				return
			}
		}
		for _, text := range item.Instances {
			if !yield(text) {
				return
			}
		}
	}
}

func characters(item rewardmodel.Item) (n int) {
	for text := range scoredParts(item) {
		n += utf8.RuneCountInString(text)
	}
	return n
}

func promptOf(item rewardmodel.Item) string   { return joined(promptParts(item), maxPrompt) }
func scoredText(item rewardmodel.Item) string { return joined(scoredParts(item), maxResponse) }

// joined separates texts with line breaks, and stops after limit bytes.
func joined(parts iter.Seq[string], limit int) string {
	var b strings.Builder
	only, n := "", 0
	for text := range parts {
		if n++; n == 1 {
			only = text
			continue
		}
		if n == 2 {
			b.WriteString(only[:min(len(only), limit)])
		}
		if b.Len() >= limit {
			break
		}
		b.WriteByte('\n')
		b.WriteString(text[:min(len(text), limit)])
	}
	if n < 2 {
		return only
	}
	return b.String()
}

// clip copies at most limit bytes of text: a part of a string would keep all of it in
// memory.
func clip(text string, limit int) string {
	if len(text) > limit {
		for limit > 0 && !utf8.RuneStart(text[limit]) {
			limit--
		}
		text = text[:limit]
	}
	return strings.Clone(strings.ToValidUTF8(text, "\ufffd"))
}
