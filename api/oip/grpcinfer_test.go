package oip

import (
	"testing"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"

	"assay/api/internal/adapter"
	"assay/api/internal/exchange"
	"assay/api/internal/failure"
	"assay/api/internal/grpcserver"
	"assay/api/oip/inference"
	"assay/rewardmodel/wire"
)

// FuzzModelInferRequest reads arbitrary messages: each is rejected as a client error,
// or yields as many texts as the shape of its tensor.
func FuzzModelInferRequest(f *testing.F) {
	tensor := func(name string, shape []int64, contents ...[]byte) *inference.ModelInferRequest_InferInputTensor {
		return &inference.ModelInferRequest_InferInputTensor{Name: name, Datatype: typeBytes, Shape: shape,
			Contents: &inference.InferTensorContents{BytesContents: contents}}
	}
	raw := tensor("sentences", []int64{1, 1})
	raw.Contents = nil
	for _, in := range []*inference.ModelInferRequest{
		{Inputs: []*inference.ModelInferRequest_InferInputTensor{tensor("text", []int64{2}, []byte("a"), []byte("<|im_start|>assistant\nb"))}},
		{Inputs: []*inference.ModelInferRequest_InferInputTensor{tensor("prompt", []int64{1}, []byte("Q")), tensor("text", []int64{1}, []byte("a"))}},
		{Inputs: []*inference.ModelInferRequest_InferInputTensor{raw}, RawInputContents: [][]byte{{1, 0, 0, 0, 'a'}}},
		{Inputs: []*inference.ModelInferRequest_InferInputTensor{raw}, RawInputContents: [][]byte{{255, 255, 255, 255}},
			Outputs: []*inference.ModelInferRequest_InferRequestedOutputTensor{{Name: "rewards"}}},
	} {
		message, err := proto.Marshal(in)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(message)
	}
	unlimited := &exchange.Exchange{Settings: &exchange.Settings{}}
	unlimited.SetLimits(exchange.Limits{Scoring: wire.Limits{MaxInstances: 1 << 30}})
	f.Fuzz(func(t *testing.T, message []byte) {
		var in inference.ModelInferRequest
		if _, err := grpcserver.CountFields(message, in.ProtoReflect().Descriptor(), 1000); err != nil {
			return
		}
		if proto.Unmarshal(message, &in) != nil {
			return
		}
		inputs, err := textTensors(&in, 8192)
		if err == nil {
			_, err = wantedOutputs(&in)
		}
		if err != nil {
			requireRefused(t, err)
			return
		}
		for _, input := range inputs {
			n := int64(1)
			for _, d := range input.shape {
				n *= d
			}
			if int64(len(input.texts)) != n {
				t.Fatalf("%d texts of the shape %v", len(input.texts), input.shape)
			}
			for _, text := range input.texts {
				if !utf8.ValidString(text) {
					t.Fatalf("%q", text)
				}
			}
		}
		if _, _, err := itemsOf(inputs, adapter.NewConversations(unlimited)); err != nil {
			requireRefused(t, err)
		}
	})
}

func requireRefused(t *testing.T, err error) {
	t.Helper()
	if refused, ok := err.(*failure.Error); !ok || refused.Code.HTTP() != 400 && refused.Code.HTTP() != 413 || refused.Message == "" { //nolint:errorlint // made by this package
		t.Fatalf("%T: %v", err, err)
	}
}
