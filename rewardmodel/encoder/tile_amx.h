// A tile of 32 x 32 sums in the tiles of AMX, which are 16 rows of 64 bytes. A level defines TILE_DOT(sums, x, weights) before.
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

INLINE void tile(const uint8_t *weight, const uint8_t *x, int64_t steps, int64_t rows, int32_t *sums) {
	const uint8_t *next = weight + 1024 * steps;
	_tile_zero(0);
	_tile_zero(1);
	if (rows <= 16) {
		for (int64_t k = 0; k < steps; k++) {
			_tile_loadd(4, x + 1024 * k, 64);
			_tile_loadd(6, weight + 1024 * k, 64);
			_tile_loadd(7, next + 1024 * k, 64);
			TILE_DOT(0, 4, 6);
			TILE_DOT(1, 4, 7);
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
			TILE_DOT(0, 4, 6);
			TILE_DOT(1, 4, 7);
			TILE_DOT(2, 5, 6);
			TILE_DOT(3, 5, 7);
		}
		_tile_stored(2, sums + 512, 128);
		_tile_stored(3, sums + 528, 128);
	}
	_tile_stored(0, sums, 128);
	_tile_stored(1, sums + 16, 128);
}
