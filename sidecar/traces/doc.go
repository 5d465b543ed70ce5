// Package traces exports the spans of a process over OTLP, as the OTEL_* environment
// variables of OpenTelemetry configure it. Nothing waits for the collector: spans wait
// in a bounded queue, and those that do not fit are dropped and counted.
package traces
