package api

import (
	"context"
	"fmt"
	"slices"

	"assay/rewardmodel"
)

// The tensors of the Open Inference Protocol, the same over HTTP and gRPC.

// The datatypes of tensors that are used here.
const (
	typeBytes = "BYTES"
	typeFP32  = "FP32"
	typeInt32 = "INT32"
	typeBool  = "BOOL"
)

// oipOutput is an output that a client can ask for.
type oipOutput struct {
	name, datatype string
	value          func(rewardmodel.Result) any // float32, int32, bool or string
}

// oipOutputs are those that are sent unless a client names others.
var oipOutputs = []oipOutput{
	{"reward", typeFP32, func(r rewardmodel.Result) any { return float32(r.Reward) }},
	{"violation", typeFP32, func(r rewardmodel.Result) any { return float32(r.Violation) }},
	{"compliant", typeBool, func(r rewardmodel.Result) any { return r.Compliant }},
	{"witness_start", typeInt32, func(r rewardmodel.Result) any { return witnessOf(r).start }},
	{"witness_end", typeInt32, func(r rewardmodel.Result) any { return witnessOf(r).end }},
	{"witness_text", typeBytes, func(r rewardmodel.Result) any { return witnessOf(r).text }},
}

// nemoOutputs are the names of NeMo-Aligner, sent when they are asked for.
var nemoOutputs = []oipOutput{
	{"rewards", typeFP32, func(r rewardmodel.Result) any { return float32(r.Reward) }},
	{"exceeded", typeBool, func(r rewardmodel.Result) any { return r.Truncated }},
}

type witnessSpan struct {
	start, end int32
	text       string
}

// witnessOf is -1, -1 and no text for an empty response. Offsets are code points.
func witnessOf(r rewardmodel.Result) witnessSpan {
	if r.Witness == nil {
		return witnessSpan{-1, -1, ""}
	}
	return witnessSpan{int32(r.Witness.Start), int32(r.Witness.End), r.Witness.Text} //nolint:gosec // a body is below 2 GiB
}

// textTensor is an input: as many texts as its shape says, in row order.
type textTensor struct {
	name  string
	shape []int64
	texts []string
}

// inferred is the answer to a request: its outputs have the shape of the texts
// that were scored.
type inferred struct {
	version string // that answered
	shape   []int64
	outputs []inferredOutput
}

type inferredOutput struct {
	oipOutput
	values []any // one for each text
}

// valueBytes is what a value of an output takes next to its text: an interface
// and what it refers to.
const valueBytes = 32

// scoreTensors gives the texts of inputs their rewards, by the version of a
// model ("" is the current one). wanted names outputs; none means all of assay's.
func (s *Server) scoreTensors(ctx context.Context, version string, inputs []textTensor, wanted []string) (inferred, error) {
	shape, items, err := itemsOf(inputs, s.conversations(exchangeIn(ctx).memory))
	if err != nil {
		return inferred{}, err
	}
	outputs, err := outputsOf(wanted)
	if err != nil {
		return inferred{}, err
	}
	answer, err := s.rate(ctx, rewardmodel.Request{Responses: items, Model: version})
	if err != nil {
		return inferred{}, err
	}
	if err := exchangeIn(ctx).memory.Grow(int64(valueBytes * len(outputs) * len(answer.Results))); err != nil {
		return inferred{}, err
	}
	result := inferred{version: answer.Model.Version, shape: shape, outputs: make([]inferredOutput, len(outputs))}
	for i, o := range outputs {
		values := make([]any, len(answer.Results))
		for j, scored := range answer.Results {
			values[j] = o.value(scored)
		}
		result.outputs[i] = inferredOutput{o, values}
	}
	return result, nil
}

