// The inputs and outputs of linear layers in bf16: see panel_layers.h.
#pragma once
#include "panel_numbers.h"

enum { HALF = 1 };

INLINE uint16_t *half_at(const input *x, int64_t row, int64_t bytes, int64_t column) {
	return (uint16_t *)(input_at(x, row, bytes, column / 32 * 64) + column % 32 * 2);
}

// put_row rounds a row of an input. Beyond its columns are zeros: the weights there are zeros too, but not so the product
// of zero and NaN.
static __attribute__((noinline)) void put_row(const float *values, int64_t columns, int64_t row, const input *to, float *temporary) {
	(void)temporary;
	const int64_t bytes = row_bytes(HALF, columns), whole = columns / 16 * 16;
	int64_t c = 0;
	for (; c < whole; c += 16) store_halves(half_at(to, row, bytes, c), load(values + c));
	if (c < columns) {
		float rest[16] = {0};
		memcpy(rest, values + c, (columns - c) * 4);
		store_halves(half_at(to, row, bytes, c), load(rest));
		c += 16;
	}
	if (c < bytes / 2) store_halves(half_at(to, row, bytes, c), all(0));
}

// finish adds the bias to rows of a tile, and then what follows the layer, and writes them to out.
INLINE void finish(const panel_linear *w, const int32_t *sums, const input *x, int64_t row, int64_t rows, int64_t column, const output *to, int then, int function) {
	(void)x;
	const int64_t bytes = row_bytes(HALF, w->out);
	UNROLL
	for (int64_t c = 0; c < TILE_COLUMNS; c += 16) {
		const vec bias = load(w->bias + column + c);
		for (int64_t r = 0; r < rows; r++) {
			vec v = add(from_bits(iload(sums + r * TILE_COLUMNS + c)), bias);
			if (then == activate) {
				store_halves(half_at(to->next, row + r, bytes, column + c), activated(v, function));
				continue;
			}
			float *at = to->values + (row + r) * to->stride + column + c;
			store(at, then == accumulate ? add(v, load(at)) : v);
		}
	}
}

// activated_rows completes the input that a layer with an activation function has written.
INLINE void activated_rows(const output *from, int64_t rows, int64_t columns, float *temporary) { (void)from, (void)rows, (void)columns, (void)temporary; }
