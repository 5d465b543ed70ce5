package oip

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"assay/api/internal/adapter"
	"assay/api/internal/exchange"
	"assay/api/internal/failure"
	"assay/rewardmodel"
)

// The datatypes of the tensors.
const (
	typeBytes = "BYTES"
	typeFP32  = "FP32"
	typeInt32 = "INT32"
	typeBool  = "BOOL"
)

// output is an output that a client can request.
type output struct {
	name, datatype string
	value          func(rewardmodel.Result) any // float32, int32, bool or string
}

// defaultOutputs are sent unless a client requests others.
var defaultOutputs = []output{
	{"reward", typeFP32, func(r rewardmodel.Result) any { return float32(r.Reward) }},
	{"violation", typeFP32, func(r rewardmodel.Result) any { return float32(r.Violation) }},
	{"compliant", typeBool, func(r rewardmodel.Result) any { return r.Compliant }},
	{"witness_start", typeInt32, func(r rewardmodel.Result) any { return witnessOf(r).start }},
	{"witness_end", typeInt32, func(r rewardmodel.Result) any { return witnessOf(r).end }},
	{"witness_text", typeBytes, func(r rewardmodel.Result) any { return witnessOf(r).text }},
}

// nemoOutputs have the names of NeMo-Aligner; they are sent on request.
var nemoOutputs = []output{
	{"rewards", typeFP32, func(r rewardmodel.Result) any { return float32(r.Reward) }},
	{"exceeded", typeBool, func(r rewardmodel.Result) any { return r.Truncated }},
}

// The outputs of one aspect have its name after these prefixes; they are sent on
// request.
const (
	aspectReward    = "reward_"
	aspectViolation = "violation_"
)

// aspectOutput returns the output of this name, if it can be one of an aspect. Its
// value is nil if the model has no such aspect.
func aspectOutput(name string) (output, bool) {
	value := func(prefix string, of func(rewardmodel.AspectResult) float64) (output, bool) {
		aspect, ok := strings.CutPrefix(name, prefix)
		if !ok || rewardmodel.CheckAspect(aspect) != nil {
			return output{}, false
		}
		return output{name, typeFP32, func(r rewardmodel.Result) any {
			if result, ok := r.Aspects[aspect]; ok {
				return float32(of(result))
			}
			return nil
		}}, true
	}
	if o, ok := value(aspectReward, func(r rewardmodel.AspectResult) float64 { return r.Reward }); ok {
		return o, true
	}
	return value(aspectViolation, func(r rewardmodel.AspectResult) float64 { return r.Violation })
}

// aspectOutputs returns the outputs of the aspects of a model that has several.
func aspectOutputs(m adapter.Model) []output {
	var outputs []output
	for _, aspect := range m.Aspects {
		for _, prefix := range []string{aspectReward, aspectViolation} {
			o, _ := aspectOutput(prefix + aspect.Name)
			outputs = append(outputs, o)
		}
	}
	return outputs
}

type witnessSpan struct {
	start, end int32
	text       string
}

// witnessOf returns the witness, -1, -1 and no text for an empty response. Offsets
// count code points.
func witnessOf(r rewardmodel.Result) witnessSpan {
	if r.Witness == nil {
		return witnessSpan{-1, -1, ""}
	}
	return witnessSpan{int32(r.Witness.Start), int32(r.Witness.End), r.Witness.Text} //nolint:gosec // a body is below 2 GiB
}

// textTensor is an input: as many texts as its shape says, in row-major order.
type textTensor struct {
	name  string
	shape []int64
	texts []string
}

// inferred is the result of a request: its outputs have the shape of the texts
// that were scored.
type inferred struct {
	version, numerics string // of the model that scored
	shape             []int64
	outputs           []outputValues
}

// numericsParameter is the parameter of a response with the numerics of the model.
const numericsParameter = "numerics"

type outputValues struct {
	output
	values []any // one per text
}

// valueBytes is the memory of an output value in addition to its text: an
// interface and what it points to.
const valueBytes = 32

// scoreTensors scores the texts of inputs with the version of a model, the current
// one for "". wanted names the outputs; none means the default ones.
func (s service) scoreTensors(ctx context.Context, version string, inputs []textTensor, wanted []string) (inferred, error) {
	shape, items, err := itemsOf(inputs, adapter.NewConversations(exchange.From(ctx)))
	if err != nil {
		return inferred{}, err
	}
	outputs, aspects, err := outputsOf(wanted)
	if err != nil {
		return inferred{}, err
	}
	request := rewardmodel.Request{Responses: items, Model: version}
	if aspects {
		request.Options = rewardmodel.Options{Aspects: true, Instances: new(false)}
	}
	answer, err := adapter.Score(ctx, s.backend, request)
	if err != nil {
		return inferred{}, err
	}
	if err := exchange.From(ctx).Memory.Grow(int64(valueBytes * len(outputs) * len(answer.Results))); err != nil {
		return inferred{}, err
	}
	out := inferred{version: answer.Model.Version, numerics: answer.Model.Numerics, shape: shape, outputs: make([]outputValues, len(outputs))}
	for i, o := range outputs {
		values := make([]any, len(answer.Results))
		for j, result := range answer.Results {
			if values[j] = o.value(result); values[j] == nil {
				return inferred{}, unknownOutput(i, o.name)
			}
		}
		out.outputs[i] = outputValues{o, values}
	}
	return out, nil
}

