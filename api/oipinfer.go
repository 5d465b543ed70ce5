package api

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/assay-ai/assay/rewardmodel"
)

// The datatypes of tensors that are used here.
const (
	typeBytes = "BYTES"
	typeFP32  = "FP32"
	typeInt32 = "INT32"
	typeBool  = "BOOL"
)

// inferQuery is a request of the Open Inference Protocol.
type inferQuery struct {
	ID         string        `json:"id"`
	Inputs     []inputTensor `json:"inputs"`
	Outputs    []askedTensor `json:"outputs"`
	Parameters struct {
		Binary bool `json:"binary_data_output"`
	} `json:"parameters"`
}

type inputTensor struct {
	Name       string         `json:"name"`
	Shape      []int          `json:"shape"`
	Datatype   string         `json:"datatype"`
	Data       jsontext.Value `json:"data"` // nested or flat
	Parameters struct {
		Size *int `json:"binary_data_size"` // bytes after the JSON that hold the data instead
	} `json:"parameters"`
}

type askedTensor struct {
	Name       string `json:"name"`
	Parameters struct {
		Binary *bool `json:"binary_data"`
	} `json:"parameters"`
}

type outputTensor struct {
	Name       string         `json:"name"`
	Shape      []int          `json:"shape"`
	Datatype   string         `json:"datatype"`
	Data       any            `json:"data,omitempty"`
	Parameters map[string]int `json:"parameters,omitempty"`
}

type inferAnswer struct {
	ModelName    string         `json:"model_name"`
	ModelVersion string         `json:"model_version"`
	ID           string         `json:"id,omitempty"`
	Outputs      []outputTensor `json:"outputs"`
}

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

// headerLength tells how many bytes of a body are JSON; raw tensors follow.
const headerLength = "Inference-Header-Content-Length"

func (s *Server) infer(w http.ResponseWriter, r *http.Request) error {
	name, version, err := s.oipVersion(r)
	if err != nil {
		return err
	}
	body, _, err := s.readBody(w, r, mediaJSON, mediaBytes)
	if err != nil {
		return err
	}
	ask, shape, items, err := decodeInfer(body, r.Header.Get(headerLength))
	if err != nil {
		return err
	}
	wanted, err := ask.outputs()
	if err != nil {
		return err
	}
	answer, err := s.rate(r, rewardmodel.Request{Responses: items, Model: version})
	if err != nil {
		return err
	}
	out := inferAnswer{ModelName: name, ModelVersion: answer.Model.Version, ID: ask.ID}
	var raw []byte
	for i, o := range wanted {
		tensor := outputTensor{Name: o.name, Shape: shape, Datatype: o.datatype}
		values := make([]any, len(answer.Results))
		for j, result := range answer.Results {
			values[j] = o.value(result)
		}
		if ask.binary(i) {
			before := len(raw)
			raw = appendTensor(raw, values)
			tensor.Parameters = map[string]int{"binary_data_size": len(raw) - before}
		} else {
			tensor.Data = values
		}
		out.Outputs = append(out.Outputs, tensor)
	}
	return s.writeInfer(w, r, out, raw)
}

func (s *Server) writeInfer(w http.ResponseWriter, r *http.Request, answer inferAnswer, raw []byte) error {
	body, err := encode(answer)
	if err != nil {
		return err
	}
	if raw == nil {
		s.write(w, r, http.StatusOK, body)
		return nil
	}
	header := w.Header()
	header.Set("Content-Type", string(mediaBytes))
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set(headerLength, strconv.Itoa(len(body)))
	header.Set("Content-Length", strconv.Itoa(len(body)+len(raw)))
	w.WriteHeader(http.StatusOK)
	_, _ = w.Write(append(body, raw...)) // a client that left is not ours to report
	return nil
}

// outputs are the ones that the client named, or all of assay's.
func (q inferQuery) outputs() ([]oipOutput, error) {
	if len(q.Outputs) == 0 {
		return oipOutputs, nil
	}
	known := slices.Concat(oipOutputs, nemoOutputs)
	wanted := make([]oipOutput, len(q.Outputs))
	for i, asked := range q.Outputs {
		j := slices.IndexFunc(known, func(o oipOutput) bool { return o.name == asked.Name })
		if j < 0 {
			return nil, errInvalid(fmt.Sprintf("outputs[%d].name", i), "there is no output %.40q; GET /v2/models/%s lists them", asked.Name, ownName)
		}
		wanted[i] = known[j]
	}
	return wanted, nil
}

// binary tells whether output i is wanted as raw bytes.
func (q inferQuery) binary(i int) bool {
	if i < len(q.Outputs) && q.Outputs[i].Parameters.Binary != nil {
		return *q.Outputs[i].Parameters.Binary
	}
	return q.Parameters.Binary
}

