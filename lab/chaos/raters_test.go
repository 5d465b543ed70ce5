package chaos_test

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"time"

	"github.com/go-json-experiment/json"

	"assay/rewardmodel/bag"
	"assay/rewardmodel/feedback"
)

// rater sends, corrects, withdraws and erases labels of its own responses. It repeats each request until it is
// acknowledged, so what is in force is known.
type rater struct {
	clients *clients
	name    string
	ids     []string
	n       int
	sent    []batch // the last ones
}

// batch is an acknowledged request with labels.
type batch struct {
	items []labeledItem
	body  []byte
}

// act sends one request.
func (r *rater) act(rng *rand.Rand) {
	switch {
	case len(r.ids) > 5 && rng.IntN(8) == 0:
		r.withdraw(rng)
	case len(r.ids) > 20 && rng.IntN(40) == 0:
		r.erase(rng)
	case len(r.sent) > 0 && r.clients.resends && rng.IntN(12) == 0:
		r.again(rng)
	default:
		r.label(rng)
	}
}

// labeledItem is an item of a batch.
type labeledItem struct {
	ID       string    `json:"id"`
	Rater    string    `json:"rater"`
	Label    bag.Label `json:"label"`
	Response string    `json:"response"`
	Time     time.Time `json:"time"`
}

// label sends new labels, corrections, and second raters.
func (r *rater) label(rng *rand.Rand) {
	var items []labeledItem
	known := map[labelKey]bool{}
	for range 1 + rng.IntN(20) {
		id := fmt.Sprintf("%s-%d", r.name, r.n)
		if len(r.ids) > 0 && rng.IntN(4) == 0 {
			id = r.ids[rng.IntN(len(r.ids))]
		} else {
			r.ids = append(r.ids, id)
			r.n++
		}
		item := labeledItem{ID: id, Rater: r.name + []string{"", "-second"}[rng.IntN(2)], Label: bag.Compliant, Response: textOf(id), Time: time.Now()}
		if rng.IntN(2) == 0 {
			item.Label = bag.Violation
		}
		if key := (labelKey{id, item.Rater}); !known[key] {
			known[key] = true
			items = append(items, item)
		}
	}
	body, err := json.Marshal(map[string]any{"items": items})
	if err != nil {
		r.clients.history.violate("%v", err)
		return
	}
	var receipt feedback.Receipt
	if err := r.request(rng, http.MethodPost, "/v1/feedback", body, http.StatusAccepted, &receipt); err != nil {
		r.clients.unacknowledged("labels were never acknowledged: %v", err)
		return
	}
	if len(receipt.Rejected) > 0 || receipt.Accepted+receipt.Duplicates != len(items) {
		r.clients.history.violate("%d labels: receipt %+v", len(items), receipt)
		return
	}
	for _, item := range items {
		r.clients.history.labeled(labelKey{item.ID, item.Rater}, labelState{item.Label, item.Response})
	}
	r.sent = append(r.sent[max(0, len(r.sent)-maxAgain):], batch{items, body})
	r.clients.history.count("labels acknowledged", len(items))
}

// again sends earlier labels again, as a delayed copy of their request: none of them may count, whatever replaced them. One
// of an id that was erased may be accepted for a moment, and is then removed.
func (r *rater) again(rng *rand.Rand) {
	of := r.sent[rng.IntN(len(r.sent))]
	var receipt feedback.Receipt
	if err := r.request(rng, http.MethodPost, "/v1/feedback", of.body, http.StatusAccepted, &receipt); err != nil {
		r.clients.unacknowledged("labels that were sent again were never acknowledged: %v", err)
		return
	}
	r.clients.history.count("labels sent again", len(of.items))
	erased := 0
	for _, item := range of.items {
		if !slices.Contains(r.ids, item.ID) {
			erased++
		}
	}
	if duplicates := len(of.items) - erased; receipt.Duplicates < duplicates {
		r.clients.history.lost(lostLabel(labelKey{of.items[0].ID, of.items[0].Rater}),
			"%d of its request were sent again, %d of them erased, and the receipt is %+v", len(of.items), erased, receipt)
	}
}

// textOf is the response with an id.
func textOf(id string) string { return "The response " + id + " is about trains. Have a good trip." }

// pick removes one of the ids, which is not used again.
func (r *rater) pick(rng *rand.Rand) string {
	i := rng.IntN(len(r.ids))
	id := r.ids[i]
	r.ids[i] = r.ids[len(r.ids)-1]
	r.ids = r.ids[:len(r.ids)-1]
	return id
}

func (r *rater) withdraw(rng *rand.Rand) {
	id := r.ids[rng.IntN(len(r.ids))]
	key, attempts := labelKey{id, r.name}, 0
	var found struct {
		Records int `json:"records"`
	}
	err := r.clients.until(func() error {
		attempts++
		return r.try(rng, http.MethodDelete, "/v1/feedback/"+id+"/labels?rater="+r.name, nil, http.StatusOK, &found)
	})
	if err != nil {
		r.clients.unacknowledged("withdrawal of %s was never acknowledged: %v", id, err)
		return
	}
	// An earlier attempt without a reply may have withdrawn it.
	if state, since := r.clients.history.label(key); found.Records == 0 && attempts == 1 && state.label != "" {
		r.clients.history.lost(lostLabel(key), "its withdrawal found none; it was acknowledged at %v", since)
	}
	r.clients.history.labeled(key, labelState{})
	r.clients.history.count("labels withdrawn", 1)
}

func (r *rater) erase(rng *rand.Rand) {
	id := r.pick(rng)
	if err := r.request(rng, http.MethodDelete, "/v1/feedback/"+id, nil, http.StatusOK, nil); err != nil {
		r.clients.unacknowledged("erasure of %s was never acknowledged: %v", id, err)
		return
	}
	for _, by := range []string{r.name, r.name + "-second"} {
		r.clients.history.labeled(labelKey{id, by}, labelState{})
	}
	r.clients.history.count("responses erased", 1)
}

// request repeats a request until it succeeds.
func (r *rater) request(rng *rand.Rand, method, path string, body []byte, want int, into any) error {
	return r.clients.until(func() error { return r.try(rng, method, path, body, want, into) })
}

// try sends a request once.
func (r *rater) try(rng *rand.Rand, method, path string, body []byte, want int, into any) error {
	status, _, reply, err := r.clients.call(rng, method, path, body)
	switch {
	case err != nil:
		return err
	case status != want:
		r.clients.history.count("labels refused for a while", 1)
		return fmt.Errorf("%d: %.300s", status, reply)
	case into == nil:
		return nil
	}
	return json.Unmarshal(reply, into)
}
