// Package oip serves the Open Inference Protocol, version 2, as KServe and Triton
// speak it: over HTTP ([Routes]) and over gRPC ([GRPC]), with the same tensors,
// limits and callers. It also accepts what NeMo-Aligner sends: the input
// sentences, the output rewards.
//
// tensors.go has the inputs and outputs, models.go the calls about models; files
// named grpc... have the gRPC server, which charges messages before it reads them
// and cuts connections whose clients do not read their replies.
package oip
