package compat

import (
	"maps"
	"net/http"
	"slices"

	"assay/api/internal/adapter"
	"assay/api/internal/exchange"
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
		if out[i], err = detections(exchange.Of(r).Memory, ask.Contents[i], result, rulesOf(result, answer.Model.Version, serving.Aspects)); err != nil {
			return err
		}
	}
	return httpjson.WriteJSON(w, r, http.StatusOK, out)
}

// rule is what the instances of a result are compared with: the threshold of the model, or
// of one of its aspects.
type rule struct {
	aspect    string // "" of a model with one
	threshold float64
	metadata  map[string]any // of each detection
}

// rulesOf returns a rule for each of several aspects, apart from those with weight 0.
func rulesOf(result rewardmodel.Result, version string, aspects []rewardmodel.Aspect) []rule {
	var rules []rule
	for _, name := range slices.Sorted(maps.Keys(result.Aspects)) {
		if slices.ContainsFunc(aspects, func(a rewardmodel.Aspect) bool { return a.Name == name && a.Weight == 0 }) {
			continue
		}
		threshold := result.Aspects[name].Threshold
		rules = append(rules, rule{name, threshold, map[string]any{"model_version": version, "threshold": threshold, "aspect": name}})
	}
	if len(rules) == 0 {
		rules = []rule{{threshold: result.Threshold, metadata: map[string]any{"model_version": version, "threshold": result.Threshold}}}
	}
	return rules
}

// detects returns the violation of an instance, and whether it is over the threshold.
func (r rule) detects(instance rewardmodel.Instance) (violation float64, over bool) {
	violation = instance.Violation
	if r.aspect != "" {
		violation = instance.Aspects[r.aspect]
	}
	return violation, violation > r.threshold
}

// detectionBytes is the memory of a detection and its offsets, apart from its JSON.
const detectionBytes = 160

// detections returns the instances over the threshold, once for each rule. It charges them
// before they are built.
func detections(memory *rewardmodel.Reservation, text string, result rewardmodel.Result, rules []rule) ([]detection, error) {
	hits := 0
	for _, instance := range result.Instances {
		for _, r := range rules {
			if _, over := r.detects(instance); over {
				hits++
			}
		}
	}
	if err := memory.Grow(int64(hits) * detectionBytes); err != nil {
		return nil, err
	}
	out, bytes := make([]detection, 0, hits), make([]segmenter.Span, 0, hits)
	for _, instance := range result.Instances {
		for _, r := range rules {
			violation, over := r.detects(instance)
			if !over {
				continue
			}
			bytes = append(bytes, segmenter.Span{Start: instance.Start, End: instance.End})
			out = append(out, detection{
				Text: text[instance.Start:instance.End], Score: violation,
				Detection: labelViolation, DetectionType: labelViolation, Evidence: []struct{}{},
				Metadata: r.metadata,
			})
		}
	}
	for i, span := range rewardmodel.OffsetCodepoint.Convert(text, bytes) {
		out[i].Start, out[i].End = span.Start, span.End
	}
	return out, nil
}