// decodeInfer reads a request: its JSON, the shape of its texts, and an item for
// each of them.
func decodeInfer(body []byte, header string) (ask inferQuery, shape []int, items []rewardmodel.Item, err error) {
	head, raw := body, []byte(nil)
	if header != "" {
		n, err := strconv.Atoi(header)
		if err != nil || n < 0 || n > len(body) {
			return ask, nil, nil, errInvalid(headerLength, "%.20q is not a length within the body of %d bytes", header, len(body))
		}
		head, raw = body[:n], body[n:]
	}
	if err := decodeForeign(head, &ask); err != nil {
		return ask, nil, nil, err
	}
	texts := make([][]string, len(ask.Inputs))
	for i, input := range ask.Inputs {
		if texts[i], raw, err = input.texts(raw); err != nil {
			return ask, nil, nil, within(fmt.Sprintf("inputs[%d]", i), err)
		}
	}
	if len(raw) > 0 {
		return ask, nil, nil, errInvalid("", "%d bytes follow the tensors; binary_data_size of the inputs does not account for them", len(raw))
	}
	main, err := ask.mainInput()
	if err != nil {
		return ask, nil, nil, err
	}
	items = make([]rewardmodel.Item, len(texts[main]))
	for i, text := range texts[main] {
		items[i] = conversation(text)
	}
	prompts := slices.IndexFunc(ask.Inputs, func(t inputTensor) bool { return t.Name == "prompt" })
	if prompts >= 0 && prompts != main {
		if len(texts[prompts]) != len(items) {
			return ask, nil, nil, errInvalid(fmt.Sprintf("inputs[%d]", prompts), "has %d prompts for %d texts; send one for each", len(texts[prompts]), len(items))
		}
		for i, prompt := range texts[prompts] {
			items[i] = response(texts[main][i])
			items[i].Prompt = prompt
		}
	}
	return ask, ask.Inputs[main].Shape, items, nil
}

// mainInput is the index of the texts to score: text, sentences, or the only
// input that there is.
func (q inferQuery) mainInput() (int, error) {
	for i, input := range q.Inputs {
		if input.Name == "text" || input.Name == "sentences" || len(q.Inputs) == 1 {
			if n, _ := elements(input.Shape); n == 0 {
				return 0, errInvalid(fmt.Sprintf("inputs[%d]", i), "is empty; send at least one text")
			}
			return i, nil
		}
	}
	return 0, errInvalid("inputs", `there is no input "text" (or "sentences") of datatype BYTES`)
}

// elements is how many elements a tensor of a shape has.
func elements(shape []int) (int, error) {
	const most = 1 << 31
	n := 1
	for _, d := range shape {
		if d < 0 || d > most || n > most/max(d, 1) {
			return 0, errInvalid("shape", "has the dimension %d; give sizes of at least 0, of less than 2^31 elements in all", d)
		}
		n *= d
	}
	if len(shape) == 0 {
		return 0, errInvalid("shape", "is missing; give the number of texts, such as [1]")
	}
	return n, nil
}

// texts are the elements of a tensor in row order, and what is left of raw.
func (t inputTensor) texts(raw []byte) (texts []string, rest []byte, err error) {
	if t.Datatype != typeBytes {
		return nil, raw, errInvalid("datatype", "must be BYTES, got %.20q", t.Datatype)
	}
	n, err := elements(t.Shape)
	if err != nil {
		return nil, raw, err
	}
	if size := t.Parameters.Size; size != nil {
		if *size < 0 || *size > len(raw) {
			return nil, raw, errInvalid("parameters.binary_data_size", "is %d, and %d bytes are left", *size, len(raw))
		}
		texts, err = splitBytes(raw[:*size])
		raw = raw[*size:]
	} else {
		texts, err = flatten(t.Data)
	}
	if err == nil && len(texts) != n {
		err = errInvalid("shape", "says %d elements, and data has %d", n, len(texts))
	}
	return texts, raw, err
}

// deepest is how many lists inside of each other a tensor may have.
const deepest = 16

// flatten reads strings out of lists inside of lists.
func flatten(data jsontext.Value) ([]string, error) {
	if len(data) == 0 {
		return nil, errInvalid("data", "is missing")
	}
	texts := []string{}
	for d := jsontext.NewDecoder(bytes.NewBuffer(data)); ; {
		token, err := d.ReadToken()
		switch {
		case errors.Is(err, io.EOF):
			return texts, nil
		case err != nil:
			return nil, rewardmodel.SyntaxError(data, err)
		case d.StackDepth() > deepest:
			return nil, errInvalid("data", "has more than %d lists inside of each other", deepest)
		case token.Kind() == '"':
			texts = append(texts, token.String())
		case token.Kind() != '[' && token.Kind() != ']':
			return nil, errInvalid("data", "element %d is not a string", len(texts))
		}
	}
}

// within puts the field of an error under the path of what holds it.
func within(path string, err error) error {
	if refused, ok := err.(*refusal); ok { //nolint:errorlint // made just before
		refused.field = path + "." + refused.field
	}
	return err
}
