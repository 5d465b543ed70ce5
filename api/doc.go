// Package api serves assay over HTTP: scoring, health, metrics and the
// description of all of it as OpenAPI 3.1.
//
// The package knows neither tensors nor messaging. It declares what it needs
// as small interfaces ([Scorer], [Models]) and a list of readiness checks, and
// whoever wires the service supplies them:
//
//	server, err := api.New(api.DefaultConfig(), scorer, models, checks, log, registry)
//	...
//	go server.Serve(ctx, listener) // until Shutdown
//	...
//	server.Drain()                 // readiness answers 503, requests are still served
//	server.Shutdown(deadline)      // finishes what runs, then closes
//
// Every failure is JSON, {"error":{"code","message","field"?,"request_id"}},
// and errors.go is the one place where errors become a status. A full queue is
// 503 with Retry-After; 429 is never sent, because trainers that do not retry
// a 4xx would end their run on it.
package api
