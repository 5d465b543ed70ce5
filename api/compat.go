package api

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"

	"github.com/go-chi/chi/v5"
	"github.com/go-json-experiment/json"

	"assay/rewardmodel"
)

// dialect is how a protocol of another project words a failure: its status and
// the JSON of its body. The status of overload is 503 in all of them.
type dialect func(f failure) (status int, body any)

// text is the message of a failure, for a protocol without a place for the
// field.
func (f failure) text() string {
	if f.field == "" {
		return f.message
	}
	return f.field + ": " + f.message
}

// adapters is the router of the endpoints of other projects. Each adapter turns
// a request of theirs into a rewardmodel.Request and the answer into theirs;
// nothing else knows about them.
type adapters struct {
	s *Server
	r chi.Router
}

// post adds an endpoint that scores, and says what it does.
func (a adapters) post(pattern, does string, d dialect, e endpoint) {
	a.add(http.MethodPost, pattern, does, d)
	a.r.Post(pattern, a.s.endpoint(inDialect(d, a.s.needs(ScopeScore, a.s.timely(prioritized(e))))))
}

// get adds an endpoint that tells about the service.
func (a adapters) get(pattern, does string, d dialect, e endpoint) {
	a.add(http.MethodGet, pattern, does, d)
	a.s.get(a.r, pattern, inDialect(d, e))
}

func (a adapters) add(method, pattern, does string, d dialect) {
	a.s.dialects[pattern] = d
	a.s.foreign = append(a.s.foreign, operation{method, pattern, does})
}

// inDialect has the failures of e worded in a dialect; nil is assay's own.
func inDialect(d dialect, e endpoint) endpoint {
	return func(w http.ResponseWriter, r *http.Request) error {
		exchangeOf(r).dialect = d
		return e(w, r)
	}
}

// compat adds the endpoints of other projects.
func (s *Server) compat(r chi.Router) {
	a := adapters{s: s, r: r}
	s.openRLHF(a)
	s.slime(a)
	s.vllm(a)
	s.sglang(a)
	s.moderations(a)
	s.tei(a)
	s.detector(a)
	s.openInference(a)
}

// rate scores the items of a request of another project.
func (s *Server) rate(ctx context.Context, request rewardmodel.Request) (rewardmodel.Answer, error) {
	limit := s.maxResponses()
	if n := len(request.Responses); n > limit {
		return rewardmodel.Answer{}, &rewardmodel.InputError{Kind: rewardmodel.KindTooLarge,
			Message: fmt.Sprintf("the request holds %d responses; send at most %d", n, limit)}
	}
	x := exchangeIn(ctx)
	x.responses, request.Memory = len(request.Responses), x.memory
	// Behind these protocols stands one caller or many: none of them can tell.
	request.Priority = cmp.Or(x.priority, rewardmodel.PriorityInteractive)
	return s.parts.Scorer.Score(ctx, request)
}

// maxResponses is how many responses a request may hold.
func (s *Server) maxResponses() int {
	if most := s.limits.Load().scoring.MaxResponses; most > 0 {
		return most
	}
	return rewardmodel.DefaultMaxResponses
}

// pin is the version that the model of a foreign request means: these protocols
// want some name there, so that only that of a version that serves is meant.
func (s *Server) pin(ctx context.Context, model name) string {
	if model == "" {
		return ""
	}
	serving, err := s.parts.Models.Models(ctx)
	if err != nil || !slices.ContainsFunc(serving, func(m Model) bool { return m.Version == string(model) }) {
		return ""
	}
	return string(model)
}

// response is an item for one text.
func response(text string) rewardmodel.Item { return rewardmodel.Item{Response: &text} }

// spoken is an item for what the assistant said, turn by turn.
func spoken(turns []string) rewardmodel.Item {
	if len(turns) == 1 {
		return response(turns[0])
	}
	messages := make([]rewardmodel.Message, len(turns))
	for i, text := range turns {
		messages[i] = rewardmodel.Message{Role: rewardmodel.RoleAssistant, Content: text}
	}
	return rewardmodel.Item{Messages: messages}
}

// probabilities are those of the classes violation and compliant, in this
// order, so that the last is the reward and the larger one is the decision.
func probabilities(result rewardmodel.Result) [2]float64 {
	return [2]float64{1 - result.Reward, result.Reward}
}

// The classes, in the order of probabilities.
const (
	labelViolation = "violation"
	labelCompliant = "compliant"
)

func label(result rewardmodel.Result) string {
	if result.Compliant {
		return labelCompliant
	}
	return labelViolation
}

// decimal is a number that JSON shows to be a fraction (1.0, not 1): Python
// would read an integer, and a batch of only those becomes a tensor of integers,
// of which there is no mean.
type decimal float64

// MarshalJSON implements json.Marshaler.
func (d decimal) MarshalJSON() ([]byte, error) {
	out, err := json.Marshal(float64(d))
	if err == nil && !bytes.ContainsAny(out, ".eE") {
		out = append(out, ".0"...)
	}
	return out, err
}
