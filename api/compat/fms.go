package compat

import (
	"maps"
	"net/http"
	"slices"

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
	serving, err := adapter.Current(r.Context(), p.backend)
	if err != nil {
		return err
	}
	request := rewardmodel.Request{Options: rewardmodel.Options{OffsetUnit: rewardmodel.OffsetUTF8, Aspects: len(serving.Aspects) > 0}}
	for _, text := range ask.Contents {
		request.Responses = append(request.Responses, adapter.Response(text))
	}
	answer, err := adapter.Score(r.Context(), p.backend, request)
	if err != nil {
		return err
	}
	out := make([][]detection, len(answer.Results))
	for i, result := range answer.Results {
		out[i] = detections(ask.Contents[i], result, answer.Model.Version, serving.Aspects)
	}
	return httpjson.WriteJSON(w, r, http.StatusOK, out)
}

// detections returns the instances over the threshold: once for each of several
// aspects, apart from those with weight 0.
func detections(text string, result rewardmodel.Result, version string, aspects []rewardmodel.Aspect) []detection {
	out := []detection{}
	var bytes []segmenter.Span
	add := func(instance rewardmodel.Instance, violation float64, metadata map[string]any) {
		bytes = append(bytes, segmenter.Span{Start: instance.Start, End: instance.End})
		out = append(out, detection{
			Text: text[instance.Start:instance.End], Score: violation,
			Detection: labelViolation, DetectionType: labelViolation, Evidence: []struct{}{},
			Metadata: metadata,
		})
	}
	names := slices.DeleteFunc(slices.Sorted(maps.Keys(result.Aspects)), func(name string) bool {
		return slices.ContainsFunc(aspects, func(a rewardmodel.Aspect) bool { return a.Name == name && a.Weight == 0 })
	})
	for _, instance := range result.Instances {
		if len(names) == 0 && instance.Violation > result.Threshold {
			add(instance, instance.Violation, map[string]any{"model_version": version, "threshold": result.Threshold})
		}
		for _, name := range names {
			if violation, threshold := instance.Aspects[name], result.Aspects[name].Threshold; violation > threshold {
				add(instance, violation, map[string]any{"model_version": version, "threshold": threshold, "aspect": name})
			}
		}
	}
	for i, span := range rewardmodel.OffsetCodepoint.Convert(text, bytes) {
		out[i].Start, out[i].End = span.Start, span.End
	}
	return out
}
