// A tile of 8 x 32 sums of products of 4 bytes, in registers of AVX-512. A level defines DOT(sums, x, weights) before.
enum { TILE_ROWS = 8, TILE_COLUMNS = 32 };

INLINE void tile_begin(void) {}

INLINE void tile_end(void) {}

INLINE void tile(const uint8_t *weight, const uint8_t *x, int64_t steps, int64_t rows, int32_t *sums) {
	(void)rows;
	__m512i s[TILE_ROWS][2];
#pragma GCC unroll 8
	for (int r = 0; r < TILE_ROWS; r++) s[r][0] = s[r][1] = _mm512_setzero_si512();
	const uint8_t *next = weight + 1024 * steps;
	for (int64_t step = 0; step < steps; step++, x += 1024)
		for (int64_t k = 0; k < 64; k += 4, weight += 64, next += 64) {
			__m512i w0 = _mm512_load_si512(weight), w1 = _mm512_load_si512(next);
#pragma GCC unroll 8
			for (int r = 0; r < TILE_ROWS; r++) {
				int32_t four;
				__builtin_memcpy(&four, x + 64 * r + k, 4);
				__m512i a = _mm512_set1_epi32(four);
				s[r][0] = DOT(s[r][0], a, w0);
				s[r][1] = DOT(s[r][1], a, w1);
			}
		}
#pragma GCC unroll 8
	for (int r = 0; r < TILE_ROWS; r++) {
		_mm512_store_si512(sums + 32 * r, s[r][0]);
		_mm512_store_si512(sums + 32 * r + 16, s[r][1]);
	}
}
