// The int8 engine for AMX, whose tiles are 16 rows of 64 bytes; the rest is AVX-512.
#include "int8_levels.h"
#ifdef INT8_X86
#pragma GCC target("arch=x86-64-v4,avx512vnni,amx-tile,amx-int8")
#pragma GCC optimize("fp-contract=off")
#include "int8_vector_avx512.h"

enum { TILE_ROWS = 32, TILE_COLUMNS = 32 };

INLINE void tile_begin(void) {
	struct {
		uint8_t palette, start, reserved[14];
		uint16_t bytes[16];
		uint8_t rows[16];
	} __attribute__((aligned(64))) config = {.palette = 1};
	for (int i = 0; i < 8; i++) config.bytes[i] = 64, config.rows[i] = 16;
	_tile_loadconfig(&config);
}

INLINE void tile_end(void) { _tile_release(); }

INLINE void tile(const int8_t *weight, const uint8_t *x, int64_t steps, int64_t rows, int32_t *sums) {
	const int8_t *next = weight + 1024 * steps;
	_tile_zero(0);
	_tile_zero(1);
	if (rows <= 16) {
		for (int64_t k = 0; k < steps; k++) {
			_tile_loadd(4, x + 1024 * k, 64);
			_tile_loadd(6, weight + 1024 * k, 64);
			_tile_loadd(7, next + 1024 * k, 64);
			_tile_dpbusd(0, 4, 6);
			_tile_dpbusd(1, 4, 7);
		}
	} else {
		const uint8_t *more = x + 1024 * steps;
		_tile_zero(2);
		_tile_zero(3);
		for (int64_t k = 0; k < steps; k++) {
			_tile_loadd(4, x + 1024 * k, 64);
			_tile_loadd(6, weight + 1024 * k, 64);
			_tile_loadd(7, next + 1024 * k, 64);
			_tile_loadd(5, more + 1024 * k, 64);
			_tile_dpbusd(0, 4, 6);
			_tile_dpbusd(1, 4, 7);
			_tile_dpbusd(2, 5, 6);
			_tile_dpbusd(3, 5, 7);
		}
		_tile_stored(2, sums + 512, 128);
		_tile_stored(3, sums + 528, 128);
	}
	_tile_stored(0, sums, 128);
	_tile_stored(1, sums + 16, 128);
}

#define PANELS int8_panels_amx
#include "int8_panel.h"
#endif
