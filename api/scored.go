package api

import (
	"net/http"
	"time"

	"assay/api/internal/httpjson"
	"assay/rewardmodel/recent"
)

const (
	// scoredInterval is the time between two messages of a stream of scored responses:
	// many responses per message cost the service less than a message each, and nobody
	// can see more.
	scoredInterval = 250 * time.Millisecond
	// scoredBatch and scoredBytes bound a message: the number of responses, and about
	// how many bytes of text they have. A larger one would block the page that shows it.
	scoredBatch = 500
	scoredBytes = 256 << 10
	// scoredMessage names the messages.
	scoredMessage = "scored"
)

// scoredBody describes responses that were scored.
type scoredBody struct {
	Responses []*recent.Response `json:"responses"` // the oldest first; never nil
	Scored    uint64             `json:"scored"`    // responses that this process has scored
	Skipped   uint64             `json:"skipped"`   // of these, those that were not recorded
	Texts     bool               `json:"texts"`     // texts are recorded
}

// scoredEndpoints serve /v1/scored.
type scoredEndpoints struct {
	held    ScoredResponses
	streams eventStreams
}

// serve responds with the stream of scored responses, or with the last ones if the
// client accepts JSON.
func (e scoredEndpoints) serve(w http.ResponseWriter, r *http.Request) error {
	after, given, err := afterOf(r)
	if err != nil {
		return err
	}
	if wantsJSON(r.Header.Values("Accept")) {
		n, err := countParam(r, "n", 1, defaultScored)
		if err != nil {
			return err
		}
		last, _, _ := e.held.After(max(after, e.held.Before(n)), n)
		return httpjson.WriteJSON(w, r, http.StatusOK, e.body(last))
	}
	n, err := countParam(r, "n", 0, maxListed)
	if err != nil {
		return err
	}
	if !given && r.URL.Query().Has("n") {
		after = e.held.Before(n)
	}
	return e.streams.serve(w, r, &scoredFeed{scoredEndpoints: e, after: after})
}

func (e scoredEndpoints) body(responses []*recent.Response) scoredBody {
	body := scoredBody{Responses: responses, Texts: e.held.KeepsTexts()}
	if responses == nil {
		body.Responses = []*recent.Response{}
	}
	body.Scored, body.Skipped = e.held.Counts()
	return body
}

// scoredFeed feeds scored responses to one client.
type scoredFeed struct {
	scoredEndpoints
	after uint64
	more  bool // the last message was full
	sent  time.Time
}

// next implements feed. It returns a message at most every scoredInterval, unless the
// client is behind.
func (f *scoredFeed) next() ([]message, <-chan struct{}, error) {
	if wait := time.Until(f.sent.Add(scoredInterval)); wait > 0 && !f.more {
		due := make(chan struct{})
		time.AfterFunc(wait, func() { close(due) })
		return nil, due, nil
	}
	for {
		responses, after, changed := f.held.After(f.after, scoredBatch)
		if changed != nil {
			return nil, changed, nil
		}
		f.after, f.more = after, len(responses) == scoredBatch
		if n := fitting(responses); n < len(responses) {
			responses, f.after, f.more = responses[:n], responses[n-1].Sequence, true
		}
		if len(responses) > 0 { // otherwise all of them were erased
			f.sent = time.Now()
			return []message{{id: f.after, kind: scoredMessage, body: f.body(responses)}}, nil, nil
		}
	}
}

// fitting is how many of the responses fit into a message, at least one.
func fitting(responses []*recent.Response) int {
	bytes := 0
	for i, r := range responses {
		if bytes += len(r.Prompt) + len(r.Response) + len(r.Witness); bytes > scoredBytes && i > 0 {
			return i
		}
	}
	return len(responses)
}
