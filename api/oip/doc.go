// Package oip serves the Open Inference Protocol, version 2, as KServe and Triton
// speak it: over HTTP ([Routes]) and over gRPC ([RegisterGRPC]), with the same tensors,
// limits and callers. It also accepts what NeMo-Aligner sends: the input
// sentences, the output rewards.
//
// tensors.go has the inputs and outputs, models.go the calls about models; files
// named grpc... have the calls over gRPC.
package oip
