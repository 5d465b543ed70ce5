// Package processtest is the harness of tests that run assay as a process, or a command line in the process of the
// test: it starts the service and waits until it is ready, kills it, asks it over HTTP and NATS, and writes models that
// are small enough to be trained in a test.
//
// A package with such tests calls RunTests in TestMain: its test binary then is assay, too.
package processtest
