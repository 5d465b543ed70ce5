package assay

import (
	"context"
	"encoding/json"
	"net/http"
	"strconv"
	"time"
	"unicode/utf8"
)

// The labels of a response.
const (
	LabelCompliant = "compliant"
	LabelViolation = "violation"
)

// What one request of feedback holds at most.
const (
	feedbackItems = 500
	feedbackBytes = 8 << 20
)

// FeedbackItem is the label of one rater on one whole response: an ID and one
// of Response, Messages and Instances, or the ResponseID (Result.ID) alone of a
// response that the service scored and kept.
type FeedbackItem struct {
	ID         string    `json:"id,omitzero"`
	ResponseID string    `json:"response_id,omitzero"`
	Label      string    `json:"label"`
	Prompt     string    `json:"prompt,omitzero"`
	Response   *string   `json:"response,omitzero"`
	Messages   []Message `json:"messages,omitzero"`
	Instances  []string  `json:"instances,omitzero"`
	Rater      string    `json:"rater,omitzero"` // who gave the label; the majority of raters decides
	Time       time.Time `json:"time,omitzero"`  // when; a later one of the same rater is a correction
}

// Receipt says what became of labels. What it counts is durable.
type Receipt struct {
	Accepted   int         `json:"accepted"`   // stored, corrections among them
	Duplicates int         `json:"duplicates"` // known already
	Rejected   []Rejection `json:"rejected"`
}

// Rejection is an item that was not taken.
type Rejection struct {
	Index   int    `json:"index"` // among the items of the call, from 0
	ID      string `json:"id"`
	Code    string `json:"code"` // invalid, unknown, id_conflict, erased, too_large or no_text
	Message string `json:"message"`
}

// Feedback sends labels, in as many requests as they need. Sending the same
// again is safe: it is counted as duplicates. Items that cannot be taken are in
// the receipt and the others are kept; with an error the receipt counts what
// was sent before it.
func (c *Client) Feedback(ctx context.Context, items []FeedbackItem) (Receipt, error) {
	var total Receipt
	var body []byte
	first := 0
	send := func(end int) error {
		got, err := c.sendLabels(ctx, body, first, end-first)
		total.Accepted += got.Accepted
		total.Duplicates += got.Duplicates
		total.Rejected = append(total.Rejected, got.Rejected...)
		body, first = nil, end
		return err
	}
	for i, it := range items {
		line, err := encodeLabel(it, i)
		if err != nil {
			return total, err
		}
		if i > first && (i-first == feedbackItems || len(body)+len(line) > feedbackBytes) {
			if err := send(i); err != nil {
				return total, err
			}
		}
		body = append(append(body, line...), '\n')
	}
	if len(body) == 0 {
		return total, nil
	}
	return total, send(len(items))
}

func encodeLabel(it FeedbackItem, place int) ([]byte, error) {
	texts := Item{ID: it.ID + it.ResponseID, Prompt: it.Prompt, Response: it.Response, Messages: it.Messages, Instances: it.Instances}
	for field, text := range texts.strings() {
		if !utf8.ValidString(text) {
			return nil, &InputError{place, field, "it is not valid UTF-8"}
		}
	}
	line, err := encode(it)
	if err != nil {
		return nil, &InputError{place, "time", err.Error()}
	}
	return line, nil
}

func (c *Client) sendLabels(ctx context.Context, body []byte, first, n int) (Receipt, error) {
	var receipt Receipt
	err := c.do(ctx, call{
		method: http.MethodPost, path: "/v1/feedback", media: mediaLines, body: body, first: first,
		read: into(&receipt, func(r Receipt) error {
			if r.Accepted < 0 || r.Duplicates < 0 || r.Accepted+r.Duplicates+len(r.Rejected) != n {
				return badAnswer("it accounts for %d+%d+%d labels of %d", r.Accepted, r.Duplicates, len(r.Rejected), n)
			}
			for i := range r.Rejected {
				if x := r.Rejected[i].Index; x < 0 || x >= n {
					return badAnswer("it rejects item %d of %d", x, n)
				}
			}
			return nil
		}),
	})
	for i := range receipt.Rejected {
		receipt.Rejected[i].Index += first
	}
	return receipt, err
}

// FeedbackStats are counts of responses that have a label by the majority of
// their raters.
type FeedbackStats struct {
	Bags              int       `json:"bags"`       // to train on: neither held out nor disputed
	Violations        int       `json:"violations"` // of these
	HeldOut           int       `json:"held_out"`   // never trained on: the gate judges by them; 0 without the scope admin, where Bags counts them
	HeldOutViolations int       `json:"held_out_violations"`
	Disputed          int       `json:"disputed"` // left out: the raters do not agree
	Raters            int       `json:"raters"`
	Records           int       `json:"records"` // one a response and rater
	New               NewLabels `json:"new"`
}

// NewLabels are those that came or changed since the last training.
type NewLabels struct {
	Bags       int `json:"bags"`
	Violations int `json:"violations"`
}

// FeedbackStats counts the labels that there are.
func (c *Client) FeedbackStats(ctx context.Context) (FeedbackStats, error) {
	var body struct {
		Bags *int `json:"bags"` // it is there when this is an answer at all
		FeedbackStats
	}
	err := c.do(ctx, get("/v1/feedback", func(text []byte) error {
		if err := json.Unmarshal(text, &body); err != nil {
			return &AnswerError{err}
		}
		if body.Bags == nil {
			return badAnswer("it counts no bags")
		}
		body.FeedbackStats.Bags = *body.Bags
		return nil
	}))
	return body.FeedbackStats, err
}

// Candidate is a response that somebody should label next, and why.
type Candidate struct {
	ID           string    `json:"id"` // the ResponseID of its label
	Prompt       string    `json:"prompt"`
	Response     *string   `json:"response"`
	Messages     []Message `json:"messages"`
	Instances    []string  `json:"instances"`
	Model        string    `json:"model"` // the version that scored it
	Violation    float64   `json:"violation"`
	Threshold    float64   `json:"threshold"`
	Score        float64   `json:"score"`        // what the order is by
	Uncertainty  float64   `json:"uncertainty"`  // 1 at the threshold, less the further away
	Disagreement *float64  `json:"disagreement"` // how far two versions are apart; nil when one has scored it
	Similarity   float64   `json:"similarity"`   // to the most similar candidate before it
}

// Candidates returns at most n scored responses, in [1,1000], whose label would
// teach most, the best first.
func (c *Client) Candidates(ctx context.Context, n int) ([]Candidate, error) {
	var body candidates
	err := c.do(ctx, get("/v1/feedback/candidates?n="+strconv.Itoa(n), into(&body, candidates.check)))
	return body.Candidates, err
}

type candidates struct {
	Candidates []Candidate `json:"candidates"`
}

func (c candidates) check() error {
	if c.Candidates == nil {
		return badAnswer("it has no list of candidates")
	}
	return nil
}

// EraseFeedback removes all that is kept of a response and returns how many
// records that were: 0 also when an attempt before, whose answer was lost, has
// removed them.
func (c *Client) EraseFeedback(ctx context.Context, id string) (int, error) {
	segment, err := part("id", id)
	if err != nil {
		return 0, err
	}
	var body erased
	err = c.do(ctx, call{method: http.MethodDelete, path: "/v1/feedback/" + segment, first: -1, read: into(&body, erased.check)})
	if err != nil {
		return 0, err
	}
	return *body.Records, nil
}

type erased struct {
	Records *int `json:"records"`
}

func (e erased) check() error {
	if e.Records == nil {
		return badAnswer("it does not say how many records were removed")
	}
	return nil
}
