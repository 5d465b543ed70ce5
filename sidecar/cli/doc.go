// Package cli is what the commands of a binary share: the command line with its configuration file and environment
// (Program), what a command works with (App), JSON Lines in and out, progress, logs, and the errors that decide about
// the exit code.
//
// A setting comes from the flag, else from the environment variable ASSAY_<FLAG>, else from the file of --config, else
// from the default.
package cli
