// Package serve assembles the service: one model behind HTTP, gRPC and NATS, with feedback and training. The command
// "assay serve" has a flag for each field of Config; another program embeds the service like this:
//
//	s, err := serve.New(cfg, log) // checks the settings and opens the listeners
//	s.Start()                     // loads the model in the background
//	err = s.Ready(ctx)            // waits until it accepts requests
//	err = s.Shutdown()            // drains what is in flight
//
// All protocols score through one model handle, which returns rewardmodel.ErrNotReady until the first version is loaded.
package serve
