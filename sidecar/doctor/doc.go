// Package doctor checks whether a service can run on this machine: each check compares what the machine has with what
// the configuration of the service needs, and returns findings. It changes nothing but a temporary file in the data
// directory, which it removes.
//
// A check has two parts: a function that reads the machine, and one that turns what it read into findings. The second is
// a pure function, so that a test can give it a machine with any problem.
package doctor
