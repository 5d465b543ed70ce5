// Gaps between the parts of the scratch memory of a thread, to check builds: cc -include this. AddressSanitizer then sees
// the first byte that a kernel reads or writes beyond a part.
#pragma once
#include <stdint.h>

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(from, bytes) ((void)(from))
#define ASAN_UNPOISON_MEMORY_REGION(from, bytes) ((void)(from))
#endif

#define AFTER_PART(memory, at, bytes) after_part((char *)(memory), at, bytes)

// after_part is where the next part begins, behind the part at at. The memory may have been divided otherwise before.
static inline int64_t after_part(char *memory, int64_t at, int64_t bytes) {
	const int64_t to = (at + bytes + 63) / 64 * 64 + 64;
	if (memory) {
		ASAN_UNPOISON_MEMORY_REGION(memory + at, (size_t)bytes);
		ASAN_POISON_MEMORY_REGION(memory + at + bytes, (size_t)(to - at - bytes));
	}
	return to;
}
