package oip

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"

	"google.golang.org/grpc"

	"assay/api/internal/exchange"
	"assay/api/internal/failure"
	"assay/api/internal/grpcserver"
	"assay/api/oip/inference"
	"assay/internal/errorcode"
	"assay/rewardmodel"
)

// callInfer scores texts. Its response has raw tensors if the request has.
func (s *calls) callInfer(ctx context.Context, in *inference.ModelInferRequest) (*inference.ModelInferResponse, error) {
	for _, n := range []struct{ field, name string }{{"model_name", in.ModelName}, {"model_version", in.ModelVersion}, {"id", in.Id}} {
		if err := rewardmodel.CheckName(n.field, n.name); err != nil {
			return nil, err
		}
	}
	inputs, err := textTensors(in, s.cfg.Settings.Limits().MaxResponses())
	if err != nil {
		return nil, err
	}
	wanted, err := wantedOutputs(in)
	if err != nil {
		return nil, err
	}
	answer, err := s.scoreTensors(ctx, s.pin(ctx, in.ModelName, in.ModelVersion), inputs, wanted)
	if err != nil {
		return nil, err
	}
	size, values := 0, 0
	for _, o := range answer.outputs {
		size, values = size+tensorSize(o.values), values+len(o.values)
	}
	if size > failure.MaxReply {
		return nil, failure.ReplyTooLarge()
	}
	if err := exchange.From(ctx).Memory.Grow(int64(size + valueBytes*values)); err != nil {
		return nil, err
	}
	out := &inference.ModelInferResponse{ModelName: in.ModelName, ModelVersion: answer.version, Id: in.Id}
	if answer.numerics != "" {
		out.Parameters = map[string]*inference.InferParameter{
			numericsParameter: {ParameterChoice: &inference.InferParameter_StringParam{StringParam: answer.numerics}},
		}
	}
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

// streamInfer serves one request after the other. It reports one that fails, with
// the id of the request, and continues. A stream that waits for its next request
// holds no memory for requests, and ends after Settings.RequestTimeout.
func (s *calls) streamInfer(_ any, stream grpc.ServerStream) error {
	if err := s.server.Allow(stream.Context(), grpcserver.Authorized); err != nil {
		return err
	}
	if !s.streams.TryAcquire(1) {
		return s.cfg.Settings.Unavailable(errorcode.Overloaded, "%d inference streams are open, the limit of this process; close unused streams, or call ModelInfer", s.cfg.MaxStreams)
	}
	defer s.streams.Release(1)
	priority := cmp.Or(grpcserver.PriorityIn(stream.Context()), string(rewardmodel.PriorityBulk))
	if err := exchange.From(stream.Context()).Prioritize(priority); err != nil {
		return err
	}
	for {
		in := &inference.ModelInferRequest{}
		exchange.From(stream.Context()).Memory.ShrinkTo(0) // nothing is left of the request before
		err := s.server.Receive(stream.Context(), stream, in, exchange.From(stream.Context()).Limits().MaxBody, grpcserver.Waiting{Limit: s.cfg.Settings.RequestTimeout, Stop: s.cfg.Draining})
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := s.server.Reauthorize(stream.Context()); err != nil {
			return err
		}
		if err := exchange.From(stream.Context()).Quota.Request(); err != nil {
			return err
		}
		answer, err := s.inferOnce(stream.Context(), in)
		if stream.Context().Err() != nil {
			return stream.Context().Err()
		}
		out := &inference.ModelStreamInferResponse{InferResponse: answer}
		if err != nil {
			f := exchange.From(stream.Context()).Failure(err)
			out.ErrorMessage = f.Text()
			out.InferResponse = &inference.ModelInferResponse{ModelName: in.ModelName, Id: in.Id}
		}
		if err := s.server.Reply(stream.Context(), stream, out); err != nil {
			return err
		}
	}
}

func (s *calls) inferOnce(ctx context.Context, in *inference.ModelInferRequest) (*inference.ModelInferResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Settings.RequestTimeout)
	defer cancel()
	return s.callInfer(ctx, in)
}

// sharedMemory is the parameter of tensors in memory that client and server share.
const sharedMemory = "shared_memory_region"

func errSharedMemory(path string, i int) error {
	return failure.Invalid(fmt.Sprintf("%s[%d].parameters.%s", path, i, sharedMemory), "is not supported; send the tensor in the message")
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

// textTensors returns the inputs of a request, of up to limit texts each. Their
// data is either all in their contents or all in raw_input_contents.
func textTensors(in *inference.ModelInferRequest, limit int) ([]textTensor, error) {
	if n := len(in.Inputs); n > maxTensors {
		return nil, failure.Invalid("inputs", "has %d tensors; send at most %d", n, maxTensors)
	}
	raw := in.RawInputContents
	if len(raw) > 0 && len(raw) != len(in.Inputs) {
		return nil, failure.Invalid("raw_input_contents", "has %d entries for %d inputs; send one for each, or none", len(raw), len(in.Inputs))
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
			err = failure.Invalid("contents", "cannot be combined with raw_input_contents; send one of them")
		default:
			inputs[i].texts, err = splitBytes(raw[i], n)
		}
		if err == nil {
			err = fits(n, inputs[i].texts)
		}
		if err != nil {
			return nil, failure.Within(fmt.Sprintf("inputs[%d]", i), err)
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

// contentsOf converts values of one type to the contents of a gRPC tensor.
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