// outputsOf returns the outputs that the client named, or the default ones, and
// whether any of them is of an aspect.
func outputsOf(wanted []string) (outputs []output, aspects bool, err error) {
	if len(wanted) == 0 {
		return defaultOutputs, false, nil
	}
	if len(wanted) > maxTensors {
		return nil, false, failure.Invalid("outputs", "names %d outputs; name at most %d", len(wanted), maxTensors)
	}
	known := slices.Concat(defaultOutputs, nemoOutputs)
	outputs = make([]output, len(wanted))
	for i, name := range wanted {
		j := slices.IndexFunc(known, func(o output) bool { return o.name == name })
		switch {
		case slices.Contains(wanted[:i], name):
			return nil, false, failure.Invalid(fmt.Sprintf("outputs[%d].name", i), "names %.40q again; name each output once", name)
		case j >= 0:
			outputs[i] = known[j]
			continue
		}
		o, ok := aspectOutput(name)
		if !ok {
			return nil, false, unknownOutput(i, name)
		}
		outputs[i], aspects = o, true
	}
	return outputs, aspects, nil
}

func unknownOutput(i int, name string) error {
	return failure.Invalid(fmt.Sprintf("outputs[%d].name", i), "unknown output %.40q; the metadata of the model (GET /v2/models/%s) lists the outputs", name, platform)
}

// itemsOf returns an item for each text to score, and their shape.
func itemsOf(inputs []textTensor, convs *adapter.Conversations) (shape []int64, items []rewardmodel.Item, err error) {
	main, err := mainInput(inputs)
	if err != nil {
		return nil, nil, err
	}
	texts := inputs[main].texts
	if items, err = convs.Items(texts); err != nil {
		return nil, nil, err
	}
	prompts := slices.IndexFunc(inputs, func(t textTensor) bool { return t.name == "prompt" })
	if prompts >= 0 && prompts != main {
		if n := len(inputs[prompts].texts); n != len(items) {
			return nil, nil, failure.Invalid(fmt.Sprintf("inputs[%d]", prompts), "has %d prompts for %d texts; send one for each", n, len(items))
		}
		for i, prompt := range inputs[prompts].texts {
			items[i] = adapter.Response(texts[i])
			if items[i].Prompt, err = convs.Context(prompt); err != nil {
				return nil, nil, err
			}
		}
	}
	return inputs[main].shape, items, nil
}

// mainInput returns the index of the texts to score: text, sentences, or the only
// input.
func mainInput(inputs []textTensor) (int, error) {
	for i, input := range inputs {
		if input.name == "text" || input.name == "sentences" || len(inputs) == 1 {
			if len(input.texts) == 0 {
				return 0, failure.Invalid(fmt.Sprintf("inputs[%d]", i), "is empty; send at least one text")
			}
			return i, nil
		}
	}
	return 0, failure.Invalid("inputs", `there is no input "text" (or "sentences") of datatype BYTES`)
}

// maxTensors is the maximum number of inputs of a request, and of the outputs that
// it may request: each output has a value for each text.
const maxTensors = 16

// elements returns the number of texts of a tensor by its shape, at most limit.
// Readers of the data allocate that many and read no more.
func elements(datatype string, shape []int64, limit int) (int, error) {
	if datatype != typeBytes {
		return 0, failure.Invalid("datatype", "must be BYTES, got %.20q", datatype)
	}
	const most = 1 << 31
	n := int64(1)
	for _, d := range shape {
		if d < 0 || d > most || n > most/max(d, 1) {
			return 0, failure.Invalid("shape", "has the dimension %d; give sizes of at least 0, of less than 2^31 elements in all", d)
		}
		n *= d
	}
	if len(shape) == 0 {
		return 0, failure.Invalid("shape", "is missing; give the number of texts, such as [1]")
	}
	if n > int64(limit) {
		return 0, failure.TooLarge("shape", "has %d elements; send at most %d texts per request", n, limit)
	}
	return int(n), nil
}

// errMoreElements rejects data as soon as it has more elements than the shape.
func errMoreElements(n int) error {
	return failure.Invalid("shape", "has %d elements, and data has more", n)
}

// fits validates the data of a tensor against the number of elements of its
// shape.
func fits(n int, texts []string) error {
	if len(texts) != n {
		return failure.Invalid("shape", "says %d elements, and data has %d", n, len(texts))
	}
	return nil
}
