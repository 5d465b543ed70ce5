// Package cli has what the commands of a binary share: the command line with its configuration file and environment
// (Program), the environment of a command (App), JSON Lines input and output, progress, logs, and the errors that
// determine the exit code.
//
// In order of precedence, a setting comes from the flag, the environment variable ASSAY_<FLAG>, the file of --config, or
// the default.
package cli
