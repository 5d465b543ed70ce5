// Package inference holds the messages of the Open Inference Protocol, version
// 2, over gRPC. All of it is generated from open_inference.proto.
//
// go generate needs protoc (pip install grpcio-tools==1.81.1 brings it as python
// -m grpc_tools.protoc) and protoc-gen-go (go install
// google.golang.org/protobuf/cmd/protoc-gen-go@v1.36.12) on the PATH.
package inference

//go:generate python -m grpc_tools.protoc --proto_path=. --go_out=. --go_opt=paths=source_relative open_inference.proto
