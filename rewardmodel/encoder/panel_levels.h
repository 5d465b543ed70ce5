// What the levels of panels share.
#pragma once
#include <string.h>

#include "panels.h"

#define INLINE static inline __attribute__((always_inline))

// zero_point is the quantized value of an activation of 0 in int8, with 127 values on either side.
enum { zero_point = 128 };

enum { feed_rows = 128 }; // rows of the feed-forward block at a time, whose intermediate values stay in the cache

INLINE int64_t round_up(int64_t n, int64_t unit) { return (n + unit - 1) / unit * unit; }

// row_bytes is the size of a row of inputs of a linear layer.
INLINE int64_t row_bytes(int half, int64_t columns) { return round_up(half ? 2 * columns : columns, 64); }

// rotation_vectors is the number of vectors of 16 values that the Hadamard transform mixes. It mixes equal lanes of
// them, which needs no shuffles: 16 channels per output are enough to spread an outlier.
INLINE int64_t rotation_vectors(int64_t columns) {
	int64_t n = columns / 16;
	n &= -n;
	return n < 16 ? n : 16;
}

// input is the rows of the input of a linear layer, in blocks of 16 rows, [row_bytes / 64][16][64] bytes each, which are
// the tiles of AMX; in int8 with one scale per row.
typedef struct {
	uint8_t *values;
	float *scale;
} input;

// input_at is where 64 bytes of a row of an input of that row_bytes are; byte is a multiple of 64.
INLINE uint8_t *input_at(const input *x, int64_t row, int64_t bytes, int64_t byte) {
	return x->values + row / 16 * 16 * bytes + byte * 16 + row % 16 * 64;
}

// What follows the sums of a linear layer: its output is assigned or added to values, or activated, as the input of the next
// layer, for which int8 needs whole rows of values first.
enum { assign, accumulate, activate };

typedef struct {
	float *values;
	int64_t stride;
	const input *next;
} output;

// room is the scratch memory of a thread. panel_room divides it and returns its size.
typedef struct {
	float *x, *wide, *attended;
	input in, inner;
	float *scores, *query, *row;
} room;

int64_t panel_room(room *m, const panel_batch *b, char *memory, int64_t rows, int64_t keys);

// The polynomials P of gelu(x) = x * (0.5 + c * P(c * c)), where c is x limited to +-gelu_limit: the maximum absolute
// error is 6e-5, for x up to 12 on either side.
#define gelu_limit 4.25f
enum { gelu_terms = 9 };
extern const float panel_gelu[2][gelu_terms];

typedef void panel_function(const void *batch, int64_t from, int64_t to, int thread);
panel_function int8_panels_portable, int8_panels_avx2, int8_panels_avx_vnni, int8_panels_avx512_vnni, int8_panels_amx;
panel_function bf16_panels_portable, bf16_panels_avx2, bf16_panels_avx512, bf16_panels_avx512_bf16, bf16_panels_amx;

// bf16_amx_works reports whether the tiles multiply as bf16_amx.c expects, which was written without such a processor.
int bf16_amx_works(void);

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && __GNUC__ >= 12
#define PANELS_X86 1
#endif
