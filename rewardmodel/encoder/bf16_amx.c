// bf16 panels for AMX; the rest is AVX-512.
#include "panel_levels.h"
#ifdef PANELS_X86
#pragma GCC target("arch=x86-64-v4,avx512bf16,amx-tile,amx-bf16")
#pragma GCC optimize("fp-contract=off")
#include "vector_avx512.h"

#define TILE_DOT(sums, x, weights) _tile_dpbf16ps(sums, x, weights)
#include "tile_amx.h"

// bf16_amx_works compares a tile with plain loops, on small integers, whose products and sums are exact.
int bf16_amx_works(void) {
	enum { IN = 64 };
	uint16_t x[32 * IN] __attribute__((aligned(64))), weight[32 * IN] __attribute__((aligned(64)));
	int32_t sums[TILE_ROWS * TILE_COLUMNS] __attribute__((aligned(64)));
#define X(r, k) ((7 * (r) + 3 * (k)) % 17 - 8)
#define W(n, k) ((5 * (n) + 11 * (k)) % 19 - 9)
	for (int r = 0; r < 32; r++)
		for (int k = 0; k < IN; k++) {
			const float pair[2] = {X(r, k), W(r, k)};
			uint32_t bits[2];
			memcpy(bits, pair, 8);
			x[r / 16 * 16 * IN + k / 32 * 512 + r % 16 * 32 + k % 32] = (uint16_t)(bits[0] >> 16);
			weight[r / 16 * 16 * IN + k / 2 * 32 + r % 16 * 2 + k % 2] = (uint16_t)(bits[1] >> 16);
		}
	tile_begin();
	tile((const uint8_t *)weight, (const uint8_t *)x, IN / 32, TILE_ROWS, sums);
	tile_end();
	for (int r = 0; r < TILE_ROWS; r++)
		for (int n = 0; n < TILE_COLUMNS; n++) {
			int32_t want = 0;
			for (int k = 0; k < IN; k++) want += X(r, k) * W(n, k);
			float got;
			memcpy(&got, &sums[r * TILE_COLUMNS + n], 4);
			if (got != (float)want) return 0;
		}
	return 1;
#undef X
#undef W
}

#define PANELS bf16_panels_amx
#include "panel_bf16.h"
#include "panel_layers.h"
#endif
