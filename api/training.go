package api

import (
	"errors"
	"net/http"
	"time"

	"assay/api/access"
	"assay/api/internal/exchange"
	"assay/api/internal/failure"
	"assay/api/internal/httpjson"
	"assay/rewardmodel/retrain"
)

// trainingEndpoints serve /v1/training.
type trainingEndpoints struct {
	trainer    Trainer
	authorizer access.Authorizer
	cache      *fleetCache
}

func (e trainingEndpoints) show(w http.ResponseWriter, r *http.Request) error {
	training, err := readCached(w, r, &e.cache.training, e.trainer.Training)
	if err != nil {
		return err
	}
	if training.Phase == "" {
		training.Phase = retrain.PhaseIdle
	}
	if !e.authorizer.IsAdmin(r) {
		training = trainingWithoutSplit(training)
	}
	return httpjson.WriteJSON(w, r, http.StatusOK, training)
}

func (e trainingEndpoints) start(w http.ResponseWriter, r *http.Request) error {
	var body struct {
		Reason   string `json:"reason"`
		Refreeze bool   `json:"refreeze"`
	}
	if err := readOptional(w, r, &body, `{"reason":"...","refreeze":false}`); err != nil {
		return err
	}
	if err := checkReason(body.Reason); err != nil {
		return err
	}
	request := retrain.TrainingRequest{By: exchange.Of(r).Caller, Reason: body.Reason, Refreeze: body.Refreeze, Time: time.Now().UTC()}
	status, err := e.trainer.Start(r.Context(), request)
	if err != nil {
		return err
	}
	return httpjson.WriteChange(w, r, http.StatusAccepted, status)
}

func (e trainingEndpoints) stop(w http.ResponseWriter, r *http.Request) error {
	var body struct {
		ID     string `json:"id"`
		Reason string `json:"reason"`
	}
	if err := readOptional(w, r, &body, `{"id":"...","reason":"..."}`); err != nil {
		return err
	}
	if err := checkReason(body.Reason); err != nil {
		return err
	}
	exchange.Of(r).Subject = body.ID
	by := retrain.Cancellation{By: exchange.Of(r).Caller, Reason: body.Reason, Time: time.Now().UTC()}
	status, err := e.trainer.Stop(r.Context(), body.ID, by)
	if errors.Is(err, retrain.ErrNoTraining) {
		return failure.NotFound("%v; GET /v1/training shows the status", err)
	}
	if err != nil {
		return err
	}
	return httpjson.WriteChange(w, r, http.StatusAccepted, status)
}
