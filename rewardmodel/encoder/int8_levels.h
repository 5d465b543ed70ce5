// What the levels of the int8 engine share.
#pragma once
#include <string.h>

#include "int8.h"

#define INLINE static inline __attribute__((always_inline))

// zero_point is the quantized value of an activation of 0, with 127 values on either side.
enum { zero_point = 128 };

INLINE int64_t round_up(int64_t n, int64_t unit) { return (n + unit - 1) / unit * unit; }

// rotation_vectors is the number of vectors of 16 values that the Hadamard transform mixes. It mixes equal lanes of
// them, which needs no shuffles: 16 channels per output are enough to spread an outlier.
INLINE int64_t rotation_vectors(int64_t columns) {
	int64_t n = columns / 16;
	n &= -n;
	return n < 16 ? n : 16;
}

// The polynomials P of gelu(x) = x * (0.5 + c * P(c * c)), where c is x limited to +-gelu_limit: the maximum absolute
// error is 6e-5, for x up to 12 on either side.
#define gelu_limit 4.25f
enum { gelu_terms = 9 };
extern const float int8_gelu[2][gelu_terms];

void int8_panels_portable(const void *batch, int64_t from, int64_t to, int thread);
void int8_panels_avx2(const void *batch, int64_t from, int64_t to, int thread);
void int8_panels_avx_vnni(const void *batch, int64_t from, int64_t to, int thread);
void int8_panels_avx512_vnni(const void *batch, int64_t from, int64_t to, int thread);
void int8_panels_amx(const void *batch, int64_t from, int64_t to, int thread);

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && __GNUC__ >= 12
#define INT8_X86 1
#endif
