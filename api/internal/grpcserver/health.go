package grpcserver

import (
	"context"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
)

func (s *Server) registerHealth() {
	s.Register(&grpc.ServiceDesc{
		ServiceName: grpc_health_v1.Health_ServiceDesc.ServiceName,
		Metadata:    grpc_health_v1.Health_ServiceDesc.Metadata,
		Streams:     []grpc.StreamDesc{Unary(s, "Check", Public, SmallMessage, s.health)},
	})
}

// health reports the health of the server as a whole, or of one of its services.
func (s *Server) health(_ context.Context, in *grpc_health_v1.HealthCheckRequest) (*grpc_health_v1.HealthCheckResponse, error) {
	if _, known := s.server.GetServiceInfo()[in.Service]; in.Service != "" && !known {
		return nil, status.Errorf(codes.NotFound, "unknown service %.100q; reflection lists the services", in.Service)
	}
	health := grpc_health_v1.HealthCheckResponse_SERVING
	if s.cfg.Ready() != nil {
		health = grpc_health_v1.HealthCheckResponse_NOT_SERVING
	}
	return &grpc_health_v1.HealthCheckResponse{Status: health}, nil
}
