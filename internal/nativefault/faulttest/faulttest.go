// Package faulttest has faults in native code, for tests.
package faulttest

/*
#include <pthread.h>
#include <stdlib.h>

static void access_address(void *address) { *(volatile int *)address = 1; }
static void divide(int n) { volatile int x = 1; x /= n; }
static void illegal(void) { __builtin_trap(); }

static void *access_null(void *unused) { access_address(NULL); return unused; }
static void on_thread(void) {
	pthread_t thread;
	if (pthread_create(&thread, NULL, access_null, NULL) == 0) pthread_join(thread, NULL);
}
*/
import "C"

import "unsafe"

// Access writes to an address.
func Access(address uintptr) { C.access_address(*(*unsafe.Pointer)(unsafe.Pointer(&address))) }

// AccessOnThread writes to the address 0 on a thread that Go does not know.
func AccessOnThread() { C.on_thread() }

// Abort aborts the process.
func Abort() { C.abort() }

// Divide divides by 0.
func Divide() { C.divide(0) }

// Illegal executes an invalid instruction.
func Illegal() { C.illegal() }
