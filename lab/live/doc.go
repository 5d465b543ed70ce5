// Package live measures live scoring: where it stops responses, the delay of its verdicts with many streams, and what a
// flood of sessions does to honest clients. It does not depend on how a session scores.
package live
