// int8 panels for AVX2, which has no instruction that multiplies and adds bytes exactly: vpmaddubsw saturates, unless
// neither factor exceeds 127. So it gets the absolute activations, and their signs move to the weights.
#include "panel_levels.h"
#ifdef PANELS_X86
#pragma GCC target("avx2,fma")
#pragma GCC optimize("fp-contract=off")
#include "vector_avx2.h"

enum { TILE_ROWS = 4, TILE_COLUMNS = 16 };

INLINE void tile_begin(void) {}

INLINE void tile_end(void) {}

INLINE void tile(const uint8_t *weight, const uint8_t *x, int64_t steps, int64_t rows, int32_t *sums) {
	__m256i s[TILE_ROWS][2];
	for (int r = 0; r < TILE_ROWS; r++) s[r][0] = s[r][1] = _mm256_setzero_si256();
	const __m256i zero = _mm256_set1_epi8((char)zero_point), ones = _mm256_set1_epi16(1);
	for (int64_t step = 0; step < steps; step++, x += 1024)
		for (int64_t k = 0; k < 64; k += 4, weight += 64) {
			__m256i w0 = _mm256_load_si256((const __m256i *)weight), w1 = _mm256_load_si256((const __m256i *)(weight + 32));
#pragma GCC unroll 4
			for (int r = 0; r < TILE_ROWS; r++) {
				int32_t four;
				memcpy(&four, x + 64 * r + k, 4);
				__m256i a = _mm256_sub_epi8(_mm256_set1_epi32(four), zero), size = _mm256_abs_epi8(a);
				s[r][0] = _mm256_add_epi32(s[r][0], _mm256_madd_epi16(_mm256_maddubs_epi16(size, _mm256_sign_epi8(w0, a)), ones));
				s[r][1] = _mm256_add_epi32(s[r][1], _mm256_madd_epi16(_mm256_maddubs_epi16(size, _mm256_sign_epi8(w1, a)), ones));
			}
		}
	for (int r = 0; r < TILE_ROWS; r++) {
		_mm256_store_si256((__m256i *)(sums + 16 * r), s[r][0]);
		_mm256_store_si256((__m256i *)(sums + 16 * r + 8), s[r][1]);
	}
}
#define SIGNED_SUMS 1
#define PANELS int8_panels_avx2
#include "panel_int8.h"
#include "panel_layers.h"
#endif
