// The tiles of AMX in plain C, to check the levels that use them on a processor without: cc -include this -DAMX_EMULATED.
#pragma once
#include <immintrin.h>
#include <stdint.h>
#include <string.h>

static _Thread_local __attribute__((unused)) uint8_t amx_tiles[8][16][64];

#undef _tile_loadconfig
#undef _tile_release
#undef _tile_zero
#undef _tile_loadd
#undef _tile_stored
#undef _tile_dpbusd
#undef _tile_dpbf16ps
#define _tile_loadconfig(config) ((void)(config))
#define _tile_release() memset(amx_tiles, 0xaa, sizeof amx_tiles)
#define _tile_zero(t) memset(amx_tiles[t], 0, sizeof amx_tiles[t])
#define _tile_loadd(t, from, stride) amx_load(t, from, stride)
#define _tile_stored(t, to, stride) amx_store(t, to, stride)
#define _tile_dpbusd(c, a, b) amx_dpbusd(c, a, b)
#define _tile_dpbf16ps(c, a, b) amx_dpbf16ps(c, a, b)

static inline void amx_load(int t, const void *from, int64_t stride) {
	for (int r = 0; r < 16; r++) memcpy(amx_tiles[t][r], (const char *)from + r * stride, 64);
}

static inline void amx_store(int t, void *to, int64_t stride) {
	for (int r = 0; r < 16; r++) memcpy((char *)to + r * stride, amx_tiles[t][r], 64);
}

static inline void amx_dpbusd(int c, int a, int b) {
	for (int r = 0; r < 16; r++) {
		int32_t sums[16];
		memcpy(sums, amx_tiles[c][r], 64);
		for (int k = 0; k < 64; k++)
			for (int n = 0; n < 16; n++) sums[n] += amx_tiles[a][r][k] * (int8_t)amx_tiles[b][k / 4][4 * n + k % 4];
		memcpy(amx_tiles[c][r], sums, 64);
	}
}

static inline float amx_widened(const uint8_t *half) {
	uint32_t bits = (uint32_t)half[1] << 24 | (uint32_t)half[0] << 16;
	float v;
	memcpy(&v, &bits, 4);
	return v;
}

static inline void amx_dpbf16ps(int c, int a, int b) {
	for (int r = 0; r < 16; r++) {
		float sums[16], odd[16] = {0}, even[16] = {0};
		memcpy(sums, amx_tiles[c][r], 64);
		for (int k = 0; k < 32; k++)
			for (int n = 0; n < 16; n++) (k & 1 ? odd : even)[n] += amx_widened(&amx_tiles[a][r][2 * k]) * amx_widened(&amx_tiles[b][k / 2][4 * n + k % 2 * 2]);
		for (int n = 0; n < 16; n++) sums[n] += even[n] + odd[n];
		memcpy(amx_tiles[c][r], sums, 64);
	}
}
