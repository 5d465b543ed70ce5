package oip

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"assay/api/internal/adapter"
	"assay/api/internal/exchange"
	"assay/api/internal/failure"
	"assay/api/internal/httpjson"
	"assay/internal/payload"
	"assay/rewardmodel/wire"
)

// inferQuery is a request for inference.
type inferQuery struct {
	ID         adapter.Name      `json:"id"`
	Inputs     []inputTensor     `json:"inputs"`
	Outputs    []requestedTensor `json:"outputs"`
	Parameters struct {
		Binary bool `json:"binary_data_output"`
	} `json:"parameters"`
}

type inputTensor struct {
	Name       string         `json:"name"`
	Shape      []int64        `json:"shape"`
	Datatype   string         `json:"datatype"`
	Data       jsontext.Value `json:"data"` // nested or flat
	Parameters struct {
		Size *int `json:"binary_data_size"` // bytes after the JSON that hold the data instead
	} `json:"parameters"`
}

type requestedTensor struct {
	Name       string `json:"name"`
	Parameters struct {
		Binary *bool `json:"binary_data"`
	} `json:"parameters"`
}

type outputTensor struct {
	Name       string         `json:"name"`
	Shape      []int64        `json:"shape"`
	Datatype   string         `json:"datatype"`
	Data       any            `json:"data,omitempty"`
	Parameters map[string]int `json:"parameters,omitempty"`
}

type inferResponse struct {
	ModelName    string            `json:"model_name"`
	ModelVersion string            `json:"model_version"`
	ID           adapter.Name      `json:"id,omitempty"`
	Parameters   map[string]string `json:"parameters,omitempty"`
	Outputs      []outputTensor    `json:"outputs"`
}

// headerLength is the number of bytes of a body that are JSON; raw tensors follow.
const headerLength = "Inference-Header-Content-Length"

func (h handlers) infer(w http.ResponseWriter, r *http.Request) error {
	name, version, err := h.modelOf(r)
	if err != nil {
		return err
	}
	body, _, err := httpjson.ReadBody(w, r, httpjson.JSON, mediaBytes)
	if err != nil {
		return err
	}
	ask, inputs, err := decodeInfer(exchange.Of(r), body, r.Header.Get(headerLength))
	if err != nil {
		return err
	}
	wanted := make([]string, len(ask.Outputs))
	for i, o := range ask.Outputs {
		wanted[i] = o.Name
	}
	answer, err := h.scoreTensors(r.Context(), version, inputs, wanted)
	if err != nil {
		return err
	}
	out := inferResponse{ModelName: name, ModelVersion: answer.version, ID: ask.ID}
	if answer.numerics != "" {
		out.Parameters = map[string]string{numericsParameter: answer.numerics}
	}
	var raw []outputValues
	for i, o := range answer.outputs {
		tensor := outputTensor{Name: o.name, Shape: answer.shape, Datatype: o.datatype}
		if ask.binary(i) {
			raw = append(raw, o)
			tensor.Parameters = map[string]int{"binary_data_size": tensorSize(o.values)}
		} else {
			tensor.Data = o.values
		}
		out.Outputs = append(out.Outputs, tensor)
	}
	return writeInfer(w, r, out, raw)
}

// writeInfer writes the JSON of a response and then the raw tensors, whose memory
// it charges before it renders them.
func writeInfer(w http.ResponseWriter, r *http.Request, answer inferResponse, raw []outputValues) error {
	memory := exchange.Of(r).Memory
	if raw == nil {
		return httpjson.WriteJSON(w, r, http.StatusOK, answer)
	}
	head, err := httpjson.Encode(memory, answer)
	if err != nil {
		return err
	}
	size := len(head)
	for _, o := range raw {
		size += tensorSize(o.values)
	}
	if size > failure.MaxReply {
		return failure.ReplyTooLarge()
	}
	body, err := payload.Grow(head, int64(size), memory)
	if err != nil {
		return err
	}
	for _, o := range raw {
		body = appendTensor(body, o.values)
	}
	header := w.Header()
	header.Set("Content-Type", string(mediaBytes))
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set(headerLength, strconv.Itoa(len(head)))
	httpjson.Send(w, r, http.StatusOK, body)
	return nil
}

