// The inputs and outputs of linear layers in int8: see panel_layers.h.
#pragma once
#include <math.h>

#include "panel_numbers.h"

enum { HALF = 0 };

// hadamard mixes n vectors of a row.
INLINE void hadamard(vec *v, int n) {
	UNROLL
	for (int span = 1; span < n; span *= 2)
	UNROLL
		for (int i = 0; i < n; i++)
			if (!(i & span)) {
				vec a = v[i], b = v[i + span];
				v[i] = add(a, b);
				v[i + span] = sub(a, b);
			}
}

// rotate_block rotates n vectors of a row and returns the bits of the largest absolute value; that of a NaN is larger
// than any other.
INLINE ints rotate_block(const float *from, float *to, ints top, int n) {
	vec v[16];
	UNROLL
	for (int i = 0; i < n; i++) v[i] = load(from + 16 * i);
	hadamard(v, n);
	UNROLL
	for (int i = 0; i < n; i++) {
		top = ilarger(top, iand(bits(v[i]), iall(0x7fffffff)));
		store(to + 16 * i, v[i]);
	}
	return top;
}

INLINE ints rotate_row(const float *from, float *to, int64_t columns) {
	ints top = iall(0);
	if (columns % 16) { // no model of practical use
		int64_t size = columns & -columns, wide = round_up(columns, 16);
		memcpy(to, from, columns * 4);
		memset(to + columns, 0, (wide - columns) * 4);
		for (int64_t span = 1; span < size; span *= 2)
			for (int64_t i = 0; i < columns; i++)
				if (!(i & span)) {
					float a = to[i], b = to[i + span];
					to[i] = a + b;
					to[i + span] = a - b;
				}
		for (int64_t c = 0; c < wide; c += 16) top = ilarger(top, iand(bits(load(to + c)), iall(0x7fffffff)));
		return top;
	}
	int64_t n = rotation_vectors(columns);
	for (int64_t c = 0; c < columns; c += 16 * n) switch (n) {
		case 1: top = rotate_block(from + c, to + c, top, 1); break;
		case 2: top = rotate_block(from + c, to + c, top, 2); break;
		case 4: top = rotate_block(from + c, to + c, top, 4); break;
		case 8: top = rotate_block(from + c, to + c, top, 8); break;
		default: top = rotate_block(from + c, to + c, top, 16);
		}
	return top;
}

// put_row quantizes a row of an input, with its scale. A value that is not finite makes the scale NaN or infinite, so that
// it is not lost in the integers. temporary has room for a row.
static __attribute__((noinline)) void put_row(const float *values, int64_t columns, int64_t row, const input *to, float *temporary) {
	int32_t top = largest(rotate_row(values, temporary, columns));
	float most;
	memcpy(&most, &top, 4);
	most += 1e-18f; // for a row of zeros
	to->scale[row] = most / 127.0f;
	const vec by = all(127.0f / most), magic = all(12582912.0f + zero_point);
	const int64_t bytes = row_bytes(HALF, columns);
	for (int64_t c = 0; c < columns; c += 16)
		store_bytes(input_at(to, row, bytes, c / 64 * 64) + c % 64, bits(fma3(load(temporary + c), by, magic)));
}

// finish applies scales and bias to rows of a tile, and then what follows the layer, and writes them to out.
INLINE void finish(const panel_linear *w, const int32_t *sums, const input *x, int64_t row, int64_t rows, int64_t column, const output *to, int then, int function) {
	UNROLL
	for (int64_t c = 0; c < TILE_COLUMNS; c += 16) {
#ifdef SIGNED_SUMS
		const ints correction = iall(0);
#else
		const ints correction = iload(w->correction + column + c);
#endif
		const vec scale = load(w->scale + column + c), bias = load(w->bias + column + c);
		for (int64_t r = 0; r < rows; r++) {
			float *at = to->values + (row + r) * to->stride + column + c;
			vec v = fma3(mul(to_floats(iadd(iload(sums + r * TILE_COLUMNS + c), correction)), scale), all(x->scale[row + r]), bias);
			if (then == activate) v = activated(v, function);
			if (then == accumulate) v = add(v, load(at));
			store(at, v);
		}
	}
}

// activated_rows completes the input that a layer with an activation function has written.
INLINE void activated_rows(const output *from, int64_t rows, int64_t columns, float *temporary) {
	for (int64_t r = 0; r < rows; r++) put_row(from->values + r * from->stride, columns, r, from->next, temporary);
}
