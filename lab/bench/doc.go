// Package bench gives the same work to assay and to other reward servers, one after another on the same cores, and
// accounts for the CPU time and the memory that each takes.
//
// A [Server] is started for a [Model], warmed up, and measured over each of its protocols in every [Case]. Each case
// appends a [Record] to a file immediately, so that a stopped run can resume. The other servers are Python programs in
// python/, which are embedded in this package. [StartService] starts only assay.
package bench
