// Package queue is the NATS side of assay: an embedded server or a connection
// to an external one, the streams, the micro service that answers score
// requests, and the worker that turns streamed responses into rewards.
//
//	q, err := queue.Open(ctx, queue.Config{Server: queue.ServerConfig{DataDir: dir}}, log, registry)
//	...
//	err = q.Start(ctx, scorer) // when the model is loaded
//	...
//	err = q.Drain(ctx) // then close the scorer, then
//	err = q.Close(ctx)
//
// # Delivery
//
// A response is a message that JetStream acknowledged on a subject below
// assay.v1.responses. Each gets exactly one message in ASSAY_REWARDS or, if it
// cannot be scored, in ASSAY_DEAD. It is taken off ASSAY_RESPONSES only after
// that message is stored, so that a kill of any process at any moment loses
// nothing; what is then delivered again is recognised, in three ways:
//
//   - Reward and dead letter carry, as their Nats-Msg-Id, a key made of the
//     subject and the Nats-Msg-Id of the response, or else of its sequence. The
//     streams drop a second message with the same key within their duplicate
//     window, also across restarts.
//   - A response that is older than that is looked up among the rewards and dead
//     letters stored since, before it is scored: at the start, after every loss
//     of the connection, and when it is delivered again.
//   - A client that is not sure whether its publish arrived repeats it with the
//     same Nats-Msg-Id. Within the duplicate window that is the same response.
//
// The limits of this guarantee: what a client publishes again and is scored
// after the window is a new response; a process that was stopped for longer than the window between
// scoring and storing (SIGSTOP, a suspended machine) stores a second reward if
// another process did its work meanwhile; a reward that left ASSAY_REWARDS by
// age or size is not found by the look-up; a response given up for the model's
// failures can get a reward as well if the process dies between storing the
// dead letter and ending the delivery.
//
// A server that syncs always, as the embedded one does by default, acknowledges
// what is on disk. The order of the steps is then that of the disk, too: a reward
// is synced before its response is acknowledged, so a power failure leaves the
// one, the other or both. With ServerConfig.SyncInterval, and with an external
// server that syncs later, a power failure undoes what was acknowledged since the
// last sync, and a response may be gone together with its reward. Open warns of
// such an external server. Only the stream of kept scored responses is written
// after its acknowledgement: no client learns that one is kept.
//
// A response with the header Assay-Timeout that is not scored within that time of
// its publication, by the clock of the server, becomes a dead letter with the
// reason "expired".
//
// Rewards come in the order in which they are done, not that of the responses.
//
// # Crashes
//
// A response that kills its process ends as a dead letter with the reason
// "crash". A process records what it works on in a file, WorkerConfig.Journal,
// because nothing else survives it: the server counts a delivery that was
// negatively acknowledged like one that ended in a crash, and an embedded server
// forgets its last deliveries when it dies with the process. The next process
// that uses the file adds what the last one died with to a list in ASSAY_STATE
// that the replicas share. After three deaths a response is scored alone; a death
// during the model call for it alone, or six deaths in all, are the verdict.
//
// # Feedback
//
// A label is a message in ASSAY_FEEDBACK, on a subject made of the hashes of the
// response's id and of the rater: the latest one of a subject is the one that
// counts and the only one that is kept. It is stored under the condition that
// the record that it replaces is still the latest, so that of two processes that
// take the same item at once, one accepts it and the other finds a duplicate.
// Labels of one request, and of several that arrive at the same time, are stored
// in atomic batches, so that one sync covers up to 1,000 of them: of a batch all
// is stored or nothing, and one that is refused is stored in halves. The
// Nats-Msg-Id is random and the same at each attempt: so a process recognises
// what it stored when the acknowledgement was lost. Each process follows the
// headers of the stream and has all labels, without texts, in an index.
//
// The first label of a response also records its group (HeaderGroup), of which
// all responses are held out or none: see feedback.Split. The salt of that split
// is in ASSAY_STATE (Registry.HoldoutSalt).
//
// Erasing an id stores a tombstone, and then overwrites and removes every message
// of the id. An id with a tombstone is gone in whatever order the two are read,
// and each process that reads a tombstone removes the labels and the kept response
// that it finds of the id: so their erasure ends although a process dies in the
// middle of it, or another one stores a label at the same moment. Rewards and dead
// letters are removed by the process that was asked: if it dies, the erasure must
// be requested again.
//
// # Permissions
//
// The service replies only to inboxes. What assay keeps for itself carries the
// header Assay-Record, and other messages on those subjects are ignored; see
// HeaderRecord. Separate accounts keep clients from writing them at all
// (docs/nats.md).
//
// # A full disk
//
// A server acknowledges what it has written, so that a full disk loses nothing. An
// embedded server whose streams cannot be written closes them: until the disk
// takes data again, what is to be stored is refused and score requests are
// answered. Then a new server takes its place, and clients reconnect.
//
// # Models
//
// What replicas share about models is in a Registry: the bucket ASSAY_STATE
// holds the current version, a record of each, and the one training of the
// fleet, all changed by compare-and-set; the object store ASSAY_MODELS holds
// files; the stream ASSAY_EVENTS what happened. The tools of NATS read them all
// (nats kv get ASSAY_STATE current, nats object ls ASSAY_MODELS).
package queue
