package labels

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"assay/queue/internal/js"
	"assay/rewardmodel"
	"assay/rewardmodel/bag"
	"assay/rewardmodel/feedback"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"
)

// maxScoredWrites is how many scored responses are stored at the same time.
const maxScoredWrites = 32

// maxRecentBytes limits the memory of RecentScored, in bytes of the messages.
const maxRecentBytes = 64 << 20

// ScoredResponse is a response that was scored and is kept for a time, for labels
// that name only its id and to find responses that are worth a label.
type ScoredResponse struct {
	Item      rewardmodel.Item // without its metadata
	Model     string           // the version that scored it
	Time      time.Time
	Violation float64   // of the bag, in [0,1]
	Threshold float64   // of the decision
	Reward    float64   // as returned to the client
	Compliant bool      // the decision
	Instances []float64 // violation of each instance, in order
	// Aspects has the scores of each aspect of a model with several; the others are
	// then those of the deciding one.
	Aspects map[string]feedback.AspectScore
}

// scoredJSON is a scored response as it is stored.
type scoredJSON struct {
	Item      itemJSON  `json:"item"`
	Model     string    `json:"model"`
	Time      time.Time `json:"time"`
	Violation float64   `json:"violation"`
	Threshold float64   `json:"threshold"`
	Reward    float64   `json:"reward"`
	Compliant bool      `json:"compliant"`
	Instances []float64 `json:"instances,omitzero"`

	Aspects map[string]feedback.AspectScore `json:"aspects,omitzero"`
}

// itemJSON is a rewardmodel.Item with the field names of the API.
type itemJSON struct {
	ID        string                `json:"id"`
	Prompt    string                `json:"prompt,omitzero"`
	Response  *string               `json:"response,omitzero"`
	Messages  []rewardmodel.Message `json:"messages,omitzero"`
	Instances []string              `json:"instances,omitzero"`
	Metadata  jsontext.Value        `json:"-"`

	TokenOffsets [][2]int `json:"-"`
}

// KeepsScored reports whether scored responses are kept.
func (l *Log) KeepsScored() bool { return l.scored != nil }

// KeepScored stores scored responses for as long as their stream keeps them. A
// response that is scored again replaces the earlier one. It skips a response without
// id, or whose id was erased, or that is too large for a message, and does nothing if
// scored responses are not kept. Its error is that of the first response that could
// not be stored; the others are stored.
func (l *Log) KeepScored(ctx context.Context, responses []ScoredResponse) error {
	if l.scored == nil {
		return nil
	}
	if err := l.await(ctx, 0); err != nil {
		return err
	}
	var group errgroup.Group
	group.SetLimit(maxScoredWrites)
	for _, r := range responses {
		group.Go(func() error { return l.putScored(ctx, r) })
	}
	return group.Wait()
}

func (l *Log) putScored(ctx context.Context, r ScoredResponse) error {
	id := feedback.HashOf(r.Item.ID)
	if r.Item.ID == "" || l.Index().Erased(id) {
		return nil
	}
	stored := scoredJSON{Item: itemJSON(r.Item), Model: r.Model, Time: r.Time, Violation: r.Violation,
		Threshold: r.Threshold, Reward: r.Reward, Compliant: r.Compliant, Instances: r.Instances, Aspects: r.Aspects}
	body, err := json.Marshal(stored)
	if err != nil {
		return fmt.Errorf("scored response %.80q: %w", r.Item.ID, err)
	}
	if int64(len(body)) > l.nc.MaxPayload()-recordRoom {
		return nil
	}
	if err := l.cfg.Healthy(); err != nil {
		return unavailable(ctx, err)
	}
	try, cancel := context.WithTimeout(ctx, js.RequestTimeout)
	defer cancel()
	msg := &nats.Msg{Subject: scoredSubject(id), Header: nats.Header{}, Data: body}
	js.Seal(msg.Subject, msg.Header, body)
	if _, err := l.js.PublishMsg(try, msg, jetstream.WithExpectStream(StreamScored)); err != nil {
		return unavailable(ctx, fmt.Errorf("stream %s: %w", StreamScored, js.Explain(err)))
	}
	if l.Index().Erased(id) { // in the meantime: the erasure may have missed it
		return js.EraseLast(ctx, l.scored, scoredSubject(id))
	}
	return nil
}

