// Package api serves assay over HTTP: scoring, feedback, models, trainings and
// their events, health, metrics and the description of all of it as OpenAPI 3.1.
// Inference is there over gRPC as well.
//
// The package knows neither tensors nor messaging. It declares what it needs
// as small interfaces, and whoever wires the service supplies them in [Parts]:
//
//	server, err := api.New(api.DefaultConfig(), api.Parts{Scorer: scorer, Models: models}, log, registry)
//	...
//	go server.Serve(ctx, listener) // until Shutdown
//	...
//	server.Drain()                 // readiness answers 503, requests are still served
//	server.Shutdown(deadline)      // finishes what runs, then closes
//
// Who may do what is in a file of [Tokens], each with its scopes. Callers on the
// same machine need none: auth.go says whom that means.
//
// Beside its own endpoints it has those of trainers and inference servers that
// users already call, each in a file of its own (openrlhf.go, vllm.go, ...) over
// the same Scorer; compat.go has what they share.
//
// The Open Inference Protocol is there over gRPC, too (grpc.go), from the same
// tables as over HTTP (oipmodel.go, oiptensors.go).
//
// Every failure is JSON, {"error":{"code","message","field"?,"request_id"}} (or
// what the other project has for it),
// and errors.go is the one place where errors become a status. A full queue is
// 503 with Retry-After; 429 is never sent, because trainers that do not retry
// a 4xx would end their run on it. grpcerrors.go has the codes of gRPC.
package api
