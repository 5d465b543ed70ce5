// Package localmodel opens a model that runs in this process: it finds the checkpoint directory that a flag names,
// checks what can be checked quickly, and loads it to a scorer. Commands, the service and the benchmarks share it, and
// with it the flags that say which model scores and how.
package localmodel
