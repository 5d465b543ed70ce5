// Package bench gives the same work to assay and to other reward servers, one after another on the same cores, and
// accounts for what each took of them.
//
// A [Server] is started for a [Model], warmed up, and asked through each of its fronts (a protocol over HTTP or NATS) in
// every [Case]. Each case leaves a [Record] in a file at once, so that a run that was stopped goes on where it was. The
// peers' servers are Python files in peers/, which are part of this package.
package bench
