package api

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"

	"assay/rewardmodel"
	"assay/rewardmodel/wire"
)

// inferQuery is a request of the Open Inference Protocol.
type inferQuery struct {
	ID         name          `json:"id"`
	Inputs     []inputTensor `json:"inputs"`
	Outputs    []askedTensor `json:"outputs"`
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

type askedTensor struct {
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

type inferAnswer struct {
	ModelName    string         `json:"model_name"`
	ModelVersion string         `json:"model_version"`
	ID           name           `json:"id,omitempty"`
	Outputs      []outputTensor `json:"outputs"`
}

// headerLength tells how many bytes of a body are JSON; raw tensors follow.
const headerLength = "Inference-Header-Content-Length"

func (s *Server) infer(w http.ResponseWriter, r *http.Request) error {
	name, version, err := s.oipPath(r)
	if err != nil {
		return err
	}
	body, _, err := s.readBody(w, r, mediaJSON, mediaBytes)
	if err != nil {
		return err
	}
	ask, inputs, err := s.decodeInfer(exchangeOf(r).memory, body, r.Header.Get(headerLength))
	if err != nil {
		return err
	}
	wanted := make([]string, len(ask.Outputs))
	for i, o := range ask.Outputs {
		wanted[i] = o.Name
	}
	answer, err := s.scoreTensors(r.Context(), version, inputs, wanted)
	if err != nil {
		return err
	}
	out := inferAnswer{ModelName: name, ModelVersion: answer.version, ID: ask.ID}
	var raw []inferredOutput
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
	return s.writeInfer(w, r, out, raw)
}

// writeInfer writes the JSON of a response, and behind it the raw tensors, for
// which it reserves memory before it renders them.
func (s *Server) writeInfer(w http.ResponseWriter, r *http.Request, answer inferAnswer, raw []inferredOutput) error {
	memory := exchangeOf(r).memory
	if raw == nil {
		return s.writeJSON(w, r, http.StatusOK, answer)
	}
	head, err := encode(memory, answer)
	if err != nil {
		return err
	}
	size := len(head)
	for _, o := range raw {
		size += tensorSize(o.values)
	}
	if size > maxReply {
		return errReplyTooLarge()
	}
	body, err := regrow(head, int64(size), memory)
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
	s.send(w, r, http.StatusOK, body)
	return nil
}

// binary tells whether output i is wanted as raw bytes.
func (q inferQuery) binary(i int) bool {
	if i < len(q.Outputs) && q.Outputs[i].Parameters.Binary != nil {
		return *q.Outputs[i].Parameters.Binary
	}
	return q.Parameters.Binary
}

// decodeInfer reads a request: its JSON and its tensors.
func (s *Server) decodeInfer(memory *rewardmodel.Reservation, body []byte, header string) (ask inferQuery, inputs []textTensor, err error) {
	head, raw := body, []byte(nil)
	if header != "" {
		n, err := strconv.Atoi(header)
		if err != nil || n < 0 || n > len(body) {
			return ask, nil, errInvalid(headerLength, "%.20q is not a length within the body of %d bytes", header, len(body))
		}
		head, raw = body[:n], body[n:]
	}
	if err := s.decodeForeign(memory, head, &ask); err != nil {
		return ask, nil, err
	}
	inputs = make([]textTensor, len(ask.Inputs))
	for i, input := range ask.Inputs {
		inputs[i] = textTensor{name: input.Name, shape: input.Shape}
		if inputs[i].texts, raw, err = input.texts(raw, s.maxResponses()); err != nil {
			return ask, nil, within(fmt.Sprintf("inputs[%d]", i), err)
		}
	}
	if len(raw) > 0 {
		return ask, nil, errInvalid("", "%d bytes follow the tensors; binary_data_size of the inputs does not account for them", len(raw))
	}
	return ask, inputs, nil
}

// texts are up to limit elements of a tensor in row order, and what is left of raw.
func (t inputTensor) texts(raw []byte, limit int) (texts []string, rest []byte, err error) {
	n, err := elements(t.Datatype, t.Shape, limit)
	if err != nil {
		return nil, raw, err
	}
	if size := t.Parameters.Size; size != nil {
		if *size < 0 || *size > len(raw) {
			return nil, raw, errInvalid("parameters.binary_data_size", "is %d, and %d bytes are left", *size, len(raw))
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

// deepest is how many lists inside of each other a tensor may have.
const deepest = 16

// flatten reads n strings out of lists inside of lists.
func flatten(data jsontext.Value, n int) ([]string, error) {
	if len(data) == 0 {
		return nil, errInvalid("data", "is missing")
	}
	texts := make([]string, 0, n)
	for d := jsontext.NewDecoder(bytes.NewBuffer(data)); ; {
		token, err := d.ReadToken()
		switch {
		case errors.Is(err, io.EOF):
			return texts, nil
		case err != nil:
			return nil, wire.SyntaxError(data, err)
		case d.StackDepth() > deepest:
			return nil, errInvalid("data", "has more than %d lists inside of each other", deepest)
		case token.Kind() == '"' && len(texts) == n:
			return nil, errMoreElements(n)
		case token.Kind() == '"':
			texts = append(texts, token.String())
		case token.Kind() != '[' && token.Kind() != ']':
			return nil, errInvalid("data", "element %d is not a string", len(texts))
		}
	}
}
