// Package childproc runs assay in a child process: at the lowest CPU and disk priority, within limits of memory and time,
// and never longer than its parent. A crash of libtorch in the child is an error in the parent.
package childproc
