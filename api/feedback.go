package api

import (
	"net/http"
	"net/url"
	"strconv"

	"github.com/go-chi/chi/v5"

	"assay/rewardmodel/feedback"
)

// addFeedback answers 202 once what the receipt counts as accepted is durable,
// also when that is nothing: the receipt says so of each item.
func (s *Server) addFeedback(w http.ResponseWriter, r *http.Request) error {
	body, kind, err := s.readBody(w, r, mediaJSON, mediaLines)
	if err != nil {
		return err
	}
	x := exchangeOf(r)
	if err := x.memory.Grow(feedback.DecodeBytes(body)); err != nil {
		return err
	}
	decode := feedback.Decode
	if kind == mediaLines {
		decode = feedback.DecodeLines
	}
	batch, err := decode(body, s.cfg.FeedbackLimits)
	if err != nil {
		return err
	}
	x.items = len(batch.Items) + len(batch.Rejected)
	receipt, err := s.parts.Feedback.Append(r.Context(), batch, x.by)
	if err != nil {
		return err
	}
	if receipt.Rejected == nil {
		receipt.Rejected = []feedback.Rejection{}
	}
	return s.writeJSON(w, r, http.StatusAccepted, receipt)
}

func (s *Server) eraseFeedback(w http.ResponseWriter, r *http.Request) error {
	id, err := pathValue(r, "id")
	if err != nil {
		return err
	}
	records, err := s.parts.Feedback.Erase(r.Context(), id, exchangeOf(r).by)
	if err != nil {
		return err
	}
	return s.writeJSON(w, r, http.StatusOK, map[string]any{"id": id, "records": records})
}

func (s *Server) showFeedback(w http.ResponseWriter, r *http.Request) error {
	stats, err := readOr(w, r, &s.known.stats, s.parts.FeedbackView.Stats)
	if err != nil {
		return err
	}
	return s.writeJSON(w, r, http.StatusOK, s.visibleStats(r, stats))
}

// The numbers of candidates and events that a client may ask for.
const (
	mostListed        = 1000
	defaultCandidates = 20
	defaultEvents     = 100
)

func (s *Server) listCandidates(w http.ResponseWriter, r *http.Request) error {
	n, err := count(r, "n", 1, defaultCandidates)
	if err != nil {
		return err
	}
	// Ranking them takes its time. So what it needs is looked at first.
	if err := s.checks.get(s.checks.names()...).err; err != nil {
		return err
	}
	candidates, err := s.parts.FeedbackView.Candidates(r.Context(), n)
	if err != nil {
		return err
	}
	if candidates == nil {
		candidates = []feedback.Candidate{}
	}
	return s.writeJSON(w, r, http.StatusOK, map[string]any{"candidates": candidates})
}

// count reads how many things a query asks for: from least to mostListed.
func count(r *http.Request, name string, least, absent int) (int, error) {
	given := r.URL.Query().Get(name)
	if given == "" {
		return absent, nil
	}
	n, err := strconv.Atoi(given)
	if err != nil || n < least || n > mostListed {
		return 0, errInvalid(name, "%.50q is not a number from %d to %d", given, least, mostListed)
	}
	return n, nil
}

// pathValue is a part of the path as the client meant it. The router sees the
// path as it was sent, when that has escapes which decoding would lose.
func pathValue(r *http.Request, name string) (string, error) {
	value := chi.URLParam(r, name)
	if r.URL.RawPath == "" {
		return value, nil
	}
	plain, err := url.PathUnescape(value)
	if err != nil {
		return "", errInvalid(name, "is not escaped as a part of a path: %v", err)
	}
	return plain, nil
}
