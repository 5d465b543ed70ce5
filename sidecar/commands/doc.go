// Package commands has the commands that need no running service: what they read and write are files, standard input and
// standard output. Each is a struct of flags with a method Run.
package commands
