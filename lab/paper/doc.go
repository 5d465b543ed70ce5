// Package paper reproduces the experiments of the BFGPU paper: it plans runs, stores their records, and writes a report
// alongside the numbers that the paper published.
//
// A Spec is one run, a Plan an ordered list of them. A Runner takes the runs of a plan that a Store does not hold yet,
// several concurrently, and appends a Record for each; a Report turns records into tables and plots. Training itself is a
// RunFunc that the caller provides, so that this package knows neither tensors nor tokenizers.
package paper
