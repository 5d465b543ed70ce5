package compat

import (
	"net/http"

	"assay/api/internal/adapter"
	"assay/api/internal/failure"
	"assay/api/internal/httpjson"
	"assay/rewardmodel"
	"assay/segmenter"
)

// fms serves the text contents detector of FMS Guardrails. Any header detector-id
// and any parameters are accepted: there is one detector, with the threshold of
// the model.
type fms struct{ backend adapter.Backend }

func (p fms) routes() []httpjson.Route {
	return []httpjson.Route{
		httpjson.Post("/api/v1/text/contents", "FMS Guardrails detector: the spans over the threshold", fmsFailure, p.detect),
	}
}

// fmsFailure is {"code","message"}.
func fmsFailure(f failure.Failure) (int, any) {
	return f.Status(), map[string]any{"code": f.Status(), "message": f.Text()}
}

// detection is an instance over the threshold. Its offsets count the code points
// of the content, whatever the offset unit of other endpoints is.
type detection struct {
	Start         int            `json:"start"`
	End           int            `json:"end"`
	Text          string         `json:"text"`
	Detection     string         `json:"detection"`
	DetectionType string         `json:"detection_type"`
	Score         float64        `json:"score"`
	Evidence      []struct{}     `json:"evidence"`
	Metadata      map[string]any `json:"metadata"`
}

func (p fms) detect(w http.ResponseWriter, r *http.Request) error {
	var ask struct {
		Contents adapter.Texts `json:"contents"`
	}
	if err := adapter.Read(w, r, &ask); err != nil {
		return err
	}
	if len(ask.Contents) == 0 {
		return &rewardmodel.InputError{Kind: rewardmodel.KindUnprocessable, Field: "contents", Message: "is missing or empty; send at least one text"}
	}
	request := rewardmodel.Request{Options: rewardmodel.Options{OffsetUnit: rewardmodel.OffsetUTF8}}
	for _, text := range ask.Contents {
		request.Responses = append(request.Responses, adapter.Response(text))
	}
	answer, err := adapter.Score(r.Context(), p.backend, request)
	if err != nil {
		return err
	}
	out := make([][]detection, len(answer.Results))
	for i, result := range answer.Results {
		out[i] = detections(ask.Contents[i], result, answer.Model.Version)
	}
	return httpjson.WriteJSON(w, r, http.StatusOK, out)
}

func detections(text string, result rewardmodel.Result, version string) []detection {
	out := []detection{}
	metadata := map[string]any{"model_version": version, "threshold": result.Threshold}
	var bytes []segmenter.Span
	for _, instance := range result.Instances {
		if instance.Violation <= result.Threshold {
			continue
		}
		bytes = append(bytes, segmenter.Span{Start: instance.Start, End: instance.End})
		out = append(out, detection{
			Text: text[instance.Start:instance.End], Score: instance.Violation,
			Detection: labelViolation, DetectionType: labelViolation, Evidence: []struct{}{},
			Metadata: metadata,
		})
	}
	for i, span := range rewardmodel.OffsetCodepoint.Convert(text, bytes) {
		out[i].Start, out[i].End = span.Start, span.End
	}
	return out
}
