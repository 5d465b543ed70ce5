package api

import (
	"net/http"

	"assay/rewardmodel"
	"assay/segmenter"
)

// detector adds the text contents detector of FMS Guardrails. The header
// detector-id and the parameters are accepted whatever they say: there is one
// detector, and its threshold is the model's.
func (s *Server) detector(a adapters) {
	a.post("/api/v1/text/contents", "FMS Guardrails detector: the spans over the threshold", fmsFailure, s.detect)
}

// fmsFailure is {"code","message"}.
func fmsFailure(f failure) (int, any) {
	return f.status, map[string]any{"code": f.status, "message": f.text()}
}

// detection is an instance over the threshold. Its offsets are code points of
// the content, whatever the service's other endpoints count.
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

func (s *Server) detect(w http.ResponseWriter, r *http.Request) error {
	var ask struct {
		Contents oneOrMany `json:"contents"`
	}
	if err := s.readForeign(w, r, &ask); err != nil {
		return err
	}
	if len(ask.Contents) == 0 {
		return &rewardmodel.InputError{Kind: rewardmodel.KindUnprocessable, Field: "contents", Message: "is missing or empty; send at least one text"}
	}
	request := rewardmodel.Request{Options: rewardmodel.Options{OffsetUnit: rewardmodel.OffsetUTF8}}
	for _, text := range ask.Contents {
		request.Responses = append(request.Responses, response(text))
	}
	answer, err := s.rate(r.Context(), request)
	if err != nil {
		return err
	}
	out := make([][]detection, len(answer.Results))
	for i, result := range answer.Results {
		out[i] = detections(ask.Contents[i], result, answer.Model.Version)
	}
	return s.writeJSON(w, r, http.StatusOK, out)
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
