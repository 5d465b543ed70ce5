package api

import (
	"net/http"
	"time"

	"assay/rewardmodel/retrain"
)

func (s *Server) showTraining(w http.ResponseWriter, r *http.Request) error {
	training, err := readOr(w, r, &s.known.training, s.parts.Trainings.Training)
	if err != nil {
		return err
	}
	if training.Phase == "" {
		training.Phase = retrain.PhaseIdle
	}
	return s.writeJSON(w, r, http.StatusOK, s.visibleTraining(r, training))
}

func (s *Server) startTraining(w http.ResponseWriter, r *http.Request) error {
	var body struct {
		Reason   string `json:"reason"`
		Refreeze bool   `json:"refreeze"`
	}
	if err := s.readOptional(w, r, &body, `{"reason":"...","refreeze":false}`); err != nil {
		return err
	}
	if err := checkReason(body.Reason); err != nil {
		return err
	}
	ask := retrain.Ask{By: exchangeOf(r).by, Reason: body.Reason, Refreeze: body.Refreeze, Time: time.Now().UTC()}
	status, err := s.parts.Trainings.Start(r.Context(), ask)
	if err != nil {
		return err
	}
	return s.writeJSON(w, r, http.StatusAccepted, status)
}
