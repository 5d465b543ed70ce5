// A tile of sums of products of bf16, which are widened to float32, for any vectors. A level defines TILE_ROWS and
// TILE_COLUMNS before.
INLINE void tile_begin(void) {}

INLINE void tile_end(void) {}

INLINE void tile(const uint8_t *weight, const uint8_t *x, int64_t steps, int64_t rows, int32_t *sums) {
	(void)rows;
	enum { N = TILE_COLUMNS / 16 };
	const ints upper = iall((int32_t)0xffff0000);
	vec s[TILE_ROWS][N];
	UNROLL
	for (int r = 0; r < TILE_ROWS; r++)
	UNROLL
		for (int n = 0; n < N; n++) s[r][n] = all(0);
	for (int64_t step = 0; step < steps; step++, x += 1024)
		for (int64_t k = 0; k < 64; k += 4, weight += 64) {
			vec even[N], odd[N];
	UNROLL
			for (int n = 0; n < N; n++) {
				ints w = iload((const int32_t *)(weight + 1024 * steps * n));
				even[n] = from_bits(upper_half(w)), odd[n] = from_bits(iand(w, upper));
			}
	UNROLL
			for (int r = 0; r < TILE_ROWS; r++) {
				int32_t pair;
				memcpy(&pair, x + 64 * r + k, 4);
				const ints both = iall(pair);
				const vec a = from_bits(upper_half(both)), b = from_bits(iand(both, upper));
	UNROLL
				for (int n = 0; n < N; n++) s[r][n] = fma3(b, odd[n], fma3(a, even[n], s[r][n]));
			}
		}
	UNROLL
	for (int r = 0; r < TILE_ROWS; r++)
	UNROLL
		for (int n = 0; n < N; n++) store((float *)sums + TILE_COLUMNS * r + 16 * n, s[r][n]);
}
