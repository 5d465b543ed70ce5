package api

import (
	"context"
	"errors"
	"slices"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"assay/api/inference"
)

// The calls about the service and its models. oip.go has the same over HTTP.

func (s *Server) callLive(context.Context, *inference.ServerLiveRequest) (*inference.ServerLiveResponse, error) {
	return &inference.ServerLiveResponse{Live: true}, nil
}

func (s *Server) callReady(context.Context, *inference.ServerReadyRequest) (*inference.ServerReadyResponse, error) {
	return &inference.ServerReadyResponse{Ready: s.readiness() == nil}, nil
}

// callModelReady is false, and no failure, for a model that is not there.
func (s *Server) callModelReady(ctx context.Context, in *inference.ModelReadyRequest) (*inference.ModelReadyResponse, error) {
	err := s.readiness()
	if err == nil {
		_, err = s.serving(ctx, in.Name, s.oipVersion(ctx, in.Name, in.Version))
	}
	out := &inference.ModelReadyResponse{Ready: err == nil}
	var refused *refusal
	if errors.As(err, &refused) || errors.Is(err, ErrNotReady) {
		err = nil
	}
	return out, err
}

func (s *Server) callServer(context.Context, *inference.ServerMetadataRequest) (*inference.ServerMetadataResponse, error) {
	return &inference.ServerMetadataResponse{Name: ownName, Version: oipGeneration, Extensions: []string{"model_configuration", "model_repository"}}, nil
}

func (s *Server) callModel(ctx context.Context, in *inference.ModelMetadataRequest) (*inference.ModelMetadataResponse, error) {
	serving, err := s.serving(ctx, in.Name, s.oipVersion(ctx, in.Name, in.Version))
	if err != nil {
		return nil, err
	}
	out := &inference.ModelMetadataResponse{Name: in.Name, Versions: []string{serving.Version}, Platform: ownName}
	inputs, outputs := tensorsOf()
	for _, t := range inputs {
		out.Inputs = append(out.Inputs, &inference.ModelMetadataResponse_TensorMetadata{Name: t.Name, Datatype: t.Datatype, Shape: t.Shape})
	}
	for _, t := range outputs {
		out.Outputs = append(out.Outputs, &inference.ModelMetadataResponse_TensorMetadata{Name: t.Name, Datatype: t.Datatype, Shape: t.Shape})
	}
	return out, nil
}

func (s *Server) callConfig(ctx context.Context, in *inference.ModelConfigRequest) (*inference.ModelConfigResponse, error) {
	if _, err := s.serving(ctx, in.Name, s.oipVersion(ctx, in.Name, in.Version)); err != nil {
		return nil, err
	}
	config := &inference.ModelConfig{Name: in.Name, Platform: ownName, Backend: ownName, MaxBatchSize: int32(s.maxResponses())} //nolint:gosec // a setting
	for _, name := range configInputs {
		config.Input = append(config.Input, &inference.ModelInput{Name: name, DataType: inference.DataType_TYPE_STRING, Dims: []int64{1}, Optional: true})
	}
	for _, o := range slices.Concat(oipOutputs, nemoOutputs) {
		datatype := inference.DataType(inference.DataType_value[tritonType(o.datatype)])
		config.Output = append(config.Output, &inference.ModelOutput{Name: o.name, DataType: datatype, Dims: []int64{1}})
	}
	return &inference.ModelConfigResponse{Config: config}, nil
}

func (s *Server) callIndex(ctx context.Context, _ *inference.RepositoryIndexRequest) (*inference.RepositoryIndexResponse, error) {
	serving, err := s.parts.Models.Models(ctx)
	if err != nil {
		return nil, err
	}
	out := &inference.RepositoryIndexResponse{}
	for _, m := range serving {
		out.Models = append(out.Models, &inference.RepositoryIndexResponse_ModelIndex{Name: ownName, Version: m.Version, State: stateReady})
	}
	return out, nil
}

func (s *Server) callLoad(ctx context.Context, in *inference.RepositoryModelLoadRequest) (*inference.RepositoryModelLoadResponse, error) {
	return &inference.RepositoryModelLoadResponse{}, s.load(ctx, in.ModelName)
}

func (s *Server) callUnload(ctx context.Context, in *inference.RepositoryModelUnloadRequest) (*inference.RepositoryModelUnloadResponse, error) {
	return &inference.RepositoryModelUnloadResponse{}, s.unload(ctx, in.ModelName)
}

// callHealth answers for the service as a whole, and for its inference.
func (s *Server) callHealth(_ context.Context, in *grpc_health_v1.HealthCheckRequest) (*grpc_health_v1.HealthCheckResponse, error) {
	if in.Service != "" && in.Service != inferenceService {
		return nil, status.Errorf(codes.NotFound, "there is no service %.100q; ask for %q, or for none", in.Service, inferenceService)
	}
	health := grpc_health_v1.HealthCheckResponse_SERVING
	if s.readiness() != nil {
		health = grpc_health_v1.HealthCheckResponse_NOT_SERVING
	}
	return &grpc_health_v1.HealthCheckResponse{Status: health}, nil
}
