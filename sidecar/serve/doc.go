// Package serve is the assembled service: HTTP, gRPC and NATS in front of one model, with feedback and training behind
// it. The command "assay serve" is a flag for each field of Config; another program embeds the service like this:
//
//	s, err := serve.New(cfg, log) // checks the settings and opens the listeners
//	s.Start()                     // loads the model in the background
//	err = s.Ready(ctx)            // it takes work
//	err = s.Shutdown()            // drains what is in flight
//
// Everything that scores, over whichever protocol, goes through one model handle, which answers "not ready" until the
// first version is loaded.
package serve
