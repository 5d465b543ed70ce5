// Package livepb holds the messages of live sessions over gRPC. All of it is generated
// from live.proto, as package api/oip/inference describes.
package livepb

//go:generate python -m grpc_tools.protoc --proto_path=. --go_out=. --go_opt=paths=source_relative live.proto