// binary reports whether output i is requested as raw bytes.
func (q inferQuery) binary(i int) bool {
	if i < len(q.Outputs) && q.Outputs[i].Parameters.Binary != nil {
		return *q.Outputs[i].Parameters.Binary
	}
	return q.Parameters.Binary
}

// decodeInfer decodes a request: its JSON and its tensors.
func decodeInfer(x *exchange.Exchange, body []byte, header string) (ask inferQuery, inputs []textTensor, err error) {
	head, raw := body, []byte(nil)
	if header != "" {
		n, err := strconv.Atoi(header)
		if err != nil || n < 0 || n > len(body) {
			return ask, nil, failure.Invalid(headerLength, "%.20q is not a length within the body of %d bytes", header, len(body))
		}
		head, raw = body[:n], body[n:]
	}
	if err := adapter.Decode(x, head, &ask, tensorTypes()); err != nil {
		return ask, nil, err
	}
	inputs = make([]textTensor, len(ask.Inputs))
	for i, input := range ask.Inputs {
		inputs[i] = textTensor{name: input.Name, shape: input.Shape}
		if inputs[i].texts, raw, err = input.texts(raw, x.Limits().MaxResponses()); err != nil {
			return ask, nil, failure.Within(fmt.Sprintf("inputs[%d]", i), err)
		}
	}
	if len(raw) > 0 {
		return ask, nil, failure.Invalid("", "%d bytes follow the tensors; binary_data_size of the inputs does not account for them", len(raw))
	}
	return ask, inputs, nil
}

// texts returns up to limit elements of a tensor in row-major order, and the rest
// of raw.
func (t inputTensor) texts(raw []byte, limit int) (texts []string, rest []byte, err error) {
	n, err := elements(t.Datatype, t.Shape, limit)
	if err != nil {
		return nil, raw, err
	}
	if size := t.Parameters.Size; size != nil {
		if *size < 0 || *size > len(raw) {
			return nil, raw, failure.Invalid("parameters.binary_data_size", "is %d, and %d bytes are left", *size, len(raw))
		}
		texts, err = splitBytes(raw[:*size], n)
		raw = raw[*size:]
	} else {
		texts, err = flatten(t.Data, n)
	}
	if err == nil {
		err = fits(n, texts)
	}
	return texts, raw, err
}

// maxDepth is the maximum nesting of the lists of a tensor, and the maximum number
// of its dimensions.
const maxDepth = 16

// tensorTypes bounds the lists of a request.
func tensorTypes() *json.Unmarshalers {
	return json.JoinUnmarshalers(
		adapter.AtMost[inputTensor](maxTensors),
		adapter.AtMost[requestedTensor](maxTensors),
		adapter.AtMost[int64](maxDepth), // dimensions
	)
}

// flatten decodes n strings from nested lists.
func flatten(data jsontext.Value, n int) ([]string, error) {
	if len(data) == 0 {
		return nil, failure.Invalid("data", "is missing")
	}
	texts := make([]string, 0, n)
	for d := jsontext.NewDecoder(bytes.NewBuffer(data)); ; {
		token, err := d.ReadToken()
		switch {
		case errors.Is(err, io.EOF):
			return texts, nil
		case err != nil:
			return nil, wire.SyntaxError(data, err)
		case d.StackDepth() > maxDepth:
			return nil, failure.Invalid("data", "has more than %d nested lists", maxDepth)
		case token.Kind() == '"' && len(texts) == n:
			return nil, errMoreElements(n)
		case token.Kind() == '"':
			texts = append(texts, token.String())
		case token.Kind() != '[' && token.Kind() != ']':
			return nil, failure.Invalid("data", "element %d is not a string", len(texts))
		}
	}
}
