package assay

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
	"time"
	"unicode/utf8"
)

// Labels of a response.
const (
	LabelCompliant = "compliant"
	LabelViolation = "violation"
)

// Limits of one feedback request.
const (
	maxFeedbackItems = 500
	maxFeedbackBytes = 8 << 20
)

// FeedbackItem is one rater's label for one whole response: an ID and one of
// Response, Messages and Instances, or only the ResponseID (Result.ID) of a
// response that the service scored and retained.
type FeedbackItem struct {
	ID         string            `json:"id,omitzero"`
	ResponseID string            `json:"response_id,omitzero"`
	Label      string            `json:"label,omitzero"`  // of the response as a whole; "" with Labels only
	Labels     map[string]string `json:"labels,omitzero"` // of aspects by name; the others are unlabeled
	Prompt     string            `json:"prompt,omitzero"`
	Response   *string           `json:"response,omitzero"`
	Messages   []Message         `json:"messages,omitzero"`
	Instances  []string          `json:"instances,omitzero"`
	Rater      string            `json:"rater,omitzero"` // the label of a response is the majority of its raters
	Time       time.Time         `json:"time,omitzero"`  // a later label of the same rater is a correction
}

// Receipt is the outcome of sending labels. Accepted labels are durable.
type Receipt struct {
	Accepted   int         `json:"accepted"`   // stored, including corrections
	Duplicates int         `json:"duplicates"` // already stored
	Rejected   []Rejection `json:"rejected"`
}

// Rejection is an item that the service rejected.
type Rejection struct {
	Index   int    `json:"index"` // in the caller's input
	ID      string `json:"id"`
	Code    string `json:"code"` // invalid, unknown, id_conflict, erased, too_large or no_text
	Message string `json:"message"`
}

// Feedback sends labels in as many requests as necessary. Resending labels is
// safe: they count as duplicates. The receipt lists the rejected items; the
// service stored all others. On error, the receipt covers the requests before it.
func (c *Client) Feedback(ctx context.Context, items []FeedbackItem) (Receipt, error) {
	var total Receipt
	var lines [][]byte
	first, size := 0, 0
	send := func() error {
		got, err := c.sendLabels(ctx, lines, first)
		total.add(got)
		first += len(lines)
		lines, size = nil, 0
		return err
	}
	for i, it := range items {
		line, err := encodeLabel(it, i)
		if err != nil {
			return total, err
		}
		if len(lines) > 0 && (len(lines) == maxFeedbackItems || size+len(line) > maxFeedbackBytes) {
			if err := send(); err != nil {
				return total, err
			}
		}
		lines = append(lines, append(line, '\n'))
		size += len(line) + 1
	}
	if len(lines) == 0 {
		return total, nil
	}
	return total, send()
}

func (r *Receipt) add(other Receipt) {
	r.Accepted += other.Accepted
	r.Duplicates += other.Duplicates
	r.Rejected = append(r.Rejected, other.Rejected...)
}

func encodeLabel(it FeedbackItem, index int) ([]byte, error) {
	texts := Item{ID: it.ID + it.ResponseID, Prompt: it.Prompt, Response: it.Response, Messages: it.Messages, Instances: it.Instances}
	for field, text := range texts.strings() {
		if !utf8.ValidString(text) {
			return nil, &InputError{index, field, "invalid UTF-8"}
		}
	}
	line, err := encode(it)
	if err != nil {
		return nil, &InputError{index, "time", err.Error()}
	}
	return line, nil
}

// sendLabels splits labels that are too large for one request into halves. first is
// the index of the first one in the caller's input.
func (c *Client) sendLabels(ctx context.Context, lines [][]byte, first int) (Receipt, error) {
	receipt, err := c.sendLabelsOnce(ctx, lines, first)
	if !tooLarge(err, first, len(lines)) || len(lines) == 1 {
		return receipt, err
	}
	middle := len(lines) / 2
	receipt, err = c.sendLabels(ctx, lines[:middle], first)
	if err != nil {
		return receipt, err
	}
	right, err := c.sendLabels(ctx, lines[middle:], first+middle)
	receipt.add(right)
	return receipt, err
}

