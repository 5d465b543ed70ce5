package queue

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"assay/rewardmodel"
	"assay/rewardmodel/bag"
	"assay/rewardmodel/feedback"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"
)

// keepers is how many scored responses are stored at once.
const keepers = 32

// KeptResponse is a response that was scored and is kept for a time: for
// feedback that names only its id, and to find what is worth labelling.
type KeptResponse struct {
	Item      rewardmodel.Item // without its metadata
	Model     string           // the version that scored it
	Time      time.Time
	Violation float64   // of the bag, in [0,1]
	Threshold float64   // that decided
	Reward    float64   // as it was answered
	Compliant bool      // the decision
	Instances []float64 // violation of each instance, in order
}

// keptJSON is a kept response as it is stored.
type keptJSON struct {
	Item      keptItem  `json:"item"`
	Model     string    `json:"model"`
	Time      time.Time `json:"time"`
	Violation float64   `json:"violation"`
	Threshold float64   `json:"threshold"`
	Reward    float64   `json:"reward"`
	Compliant bool      `json:"compliant"`
	Instances []float64 `json:"instances,omitzero"`
}

// keptItem is a rewardmodel.Item with the names that clients use.
type keptItem struct {
	ID        string                `json:"id"`
	Prompt    string                `json:"prompt,omitzero"`
	Response  *string               `json:"response,omitzero"`
	Messages  []rewardmodel.Message `json:"messages,omitzero"`
	Instances []string              `json:"instances,omitzero"`
	Metadata  jsontext.Value        `json:"-"`

	TokenOffsets [][2]int `json:"-"`
}

// Keeps tells whether scored responses are kept.
func (f *Feedback) Keeps() bool { return f.kept != nil }

// Keep stores scored responses for as long as StreamsConfig.KeepScored says. One
// that is scored again takes the place of the earlier; one without id, or whose
// id was erased, is left out, and so is one that no message can hold. It does
// nothing when nothing is kept. Its error is that of the first response that
// could not be stored; the others are.
func (f *Feedback) Keep(ctx context.Context, responses []KeptResponse) error {
	if f.kept == nil {
		return nil
	}
	if err := f.await(ctx, 0); err != nil {
		return err
	}
	var group errgroup.Group
	group.SetLimit(keepers)
	for _, r := range responses {
		group.Go(func() error { return f.keep(ctx, r) })
	}
	return group.Wait()
}

func (f *Feedback) keep(ctx context.Context, r KeptResponse) error {
	id := feedback.HashOf(r.Item.ID)
	if r.Item.ID == "" || f.Index().Erased(id) {
		return nil
	}
	stored := keptJSON{Item: keptItem(r.Item), Model: r.Model, Time: r.Time, Violation: r.Violation,
		Threshold: r.Threshold, Reward: r.Reward, Compliant: r.Compliant, Instances: r.Instances}
	body, err := json.Marshal(stored)
	if err != nil {
		return fmt.Errorf("keeping response %.80q: %w", r.Item.ID, err)
	}
	if int64(len(body)) > f.nc.MaxPayload()-feedbackRoom {
		return nil
	}
	if err := f.healthy(); err != nil {
		return unavailable(ctx, err)
	}
	try, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	if _, err := f.js.Publish(try, scoredSubject(id), body, jetstream.WithExpectStream(StreamScored)); err != nil {
		return unavailable(ctx, fmt.Errorf("stream %s: %w", StreamScored, explain(err)))
	}
	if f.Index().Erased(id) { // meanwhile: who erased it may have missed it
		return overwrite(ctx, f.kept, scoredSubject(id))
	}
	return nil
}

// Kept returns the scored response of an id, and whether there is one. Its
// error wraps feedback.ErrUnavailable, or is that of ctx.
func (f *Feedback) Kept(ctx context.Context, id string) (KeptResponse, bool, error) {
	hash := feedback.HashOf(id)
	if f.kept == nil || f.Index().Erased(hash) {
		return KeptResponse{}, false, nil
	}
	ask, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	msg, err := f.kept.GetLastMsgForSubject(ask, scoredSubject(hash))
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return KeptResponse{}, false, nil
	}
	if err != nil {
		return KeptResponse{}, false, unavailable(ctx, fmt.Errorf("stream %s: %w", StreamScored, explain(err)))
	}
	r, err := parseKept(msg.Data)
	if err != nil || feedback.HashOf(r.Item.ID) != hash {
		f.log.Warn().Err(err).Uint64("sequence", msg.Sequence).Msg("an unrecognized message among the kept responses is ignored")
		return KeptResponse{}, false, nil
	}
	return r, true, nil
}

// RecentKept returns the n responses that were scored last, the newest first.
// Its error wraps feedback.ErrUnavailable, or is that of ctx.
func (f *Feedback) RecentKept(ctx context.Context, n int) ([]KeptResponse, error) {
	if f.kept == nil || n <= 0 {
		return nil, nil
	}
	ask, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	info, err := f.kept.Info(ask)
	if err != nil {
		return nil, unavailable(ctx, fmt.Errorf("stream %s: %w", StreamScored, explain(err)))
	}
	var newest []KeptResponse
	first, last := info.State.FirstSeq, info.State.LastSeq
	// Responses that were scored again or erased leave gaps in the sequences.
	for step := uint64(2 * n); len(newest) < n && last >= first && last > 0; step *= 2 {
		from := first
		if last-first >= step {
			from = last - step + 1
		}
		part, err := f.keptBetween(ctx, from, last)
		if err != nil {
			return nil, err
		}
		slices.Reverse(part)
		newest = append(newest, part...)
		last = from - 1
	}
	return newest[:min(n, len(newest))], nil
}

// keptBetween returns the kept responses of the sequences from first to last.
func (f *Feedback) keptBetween(ctx context.Context, first, last uint64) (out []KeptResponse, err error) {
	for msg, err := range f.scan(ctx, f.kept, SubjectScored+".>", first, last) {
		if err != nil {
			return nil, err
		}
		r, err := parseKept(msg.data)
		if err != nil {
			f.log.Warn().Err(err).Uint64("sequence", msg.sequence).Msg("a kept response cannot be read")
			continue
		}
		if !f.Index().Erased(feedback.HashOf(r.Item.ID)) {
			out = append(out, r)
		}
	}
	return out, nil
}

func parseKept(data []byte) (KeptResponse, error) {
	var stored keptJSON
	if err := json.Unmarshal(data, &stored); err != nil {
		return KeptResponse{}, err
	}
	if stored.Item.ID == "" {
		return KeptResponse{}, errors.New("it is not a kept response: it has no id")
	}
	return KeptResponse{Item: rewardmodel.Item(stored.Item), Model: stored.Model, Time: stored.Time, Violation: stored.Violation,
		Threshold: stored.Threshold, Reward: stored.Reward, Compliant: stored.Compliant, Instances: stored.Instances}, nil
}

// fill sets the text of a bag.
func (r KeptResponse) fill(b *bag.Bag) {
	b.Instances = r.Item.Instances
	if r.Item.Response != nil {
		b.Response = *r.Item.Response
	}
	for _, m := range r.Item.Messages {
		b.Messages = append(b.Messages, bag.Message(m))
	}
}
