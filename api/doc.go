// Package api serves assay over HTTP: scoring, feedback, models, training, events,
// health, metrics and the OpenAPI 3.1 document of all of them. Inference is also
// available over gRPC.
//
// The package has neither tensors nor messaging. It declares what it needs as
// small interfaces, which the program that assembles the service supplies in
// [Parts]:
//
//	server, err := api.New(api.DefaultConfig(), api.Parts{Scorer: scorer, Models: models}, log, registry)
//	...
//	go server.Serve(ctx, listener) // until Shutdown
//	...
//	server.Drain()                 // /readyz responds 503, requests are still served
//	server.Shutdown(deadline)      // completes the requests in flight, then closes
//
// A file of [Tokens] with scopes decides who may call what. Callers on the same
// machine need no token: auth.go defines which callers these are.
//
// Package compat has the endpoints of trainers and inference servers that users
// already call, one file per protocol, and package oip the Open Inference Protocol
// over HTTP and gRPC. Both know the service only as a backend of two methods;
// router.go mounts their routes with the same authentication and timeouts as
// those of this package. Package livegrpc has live sessions over gRPC; live.go and
// livesocket.go have them over HTTP and WebSockets. What all of them share is under internal: exchange (the
// state of a request), httpjson (bodies and responses), failure (what a client is
// told about an error), payload (buffers with charged memory), adapter (texts of other
// protocols), grpcserver (the server of all gRPC services) and livestream (a live session
// over the messages of a client).
//
// Every failure is JSON, {"error":{"code","message","field"?,"request_id"}} or the
// format of the other project. A full queue is 503 with Retry-After, because
// trainers that do not retry a 4xx would end their run on it; 429 is sent only where the
// token file limits the caller.
package api