func (c *Client) sendLabelsOnce(ctx context.Context, lines [][]byte, first int) (Receipt, error) {
	var receipt Receipt
	n := len(lines)
	err := c.do(ctx, call{
		method: http.MethodPost, path: "/v1/feedback", media: mediaNDJSON, body: bytes.Join(lines, nil), first: first,
		parse: into(&receipt, func(r Receipt) error {
			if r.Accepted < 0 || r.Duplicates < 0 || r.Accepted+r.Duplicates+len(r.Rejected) != n {
				return invalidResponse("%d accepted, %d duplicate and %d rejected labels do not add up to %d", r.Accepted, r.Duplicates, len(r.Rejected), n)
			}
			for i := range r.Rejected {
				if x := r.Rejected[i].Index; x < 0 || x >= n {
					return invalidResponse("rejected item %d of %d", x, n)
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

// FeedbackStats counts the responses with a label, which is the majority of their
// raters.
type FeedbackStats struct {
	Bags              int `json:"bags"`       // for training: neither held out nor omitted
	Violations        int `json:"violations"` // of these
	HeldOut           int `json:"held_out"`   // for evaluation only; 0 without the scope admin, where Bags includes them
	HeldOutViolations int `json:"held_out_violations"`
	// OverShare are excluded because no sender may have more than --max-sender-share of
	// a label; 0 without the scope admin, where Bags includes them.
	OverShare           int       `json:"over_share"`
	OverShareViolations int       `json:"over_share_violations"` // of these
	Disputed            int       `json:"disputed"`              // excluded: the raters disagree
	Raters              int       `json:"raters"`
	Records             int       `json:"records"` // one per response and rater
	New                 NewLabels `json:"new"`
	// Aspects counts the labels of each aspect by name: those of a model with several,
	// and others that labels name.
	Aspects map[string]AspectStats `json:"aspects"`
}

// AspectStats counts the responses with a label of one aspect; its fields are as in
// FeedbackStats.
type AspectStats struct {
	Bags                int       `json:"bags"`
	Violations          int       `json:"violations"`
	HeldOut             int       `json:"held_out"`
	HeldOutViolations   int       `json:"held_out_violations"`
	OverShare           int       `json:"over_share"`
	OverShareViolations int       `json:"over_share_violations"`
	Disputed            int       `json:"disputed"`
	New                 NewLabels `json:"new"`
	Unknown             bool      `json:"unknown"` // the model has no such aspect: its labels are not used
}

// NewLabels counts labels added or changed since the last training run.
type NewLabels struct {
	Bags       int `json:"bags"`
	Violations int `json:"violations"`
}

// FeedbackStats returns counts of the stored labels.
func (c *Client) FeedbackStats(ctx context.Context) (FeedbackStats, error) {
	var body struct {
		Bags *int `json:"bags"` // distinguishes a missing field from 0
		FeedbackStats
	}
	err := c.do(ctx, get("/v1/feedback", func(text []byte) error {
		if err := json.Unmarshal(text, &body); err != nil {
			return &InvalidResponseError{err}
		}
		if body.Bags == nil {
			return invalidResponse("field bags is missing")
		}
		body.FeedbackStats.Bags = *body.Bags
		return nil
	}))
	return body.FeedbackStats, err
}

// Candidate is a response worth labeling next.
type Candidate struct {
	ID           string    `json:"id"` // the ResponseID of its label
	Prompt       string    `json:"prompt"`
	Response     *string   `json:"response"`
	Messages     []Message `json:"messages"`
	Instances    []string  `json:"instances"`
	Model        string    `json:"model"`  // the version that scored it
	Aspect       string    `json:"aspect"` // of Violation and Threshold, to judge first; "": the model has one rule
	Violation    float64   `json:"violation"`
	Threshold    float64   `json:"threshold"`
	Reason       string    `json:"reason"`       // uncertain, disagree or random
	Score        float64   `json:"score"`        // sort key
	Uncertainty  float64   `json:"uncertainty"`  // 1 at the threshold, decreasing with the distance from it
	Disagreement *float64  `json:"disagreement"` // difference between the scores of two versions; nil if only one has scored it
	Similarity   float64   `json:"similarity"`   // to the most similar preceding candidate
}

// Candidates returns up to n scored responses, n in [1,1000], whose labels are the
// most informative, best first.
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
		return invalidResponse("field candidates is missing")
	}
	return nil
}

// EraseFeedback erases all stored data of a response and returns the number of
// records removed. The number is 0 if an earlier attempt, whose response was lost,
// has removed them.
func (c *Client) EraseFeedback(ctx context.Context, id string) (int, error) {
	segment, err := pathSegment("id", id)
	if err != nil {
		return 0, err
	}
	var body erasure
	err = c.do(ctx, call{method: http.MethodDelete, path: "/v1/feedback/" + segment, first: -1, parse: into(&body, erasure.check)})
	if err != nil {
		return 0, err
	}
	return *body.Records, nil
}

// ResponseLabels are the labels of a response that are in force.
type ResponseLabels struct {
	ID       string       `json:"id"`
	Label    string       `json:"label"`    // of the majority; "" if there is none
	Disputed bool         `json:"disputed"` // the raters disagree: nothing is learned from the response
	Raters   int          `json:"raters"`   // whose labels count
	Labels   []RaterLabel `json:"labels"`   // oldest first, at most 1000
}

// RaterLabel is the label of one rater for a response.
type RaterLabel struct {
	Rater    string            `json:"rater"`
	Label    string            `json:"label"`  // of the whole response; "" if only aspects have labels
	Labels   map[string]string `json:"labels"` // of aspects by name
	Time     time.Time         `json:"time"`   // when the rater set it; zero if unknown
	Received time.Time         `json:"received"`
	Sequence uint64            `json:"sequence"` // a training run with at least this TrainingStatus.Through has read it
}

func (l ResponseLabels) check() error {
	if l.Labels == nil {
		return invalidResponse("field labels is missing")
	}
	return nil
}

// ResponseLabels returns the labels of a response by rater, none if it is unknown.
func (c *Client) ResponseLabels(ctx context.Context, id string) (ResponseLabels, error) {
	segment, err := pathSegment("id", id)
	if err != nil {
		return ResponseLabels{}, err
	}
	var labels ResponseLabels
	err = c.do(ctx, get("/v1/feedback/"+segment+"/labels", into(&labels, ResponseLabels.check)))
	return labels, err
}

// WithdrawLabel withdraws the label of one rater for a response; "" is the label
// without a rater. It returns the number of withdrawn labels, 0 or 1. The number is 0
// if an earlier attempt, whose response was lost, has withdrawn it.
func (c *Client) WithdrawLabel(ctx context.Context, id, rater string) (int, error) {
	segment, err := pathSegment("id", id)
	if err != nil {
		return 0, err
	}
	var body erasure
	path := "/v1/feedback/" + segment + "/labels?rater=" + url.QueryEscape(rater)
	err = c.do(ctx, call{method: http.MethodDelete, path: path, first: -1, parse: into(&body, erasure.check)})
	if err != nil {
		return 0, err
	}
	return *body.Records, nil
}

type erasure struct {
	Records *int `json:"records"`
}

func (e erasure) check() error {
	if e.Records == nil {
		return invalidResponse("field records is missing")
	}
	return nil
}