// Scored returns the scored response of an id, and whether there is one. Its error
// wraps feedback.ErrUnavailable, or is that of ctx.
func (l *Log) Scored(ctx context.Context, id string) (ScoredResponse, bool, error) {
	hash := feedback.HashOf(id)
	if l.scored == nil || l.Index().Erased(hash) {
		return ScoredResponse{}, false, nil
	}
	ask, cancel := context.WithTimeout(ctx, js.RequestTimeout)
	defer cancel()
	msg, err := l.scored.GetLastMsgForSubject(ask, scoredSubject(hash))
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return ScoredResponse{}, false, nil
	}
	if err != nil {
		return ScoredResponse{}, false, unavailable(ctx, fmt.Errorf("stream %s: %w", StreamScored, js.Explain(err)))
	}
	if !l.intact(l.scored, js.Message{Sequence: msg.Sequence, Subject: scoredSubject(hash), Header: msg.Header, Data: msg.Data}) {
		return ScoredResponse{}, false, nil
	}
	r, err := parseScored(msg.Data)
	if err != nil || feedback.HashOf(r.Item.ID) != hash {
		l.log.Warn().Err(err).Uint64("sequence", msg.Sequence).Msg("ignored an unrecognized message among the scored responses")
		return ScoredResponse{}, false, nil
	}
	return r, true, nil
}

// RecentScored returns the n responses that were scored last, the newest first, or as
// many of them as take maxRecentBytes. Its error wraps feedback.ErrUnavailable, or is
// that of ctx.
func (l *Log) RecentScored(ctx context.Context, n int) ([]ScoredResponse, error) {
	if l.scored == nil || n <= 0 {
		return nil, nil
	}
	ask, cancel := context.WithTimeout(ctx, js.RequestTimeout)
	defer cancel()
	info, err := l.scored.Info(ask)
	if err != nil {
		return nil, unavailable(ctx, fmt.Errorf("stream %s: %w", StreamScored, js.Explain(err)))
	}
	var newest []ScoredResponse
	room := maxRecentBytes
	first, last := info.State.FirstSeq, info.State.LastSeq
	// Responses that were scored again or erased leave gaps in the sequences.
	for step := uint64(2 * n); len(newest) < n && room > 0 && last >= first && last > 0; step *= 2 {
		from := first
		if last-first >= step {
			from = last - step + 1
		}
		var part []ScoredResponse
		if part, room, err = l.scoredBetween(ctx, from, last, n-len(newest), room); err != nil {
			return nil, err
		}
		slices.Reverse(part)
		newest = append(newest, part...)
		last = from - 1
	}
	return newest, nil
}

// scoredBetween returns the last n scored responses of the sequences from first to last
// that fit into room, in bytes, and the room that is left: 0 if others do not fit.
func (l *Log) scoredBetween(ctx context.Context, first, last uint64, n, room int) (out []ScoredResponse, left int, err error) {
	var sizes []int
	used, full := 0, false
	for msg, err := range l.scan(ctx, l.scored, SubjectScored+".>", first, last) {
		if err != nil {
			return nil, 0, err
		}
		if !l.intact(l.scored, msg) {
			continue
		}
		r, err := parseScored(msg.Data)
		if err != nil {
			l.log.Warn().Err(err).Uint64("sequence", msg.Sequence).Msg("ignored an invalid scored response")
			continue
		}
		if l.Index().Erased(feedback.HashOf(r.Item.ID)) {
			continue
		}
		out, sizes, used = append(out, r), append(sizes, len(msg.Data)), used+len(msg.Data)
		for len(out) > n || used > room {
			full = full || used > room
			used -= sizes[0]
			out[0] = ScoredResponse{} // what the slice still refers to
			out, sizes = out[1:], sizes[1:]
		}
	}
	if full {
		return out, 0, nil
	}
	return out, room - used, nil
}

func parseScored(data []byte) (ScoredResponse, error) {
	var stored scoredJSON
	if err := json.Unmarshal(data, &stored); err != nil {
		return ScoredResponse{}, err
	}
	if stored.Item.ID == "" {
		return ScoredResponse{}, errors.New("a scored response needs an id")
	}
	return ScoredResponse{Item: rewardmodel.Item(stored.Item), Model: stored.Model, Time: stored.Time, Violation: stored.Violation,
		Threshold: stored.Threshold, Reward: stored.Reward, Compliant: stored.Compliant, Instances: stored.Instances, Aspects: stored.Aspects}, nil
}

// removeScored erases the scored response of an id. Another process may keep scored
// responses if this one does not.
func (l *Log) removeScored(ctx context.Context, id feedback.Hash) error {
	stream := l.scored
	if stream == nil {
		ask, cancel := context.WithTimeout(ctx, js.RequestTimeout)
		defer cancel()
		var err error
		stream, err = l.js.Stream(ask, StreamScored)
		if errors.Is(err, jetstream.ErrStreamNotFound) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("stream %s: %w", StreamScored, js.Explain(err))
		}
	}
	return js.EraseLast(ctx, stream, scoredSubject(id))
}

// fill sets the text of a bag.
func (r ScoredResponse) fill(b *bag.Bag) {
	b.Instances = r.Item.Instances
	if r.Item.Response != nil {
		b.Response = *r.Item.Response
	}
	for _, m := range r.Item.Messages {
		b.Messages = append(b.Messages, bag.Message(m))
	}
}
