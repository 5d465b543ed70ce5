// Package localmodel runs a model in this process: it finds the checkpoint directory that a flag names, validates it,
// and loads it into a scorer. Commands, the service and the benchmarks share it, and the flags that specify the model and
// how it runs.
package localmodel
