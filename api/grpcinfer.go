package api

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"

	"google.golang.org/grpc"

	"assay/api/inference"
	"assay/rewardmodel"
)

// callInfer scores texts. Its answer has raw tensors when the request has.
func (s *Server) callInfer(ctx context.Context, in *inference.ModelInferRequest) (*inference.ModelInferResponse, error) {
	for _, n := range []struct{ field, name string }{{"model_name", in.ModelName}, {"model_version", in.ModelVersion}, {"id", in.Id}} {
		if err := rewardmodel.CheckName(n.field, n.name); err != nil {
			return nil, err
		}
	}
	inputs, err := textTensors(in, s.maxResponses())
	if err != nil {
		return nil, err
	}
	wanted, err := wantedOutputs(in)
	if err != nil {
		return nil, err
	}
	answer, err := s.scoreTensors(ctx, s.oipVersion(ctx, in.ModelName, in.ModelVersion), inputs, wanted)
	if err != nil {
		return nil, err
	}
	size, values := 0, 0
	for _, o := range answer.outputs {
		size, values = size+tensorSize(o.values), values+len(o.values)
	}
	if size > maxReply {
		return nil, errReplyTooLarge()
	}
	if err := exchangeIn(ctx).memory.Grow(int64(size + valueBytes*values)); err != nil {
		return nil, err
	}
	out := &inference.ModelInferResponse{ModelName: in.ModelName, ModelVersion: answer.version, Id: in.Id}
	for _, o := range answer.outputs {
		tensor := &inference.ModelInferResponse_InferOutputTensor{Name: o.name, Datatype: o.datatype, Shape: answer.shape}
		if len(in.RawInputContents) > 0 {
			out.RawOutputContents = append(out.RawOutputContents, appendTensor(make([]byte, 0, tensorSize(o.values)), o.values))
		} else {
			tensor.Contents = contentsOf(o.values)
		}
		out.Outputs = append(out.Outputs, tensor)
	}
	return out, nil
}

// streamInfer answers one request after the other. It reports one that fails with
// the id of the request, and continues. A stream that waits for its
// next request holds no memory for requests, and ends after Config.RequestTimeout.
func (s *Server) streamInfer(_ any, stream grpc.ServerStream) error {
	if err := s.allow(stream.Context(), ScopeScore); err != nil {
		return err
	}
	if !s.inferStreams.TryAcquire(1) {
		return s.errUnavailable("overloaded", "%d inference streams are open, the limit of this process; close unused streams, or call ModelInfer", s.cfg.MaxInferStreams)
	}
	defer s.inferStreams.Release(1)
	asked := cmp.Or(priorityIn(stream.Context()), string(rewardmodel.PriorityBulk))
	if err := prioritize(stream.Context(), asked); err != nil {
		return err
	}
	for {
		in := &inference.ModelInferRequest{}
		exchangeIn(stream.Context()).memory.ShrinkTo(0) // of the request before nothing is left
		err := s.receive(stream.Context(), stream, in, s.messageLimit(in), s.drained)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		// The token may have been removed since the stream was opened.
		if _, err := s.authorize(callerIn(stream.Context()), ScopeScore); err != nil {
			return err
		}
		answer, err := s.inferOnce(stream.Context(), in)
		if stream.Context().Err() != nil {
			return stream.Context().Err()
		}
		out := &inference.ModelStreamInferResponse{InferResponse: answer}
		if err != nil {
			f := s.explain(err, exchangeIn(stream.Context()).id)
			out.ErrorMessage = f.text()
			out.InferResponse = &inference.ModelInferResponse{ModelName: in.ModelName, Id: in.Id}
		}
		if err := s.reply(stream.Context(), stream, out); err != nil {
			return err
		}
	}
}

func (s *Server) inferOnce(ctx context.Context, in *inference.ModelInferRequest) (*inference.ModelInferResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.RequestTimeout)
	defer cancel()
	return s.callInfer(ctx, in)
}

// sharedMemory is the parameter of tensors that lie in memory which client and
// server share.
const sharedMemory = "shared_memory_region"

func errSharedMemory(path string, i int) error {
	return errInvalid(fmt.Sprintf("%s[%d].parameters.%s", path, i, sharedMemory), "is not supported; have the tensor within the message")
}

func wantedOutputs(in *inference.ModelInferRequest) ([]string, error) {
	wanted := make([]string, len(in.Outputs))
	for i, o := range in.Outputs {
		if o.Parameters[sharedMemory] != nil {
			return nil, errSharedMemory("outputs", i)
		}
		wanted[i] = o.Name
	}
	return wanted, nil
}

// textTensors are the inputs of a request, of up to limit texts each. Their data
// is either all in their contents or all in raw_input_contents.
func textTensors(in *inference.ModelInferRequest, limit int) ([]textTensor, error) {
	if n := len(in.Inputs); n > maxTensors {
		return nil, errInvalid("inputs", "has %d tensors; send at most %d", n, maxTensors)
	}
	raw := in.RawInputContents
	if len(raw) > 0 && len(raw) != len(in.Inputs) {
		return nil, errInvalid("raw_input_contents", "has %d entries for %d inputs; send one for each, or none", len(raw), len(in.Inputs))
	}
	inputs := make([]textTensor, len(in.Inputs))
	for i, input := range in.Inputs {
		if input.Parameters[sharedMemory] != nil {
			return nil, errSharedMemory("inputs", i)
		}
		inputs[i] = textTensor{name: input.Name, shape: input.Shape}
		n, err := elements(input.Datatype, input.Shape, limit)
		switch {
		case err != nil:
		case len(raw) == 0:
			inputs[i].texts, err = contentTexts(input.Contents.GetBytesContents())
		case input.Contents != nil:
			err = errInvalid("contents", "is there beside raw_input_contents; send one of them")
		default:
			inputs[i].texts, err = splitBytes(raw[i], n)
		}
		if err == nil {
			err = fits(n, inputs[i].texts)
		}
		if err != nil {
			return nil, within(fmt.Sprintf("inputs[%d]", i), err)
		}
	}
	return inputs, nil
}

func contentTexts(contents [][]byte) ([]string, error) {
	texts := make([]string, len(contents))
	for i, content := range contents {
		text, err := textOf(content, i)
		if err != nil {
			return nil, err
		}
		texts[i] = text
	}
	return texts, nil
}

// contentsOf lists values of one type as gRPC has them.
func contentsOf(values []any) *inference.InferTensorContents {
	c := &inference.InferTensorContents{}
	for _, value := range values {
		switch v := value.(type) {
		case float32:
			c.Fp32Contents = append(c.Fp32Contents, v)
		case int32:
			c.IntContents = append(c.IntContents, v)
		case bool:
			c.BoolContents = append(c.BoolContents, v)
		case string:
			c.BytesContents = append(c.BytesContents, []byte(v))
		}
	}
	return c
}
