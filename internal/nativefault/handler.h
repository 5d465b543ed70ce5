// The handler of signals that report a fault in code that is not Go: see nativefault.go.
#pragma once
#include <stdint.h>

typedef struct {
	int signal;
	uintptr_t address, pc; // that was accessed; of the instruction: 0 where it is not known
} native_fault;

// watch_faults lets the process continue for limit seconds after a fault. It returns a file descriptor that is readable from the
// first fault on, which belongs to the handler, or the negative of an errno.
int watch_faults(int limit);

// first_fault returns the first fault. Call it after the descriptor has become readable.
native_fault first_fault(void);

// place_of writes the file and the exported symbol that an instruction belongs to, as far as they are known.
void place_of(uintptr_t pc, char *text, int size);
