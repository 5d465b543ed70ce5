// Package reproduce runs the experiments of the BFGPU paper: it trains and measures each run of a plan in a child process,
// or asks a language model, and gives package paper the records. It does not depend on how they become tables and plots.
package reproduce
