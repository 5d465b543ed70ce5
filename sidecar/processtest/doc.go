// Package processtest is a test harness that runs assay as a process, or a command line in the process of the test. It
// starts the service and waits until it is ready, kills it, sends requests over HTTP and NATS, and writes models that are
// small enough to train in a test.
//
// A package with such tests calls RunTests in TestMain: its test binary then also runs as assay.
package processtest
