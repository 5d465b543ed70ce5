// Package commands has the commands that work on files, standard input and standard output. Each is a struct of flags
// with a method Run.
package commands
