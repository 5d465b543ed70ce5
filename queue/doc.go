// Package queue is the NATS side of assay: a connection to an embedded or an external
// server, the streams, the micro service for score requests and feedback, and the worker
// that turns streamed responses into rewards. Package embedded has the embedded server,
// package labels the log of labels, package registry what replicas share about models.
//
//	q, err := queue.Open(ctx, queue.Config{Server: embedded.Config{DataDir: dir}}, log, metrics)
//	...
//	err = q.Start(ctx, scorer) // when the model is loaded
//	...
//	err = q.Drain(ctx) // then close the scorer, then
//	err = q.Close(ctx)
//
// # Delivery
//
// A response is a message that JetStream acknowledged on a subject below
// assay.v1.responses. Each gets exactly one message in ASSAY_REWARDS or, if it cannot be
// scored, in ASSAY_DEAD. It is removed from ASSAY_RESPONSES only after that message is
// stored, so that no kill of a process at any moment loses a response. What is then
// delivered again is recognized in three ways:
//
//   - Reward and dead letter carry, as their Nats-Msg-Id, a key made of the subject and the
//     Nats-Msg-Id of the response, or else of its sequence. The streams drop a second
//     message with the same key within their duplicate window, also across restarts.
//   - A response is looked up, by its sequence, among the rewards and dead letters stored
//     since, before it is scored: at the start, after every loss of the connection, and when
//     it is delivered again. No clock decides, since one may jump.
//   - A client that does not know whether its publish arrived retries it with the same
//     Nats-Msg-Id. Within the duplicate window that is the same response.
//
// The limits of this guarantee: a response that a client publishes again and that is scored
// after the window is a new response; a process that was stopped for longer than the window
// between scoring and storing (SIGSTOP, a suspended machine) stores a second reward if
// another process did its work in the meantime; a reward that left ASSAY_REWARDS by age or
// size is not found by the look-up; a response dead-lettered for failures of the model can also
// get a reward if the process dies between storing the dead letter and terminating the
// delivery.
//
// A server that syncs always, as the embedded one does by default, acknowledges what is on
// disk. The order of the steps is then also the order on disk: a reward is synced before its
// response is acknowledged, so a power failure leaves the one, the other or both. With
// embedded.Config.SyncInterval, and with an external server that syncs later, a power failure
// loses what was acknowledged since the last sync, possibly a response together with its
// reward. Open logs a warning about such an external server. Only the stream of scored
// responses is written after its acknowledgement: no client relies on one being kept.
//
// A response with the header Assay-Timeout that is not scored within that time of its
// publication, by the clock of the server, becomes a dead letter with the reason "expired".
//
// Rewards are stored in the order in which they are computed, not that of the responses.
//
// # Poison messages
//
// A response that kills its process ends as a dead letter with the reason "crash". A process
// records the responses in flight in a file, WorkerConfig.Journal, because nothing else
// survives it: the server counts a negatively acknowledged delivery like one that ended in a
// crash, and an embedded server forgets its last deliveries when it dies with the process.
// The next process that uses the file adds what the last one died with to a list in
// ASSAY_STATE that the replicas share. After three deaths a response is scored in isolation;
// a death during the model call for it only, or six deaths in all, make it a dead letter.
//
// # Feedback
//
// A label is a message in ASSAY_FEEDBACK, on a subject made of the hashes of the response's
// id and of the rater: the latest one of a subject is the one that counts and the only one
// that is kept. It is stored under the condition that the record that it replaces is still
// the latest, so that of two processes that receive the same item at the same time, one
// accepts it and the other finds a duplicate. Labels of one request, and of several that
// arrive at the same time, are stored in atomic batches, so that one sync covers up to 1,000
// of them: a batch is stored as a whole or not at all, and one that is rejected is stored in
// halves. The Nats-Msg-Id is random and the same at each attempt: so a process recognizes what it stored
// when the acknowledgement was lost. Each process follows the headers of the stream and has
// all labels, without texts, in an index.
//
// The first label of a response also records its group (labels.HeaderGroup), whose responses
// are held out together: see feedback.Split. The salt of that split is in ASSAY_STATE
// (registry.Registry.HoldoutSalt).
//
// Erasing an id stores a tombstone, and then overwrites and removes every message of the id.
// An id with a tombstone is erased in whatever order the two are read, and each process that
// reads a tombstone removes the labels and the scored response that it finds of the id: so
// their erasure completes even if a process dies during it, or another one stores a label at
// the same moment. The process that was asked removes rewards and dead letters: if it dies,
// the erasure must be requested again.
//
// # Permissions
//
// The service replies only to inboxes. The records that assay stores for itself carry the
// header Assay-Record, and other messages on those subjects are ignored. Separate accounts
// prevent clients from writing them at all (docs/nats.md).
//
// # A full disk
//
// A server acknowledges what it has written, so that a full disk loses nothing. An embedded
// server whose streams cannot be written closes them: until the disk accepts data again,
// everything that needs storage is rejected, and score requests still work. Then a new server
// takes its place, and clients reconnect.
//
// # Models
//
// What replicas share about models is in a registry.Registry: the bucket ASSAY_STATE has the
// current version, a record of each version, and the state of training, all changed by
// compare-and-set; the object store ASSAY_MODELS has the files; the stream ASSAY_EVENTS the
// events.
package queue
