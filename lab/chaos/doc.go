// Package chaos runs assay under random faults and compares what happened with what was promised. "make chaos" runs its
// test for as long as you like.
//
// A schedule is a sequence of faults that is derived from a seed: processes are killed, suspended and restarted, their
// disk loses power, fills up or fails, stored files are damaged, and networks are cut. Meanwhile clients score over HTTP
// and NATS, stream responses and live sessions, send, correct, withdraw and erase labels, and promote and roll back
// versions; in some schedules the service trains. Then the faults end, and the history of the clients is checked:
//
//   - each label is what its last acknowledgement says, and no other label exists,
//   - each response has exactly one reward, and each reward is the one that its version computes without faults,
//   - promotions, rollbacks and reads of the current version are linearizable,
//   - every training run started once and ended once,
//   - every request got a reply in time, with a documented status, and the service started again.
//
// The same seed injects the same faults at the same times. Which request they meet is up to the scheduler of the machine.
package chaos
