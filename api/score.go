package api

import (
	"io"
	"net/http"

	"assay/api/internal/exchange"
	"assay/api/internal/httpjson"
	"assay/rewardmodel/wire"
)

// score serves POST /v1/score.
func score(scorer Scorer) httpjson.Handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		body, _, err := httpjson.ReadBody(w, r, httpjson.JSON)
		if err != nil {
			return err
		}
		x := exchange.Of(r)
		if err := x.Memory.Grow(wire.DecodeBytes(body)); err != nil {
			return err
		}
		request, err := wire.DecodeRequest(body, x.Limits().Scoring)
		if err != nil {
			return err
		}
		x.Responses = len(request.Responses)
		request.Priority, request.Memory = x.Priority, x.Memory
		answer, err := scorer.Score(r.Context(), request)
		if err != nil {
			return err
		}
		out, err := httpjson.Render(x.Memory, func(to io.Writer) error { return wire.WriteScoreResponse(to, answer) })
		if err != nil {
			return err
		}
		httpjson.Write(w, r, http.StatusOK, out)
		return nil
	}
}
