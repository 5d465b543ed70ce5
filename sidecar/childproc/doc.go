// Package childproc runs assay in a child process: with the lowest priority for processor and disk, within limits of
// memory and time, and never longer than the process that started it. A crash of libtorch there is an error here.
package childproc
