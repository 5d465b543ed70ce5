// Package commands has the commands that work on files, standard input and standard output, and those that verify,
// export and import the stored labels over NATS. Each is a struct of flags with a method Run.
package commands
