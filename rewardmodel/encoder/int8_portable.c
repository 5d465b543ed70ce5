// int8 panels in plain C, for any processor. It is slow; the other levels are validated against it.
#pragma GCC optimize("O2", "fp-contract=off") // with -O3 it takes ten times as long to compile
#include "panel_levels.h"
#include "vector_portable.h"

enum { TILE_ROWS = 16, TILE_COLUMNS = 16 };

INLINE void tile_begin(void) {}

INLINE void tile_end(void) {}

INLINE void tile(const uint8_t *weight, const uint8_t *x, int64_t steps, int64_t rows, int32_t *sums) {
	memset(sums, 0, sizeof(int32_t) * TILE_ROWS * TILE_COLUMNS);
	for (int64_t k = 0; k < 16 * steps; k++)
		for (int64_t r = 0; r < rows; r++)
			for (int64_t c = 0; c < 16; c++)
				for (int64_t i = 0; i < 4; i++)
					sums[16 * r + c] += (int32_t)x[k / 16 * 1024 + 64 * r + k % 16 * 4 + i] * (int8_t)weight[k * 64 + c * 4 + i];
}

#define PANELS int8_panels_portable
#include "panel_int8.h"
#include "panel_layers.h"

void int8_rotate(float *rows, int64_t n, int64_t columns) {
	float row[round_up(columns, 16)];
	for (int64_t r = 0; r < n; r++) {
		rotate_row(rows + r * columns, row, columns);
		memcpy(rows + r * columns, row, columns * 4);
	}
}
