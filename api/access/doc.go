// Package access decides who may call what: the tokens of a file and their limits, client
// certificates, sessions of the console, callers on the same machine, and the audit log of
// what they changed.
package access
