package assay_test

import (
	"errors"
	"math"
	"os"
	"strings"
	"testing"

	assay "assay/clients/go"
)

// live returns a client of the service at $ASSAY_URL.
func live(t *testing.T) *assay.Client {
	t.Helper()
	url := os.Getenv("ASSAY_URL")
	if url == "" {
		t.Skip("ASSAY_URL is not set to a running service; clients/test.sh starts one")
	}
	return client(t, url)
}

func TestLiveScores(t *testing.T) {
	c := live(t)
	responses := []string{"Thank you, é 🙂. You are a stupid idiot. I hope it helps.", "Drink some water.", "  ", "<think>You fool.</think>Fine."}
	var items []assay.Item
	for range 60 {
		items = append(items, assay.Texts(responses...)...)
	}
	results, err := c.ScoreAll(t.Context(), items, assay.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for i, r := range results {
		again := results[i%4]
		if math.Abs(r.Reward-again.Reward) > 5e-3 || r.ID == "" || r.Model.Version == "" {
			t.Fatalf("result %d is %+v, and was %+v before", i, r, again)
		}
		if text := responses[i%4]; r.Witness != nil && text[r.Witness.Start:r.Witness.End] != r.Witness.Text {
			t.Errorf("the witness %+v does not index %q in bytes", r.Witness, text)
		}
	}
	if results[0].Compliant || !strings.Contains(results[0].Witness.Text, "idiot") || !results[1].Compliant || !results[2].Empty {
		t.Errorf("%+v", results[:4])
	}
	var apiErr *assay.APIError
	if _, err := c.Score(t.Context(), []assay.Item{{}}, assay.Options{}); !errors.As(err, &apiErr) || apiErr.Item != 0 || apiErr.Status != 400 {
		t.Error(err)
	}
	if _, err := c.Score(t.Context(), nil, assay.Options{}); !errors.As(err, &apiErr) || apiErr.Status != 422 {
		t.Error(err)
	}
	pinned := client(t, os.Getenv("ASSAY_URL"), assay.WithModel("org/name"))
	if _, err := pinned.Score(t.Context(), items[:1], assay.Options{}); !errors.Is(err, assay.ErrNotFound) {
		t.Error(err)
	}
}

func TestLiveDenseRewards(t *testing.T) {
	c := live(t)
	item := assay.Text("Thank you 🙂. You are a stupid idiot.")
	item.TokenOffsets = [][2]int{{0, 0}, {0, 9}, {10, 14}, {14, 15}, {16, 23}, {24, 32}, {32, 38}, {38, 39}, {39, 39}}
	for _, dense := range []string{assay.DenseLast, assay.DenseInstance, assay.DenseWitness, assay.DenseShaped} {
		a, err := c.Score(t.Context(), []assay.Item{item}, assay.Options{Dense: dense, Reward: assay.RewardLogit})
		if err != nil {
			t.Fatal(dense, err)
		}
		sum := 0.0
		for _, r := range a.Results[0].TokenRewards {
			sum += r
		}
		if math.Abs(sum-a.Results[0].Reward) > 1e-9 {
			t.Errorf("%s: %v does not sum to %v", dense, a.Results[0].TokenRewards, a.Results[0].Reward)
		}
	}
	plain := []assay.Item{assay.Text("Fine. You fool."), assay.Text(" "), assay.Text("")}
	a, err := c.Score(t.Context(), plain, assay.Options{Dense: assay.DenseInstance, Tokenizer: "assay"})
	if err != nil {
		t.Fatal(err)
	}
	for i, r := range a.Results {
		if len(r.TokenRewards) != len(r.TokenOffsets) || i == 0 && len(r.TokenRewards) < 4 {
			t.Errorf("%d: %v at %v", i, r.TokenRewards, r.TokenOffsets)
		}
	}
	var apiErr *assay.APIError
	if _, err := c.Score(t.Context(), plain, assay.Options{Dense: assay.DenseLast}); !errors.As(err, &apiErr) || apiErr.Status != 400 {
		t.Error(err)
	}
}

func TestLiveLoop(t *testing.T) {
	c := live(t)
	ctx := t.Context()
	if err := c.Ready(ctx); err != nil {
		t.Fatal(err)
	}
	models, err := c.Models(ctx)
	if err != nil || len(models) == 0 || !models[0].Current {
		t.Fatal(models, err)
	}
	record, err := c.Model(ctx, models[0].Version)
	if err != nil || record.Threshold != models[0].Threshold {
		t.Error(record, err)
	}
	if _, err := c.Model(ctx, "nobody"); !errors.Is(err, assay.ErrNotFound) {
		t.Error(err)
	}
	if _, err := c.Rollback(ctx, "test"); !errors.Is(err, assay.ErrConflict) {
		t.Error(err)
	}
	text := "You fool. 🙂"
	label := []assay.FeedbackItem{{ID: "go/1 ?", Label: assay.LabelViolation, Response: &text}, {ID: "go/1 ?", Label: "odd", Response: &text}}
	receipt, err := c.Feedback(ctx, label)
	if err != nil || receipt.Accepted != 1 || len(receipt.Rejected) != 1 || receipt.Rejected[0].Index != 1 {
		t.Fatalf("%+v, %v", receipt, err)
	}
	if receipt, err = c.Feedback(ctx, label[:1]); err != nil || receipt.Duplicates != 1 {
		t.Errorf("%+v, %v", receipt, err)
	}
	stats, err := c.FeedbackStats(ctx)
	if err != nil || stats.Records == 0 {
		t.Error(stats, err)
	}
	if _, err := c.Candidates(ctx, 3); err != nil {
		t.Error(err)
	}
	if n, err := c.EraseFeedback(ctx, "go/1 ?"); err != nil || n != 1 {
		t.Error(n, err)
	}
	training, err := c.Training(ctx)
	if err != nil || training.Auto || training.Phase != "idle" {
		t.Error(training, err)
	}
	recent, err := c.RecentEvents(ctx, 10)
	if err != nil || len(recent) == 0 {
		t.Fatal(recent, err)
	}
	last := recent[len(recent)-1].Sequence
	for e, err := range c.Events(ctx, last-1) {
		if err != nil || e.Sequence != last {
			t.Error(e, err)
		}
		break
	}
}

// A live session returns the result of a request, and an event for each instance.
func TestLiveSessionScores(t *testing.T) {
	c := live(t)
	text := "Thank you, é 🙂. You are a stupid idiot. I hope it helps."
	want, err := c.Score(t.Context(), assay.Texts(text), assay.Options{})
	if err != nil {
		t.Fatal(err)
	}
	l, err := c.Live(t.Context(), assay.LiveOptions{ID: "r1"})
	if err != nil {
		t.Fatal(err)
	}
	for _, character := range text {
		if err := l.Send(string(character)); err != nil {
			t.Fatal(err)
		}
	}
	got, err := l.Close()
	if err != nil || got.ID != "r1" || math.Abs(got.Reward-want.Results[0].Reward) > 5e-3 || len(got.Instances) != 3 {
		t.Fatalf("%+v, %v", got, err)
	}
	n := 0
	for event, err := range l.Events() {
		if err != nil || text[event.Utterance.Start:event.Utterance.End] != event.Utterance.Text {
			t.Errorf("%+v, %v", event, err)
		}
		n++
	}
	if n != 3 {
		t.Errorf("%d events", n)
	}
	refused, err := c.Live(t.Context(), assay.LiveOptions{Options: assay.Options{Reward: "nonsense"}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := refused.Close(); !errors.Is(err, assay.ErrInvalid) {
		t.Errorf("an unknown scale: %v", err)
	}
}
