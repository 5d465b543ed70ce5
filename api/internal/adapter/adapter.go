// Package adapter is what the protocols of other projects share, over HTTP and
// gRPC: lenient decoding, items from texts that may be conversations, and scoring
// through a [Backend].
package adapter

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"assay/api/internal/exchange"
	"assay/rewardmodel"
)

// Backend is what the protocols need of the service. Its errors map to responses
// as package failure defines.
type Backend interface {
	// Score scores the responses of a request.
	Score(ctx context.Context, request rewardmodel.Request) (rewardmodel.ScoreResponse, error)
	// Models lists the models that serve, the default first. The list is empty
	// while none is loaded.
	Models(ctx context.Context) ([]Model, error)
}

// Model is a model that serves.
type Model struct {
	rewardmodel.ModelInfo
	Aspects []rewardmodel.Aspect // its rules, if it has several
}

// Current is the model that scores requests without a pin.
func Current(ctx context.Context, backend Backend) (Model, error) {
	serving, err := backend.Models(ctx)
	switch {
	case err != nil:
		return Model{}, err
	case len(serving) == 0:
		return Model{}, rewardmodel.ErrNotReady
	}
	return serving[0], nil
}

// Score scores the items of a request of another project, within the limits of
// its exchange, where it keeps the model for the headers of the response.
func Score(ctx context.Context, backend Backend, request rewardmodel.Request) (rewardmodel.ScoreResponse, error) {
	x := exchange.From(ctx)
	limit := x.Limits().MaxResponses()
	if n := len(request.Responses); n > limit {
		return rewardmodel.ScoreResponse{}, &rewardmodel.InputError{Kind: rewardmodel.KindTooLarge,
			Message: fmt.Sprintf("the request holds %d responses; send at most %d", n, limit)}
	}
	x.Responses, request.Memory = len(request.Responses), x.Memory
	// These protocols do not show whether one caller or many are behind a request.
	request.Priority = cmp.Or(x.Priority, rewardmodel.PriorityInteractive)
	answer, err := backend.Score(ctx, request)
	x.Model = answer.Model
	return answer, err
}

// Pin returns the version that the model of a request pins, "" for none. These
// protocols require some name there, so that only the name of a version that
// serves is a pin.
func Pin(ctx context.Context, backend Backend, model Name) string {
	if model == "" {
		return ""
	}
	serving, err := backend.Models(ctx)
	if err != nil || !slices.ContainsFunc(serving, func(m Model) bool { return m.Version == string(model) }) {
		return ""
	}
	return string(model)
}

// ScorePinned is Score for items and the model that a client names; see Pin.
func ScorePinned(ctx context.Context, backend Backend, model Name, items []rewardmodel.Item) (rewardmodel.ScoreResponse, error) {
	return Score(ctx, backend, rewardmodel.Request{Responses: items, Model: Pin(ctx, backend, model)})
}

// Response returns an item for one text.
func Response(text string) rewardmodel.Item { return rewardmodel.Item{Response: &text} }

// AssistantTurns returns an item for the turns of the assistant in a
// conversation.
func AssistantTurns(turns []string) rewardmodel.Item {
	if len(turns) == 1 {
		return Response(turns[0])
	}
	messages := make([]rewardmodel.Message, len(turns))
	for i, text := range turns {
		messages[i] = rewardmodel.Message{Role: rewardmodel.RoleAssistant, Content: text}
	}
	return rewardmodel.Item{Messages: messages}
}
