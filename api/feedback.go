package api

import (
	"net/http"

	"assay/api/access"
	"assay/api/internal/exchange"
	"assay/api/internal/failure"
	"assay/api/internal/httpjson"
	"assay/rewardmodel/feedback"
)

// feedbackEndpoints serve /v1/feedback.
type feedbackEndpoints struct {
	feedback   Feedback
	view       FeedbackView
	limits     feedback.Limits
	authorizer access.Authorizer
	checks     *readiness
	cache      *fleetCache
}

// add responds 202 once the items that the receipt counts as accepted are durable,
// also when none are: the receipt has the reason for each rejected item.
func (e feedbackEndpoints) add(w http.ResponseWriter, r *http.Request) error {
	body, kind, err := httpjson.ReadBody(w, r, httpjson.JSON, httpjson.NDJSON)
	if err != nil {
		return err
	}
	x := exchange.Of(r)
	if err := x.Memory.Grow(feedback.DecodeBytes(body)); err != nil {
		return err
	}
	decode := feedback.Decode
	if kind == httpjson.NDJSON {
		decode = feedback.DecodeLines
	}
	batch, err := decode(body, e.limits)
	if err != nil {
		return err
	}
	x.Items = len(batch.Items) + len(batch.Rejected)
	if err := x.Quota.Label(len(batch.Items)); err != nil {
		return err
	}
	receipt, err := e.feedback.Append(r.Context(), batch, x.Caller)
	if err != nil {
		e.refund(x, len(batch.Items), err)
		return err
	}
	if receipt.Rejected == nil {
		receipt.Rejected = []feedback.Rejection{}
	}
	return httpjson.WriteChange(w, r, http.StatusAccepted, receipt)
}

// refund gives back the labels of a request that the caller is asked to send again.
func (e feedbackEndpoints) refund(x *exchange.Exchange, labels int, err error) {
	if x.Failure(err).Status() == http.StatusServiceUnavailable {
		x.Quota.RefundLabels(labels)
	}
}

func (e feedbackEndpoints) erase(w http.ResponseWriter, r *http.Request) error {
	id, err := httpjson.PathValue(r, "id")
	if err != nil {
		return err
	}
	exchange.Of(r).Subject = id
	records, err := e.feedback.Erase(r.Context(), id, exchange.Of(r).Caller)
	if err != nil {
		return err
	}
	return httpjson.WriteChange(w, r, http.StatusOK, map[string]any{"id": id, "records": records})
}

func (e feedbackEndpoints) withdraw(w http.ResponseWriter, r *http.Request) error {
	id, err := httpjson.PathValue(r, "id")
	if err != nil {
		return err
	}
	x := exchange.Of(r)
	x.Subject = id
	query := r.URL.Query()
	if !query.Has("rater") {
		return failure.Invalid("rater", "is missing; give the name of the rater, or an empty one for the label without a rater")
	}
	rater := query.Get("rater")
	x.Rater = rater
	if err := x.Quota.Label(1); err != nil {
		return err
	}
	records, err := e.feedback.Withdraw(r.Context(), id, rater, x.Caller)
	if err != nil {
		e.refund(x, 1, err)
		return err
	}
	return httpjson.WriteChange(w, r, http.StatusOK, map[string]any{"id": id, "records": records})
}

func (e feedbackEndpoints) labels(w http.ResponseWriter, r *http.Request) error {
	id, err := httpjson.PathValue(r, "id")
	if err != nil {
		return err
	}
	given, err := e.view.Labels(r.Context(), id)
	if err != nil {
		return err
	}
	return httpjson.WriteJSON(w, r, http.StatusOK, given)
}

func (e feedbackEndpoints) stats(w http.ResponseWriter, r *http.Request) error {
	stats, err := readCached(w, r, &e.cache.stats, e.view.Stats)
	if err != nil {
		return err
	}
	if !e.authorizer.IsAdmin(r) {
		stats = withoutSplit(stats)
	}
	return httpjson.WriteJSON(w, r, http.StatusOK, stats)
}

func (e feedbackEndpoints) candidates(w http.ResponseWriter, r *http.Request) error {
	n, err := countParam(r, "n", 1, defaultCandidates)
	if err != nil {
		return err
	}
	// Ranking takes long, so what it depends on is checked first.
	if err := e.checks.get(e.checks.names()...).err; err != nil {
		return err
	}
	candidates, err := e.view.Candidates(r.Context(), n)
	if err != nil {
		return err
	}
	if candidates == nil {
		candidates = []feedback.Candidate{}
	}
	return httpjson.WriteJSON(w, r, http.StatusOK, map[string]any{"candidates": candidates})
}
