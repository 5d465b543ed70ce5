package oip

import (
	"context"
	"errors"
	"slices"

	"assay/api/internal/failure"
	"assay/api/oip/inference"
	"assay/rewardmodel"
)

// The calls about the service and its models; http.go has the same over HTTP.

func (s *calls) callLive(context.Context, *inference.ServerLiveRequest) (*inference.ServerLiveResponse, error) {
	return &inference.ServerLiveResponse{Live: true}, nil
}

func (s *calls) callReady(_ context.Context, _ *inference.ServerReadyRequest) (*inference.ServerReadyResponse, error) {
	return &inference.ServerReadyResponse{Ready: s.ready() == nil}, nil
}

// callModelReady reports false, and no error, for an unknown model.
func (s *calls) callModelReady(ctx context.Context, in *inference.ModelReadyRequest) (*inference.ModelReadyResponse, error) {
	err := s.ready()
	if err == nil {
		_, err = s.serving(ctx, in.Name, s.pin(ctx, in.Name, in.Version))
	}
	out := &inference.ModelReadyResponse{Ready: err == nil}
	var known *failure.Error
	if errors.As(err, &known) || errors.Is(err, rewardmodel.ErrNotReady) {
		err = nil
	}
	return out, err
}

func (s *calls) callServer(context.Context, *inference.ServerMetadataRequest) (*inference.ServerMetadataResponse, error) {
	return &inference.ServerMetadataResponse{Name: platform, Version: protocolVersion, Extensions: []string{"model_configuration", "model_repository"}}, nil
}

func (s *calls) callModel(ctx context.Context, in *inference.ModelMetadataRequest) (*inference.ModelMetadataResponse, error) {
	serving, err := s.serving(ctx, in.Name, s.pin(ctx, in.Name, in.Version))
	if err != nil {
		return nil, err
	}
	out := &inference.ModelMetadataResponse{Name: in.Name, Versions: []string{serving.Version}, Platform: platform}
	inputs, outputs := ioMetadata(serving)
	for _, t := range inputs {
		out.Inputs = append(out.Inputs, &inference.ModelMetadataResponse_TensorMetadata{Name: t.Name, Datatype: t.Datatype, Shape: t.Shape})
	}
	for _, t := range outputs {
		out.Outputs = append(out.Outputs, &inference.ModelMetadataResponse_TensorMetadata{Name: t.Name, Datatype: t.Datatype, Shape: t.Shape})
	}
	return out, nil
}

func (s *calls) callConfig(ctx context.Context, in *inference.ModelConfigRequest) (*inference.ModelConfigResponse, error) {
	serving, err := s.serving(ctx, in.Name, s.pin(ctx, in.Name, in.Version))
	if err != nil {
		return nil, err
	}
	config := &inference.ModelConfig{Name: in.Name, Platform: platform, Backend: platform, MaxBatchSize: int32(s.cfg.Settings.Limits().MaxResponses())} //nolint:gosec // a setting
	for _, name := range configInputs {
		config.Input = append(config.Input, &inference.ModelInput{Name: name, DataType: inference.DataType_TYPE_STRING, Dims: []int64{1}, Optional: true})
	}
	for _, o := range slices.Concat(defaultOutputs, nemoOutputs, aspectOutputs(serving)) {
		datatype := inference.DataType(inference.DataType_value[tritonType(o.datatype)])
		config.Output = append(config.Output, &inference.ModelOutput{Name: o.name, DataType: datatype, Dims: []int64{1}})
	}
	return &inference.ModelConfigResponse{Config: config}, nil
}

func (s *calls) callIndex(ctx context.Context, _ *inference.RepositoryIndexRequest) (*inference.RepositoryIndexResponse, error) {
	serving, err := s.backend.Models(ctx)
	if err != nil {
		return nil, err
	}
	out := &inference.RepositoryIndexResponse{}
	for _, m := range serving {
		out.Models = append(out.Models, &inference.RepositoryIndexResponse_ModelIndex{Name: platform, Version: m.Version, State: stateReady})
	}
	return out, nil
}

func (s *calls) callLoad(ctx context.Context, in *inference.RepositoryModelLoadRequest) (*inference.RepositoryModelLoadResponse, error) {
	return &inference.RepositoryModelLoadResponse{}, s.load(ctx, in.ModelName)
}

func (s *calls) callUnload(ctx context.Context, in *inference.RepositoryModelUnloadRequest) (*inference.RepositoryModelUnloadResponse, error) {
	return &inference.RepositoryModelUnloadResponse{}, s.unload(ctx, in.ModelName)
}