// outputsOf are the ones that the client named, or all of assay's.
func outputsOf(wanted []string) ([]oipOutput, error) {
	if len(wanted) == 0 {
		return oipOutputs, nil
	}
	if len(wanted) > maxTensors {
		return nil, errInvalid("outputs", "names %d outputs; name at most %d", len(wanted), maxTensors)
	}
	known := slices.Concat(oipOutputs, nemoOutputs)
	outputs := make([]oipOutput, len(wanted))
	for i, name := range wanted {
		j := slices.IndexFunc(known, func(o oipOutput) bool { return o.name == name })
		switch {
		case slices.Contains(wanted[:i], name):
			return nil, errInvalid(fmt.Sprintf("outputs[%d].name", i), "names %.40q again; name each output once", name)
		case j < 0:
			return nil, errInvalid(fmt.Sprintf("outputs[%d].name", i), "there is no output %.40q; the metadata of the model (GET /v2/models/%s) lists them", name, ownName)
		}
		outputs[i] = known[j]
	}
	return outputs, nil
}

// itemsOf makes an item of each text to score, and tells their shape.
func itemsOf(inputs []textTensor, convs *conversations) (shape []int64, items []rewardmodel.Item, err error) {
	main, err := mainInput(inputs)
	if err != nil {
		return nil, nil, err
	}
	texts := inputs[main].texts
	if items, err = convs.items(texts); err != nil {
		return nil, nil, err
	}
	prompts := slices.IndexFunc(inputs, func(t textTensor) bool { return t.name == "prompt" })
	if prompts >= 0 && prompts != main {
		if n := len(inputs[prompts].texts); n != len(items) {
			return nil, nil, errInvalid(fmt.Sprintf("inputs[%d]", prompts), "has %d prompts for %d texts; send one for each", n, len(items))
		}
		for i, prompt := range inputs[prompts].texts {
			items[i] = response(texts[i])
			items[i].Prompt = prompt
		}
	}
	return inputs[main].shape, items, nil
}

// mainInput is the index of the texts to score: text, sentences, or the only
// input that there is.
func mainInput(inputs []textTensor) (int, error) {
	for i, input := range inputs {
		if input.name == "text" || input.name == "sentences" || len(inputs) == 1 {
			if len(input.texts) == 0 {
				return 0, errInvalid(fmt.Sprintf("inputs[%d]", i), "is empty; send at least one text")
			}
			return i, nil
		}
	}
	return 0, errInvalid("inputs", `there is no input "text" (or "sentences") of datatype BYTES`)
}

// maxTensors is how many inputs a request may have, and how many outputs it may
// ask for: each output has a value for each text.
const maxTensors = 16

// elements is how many texts a tensor has by its shape, at most limit. What
// reads the data makes room for so many and reads no more.
func elements(datatype string, shape []int64, limit int) (int, error) {
	if datatype != typeBytes {
		return 0, errInvalid("datatype", "must be BYTES, got %.20q", datatype)
	}
	const most = 1 << 31
	n := int64(1)
	for _, d := range shape {
		if d < 0 || d > most || n > most/max(d, 1) {
			return 0, errInvalid("shape", "has the dimension %d; give sizes of at least 0, of less than 2^31 elements in all", d)
		}
		n *= d
	}
	if len(shape) == 0 {
		return 0, errInvalid("shape", "is missing; give the number of texts, such as [1]")
	}
	if n > int64(limit) {
		return 0, errTooLarge("shape", "has %d elements; send at most %d texts per request", n, limit)
	}
	return int(n), nil
}

// errMoreElements refuses data as soon as it has more elements than the shape.
func errMoreElements(n int) error {
	return errInvalid("shape", "has %d elements, and data has more", n)
}

// fits validates the data of a tensor against the number of elements of its
// shape.
func fits(n int, texts []string) error {
	if len(texts) != n {
		return errInvalid("shape", "says %d elements, and data has %d", n, len(texts))
	}
	return nil
}

// within puts the field of an error under the path of what holds it.
func within(path string, err error) error {
	if refused, ok := err.(*refusal); ok { //nolint:errorlint // made just before
		refused.field = path + "." + refused.field
	}
	return err
}
