// Vectors of 16 values in two registers of AVX2.
#pragma once
#include <immintrin.h>

#define UNROLL _Pragma("GCC unroll 16")

typedef struct { __m256 a, b; } vec;
typedef struct { __m256i a, b; } ints;

INLINE vec load(const float *p) { return (vec){_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)}; }
INLINE void store(float *p, vec x) { _mm256_storeu_ps(p, x.a), _mm256_storeu_ps(p + 8, x.b); }
INLINE vec all(float x) { return (vec){_mm256_set1_ps(x), _mm256_set1_ps(x)}; }
INLINE vec add(vec x, vec y) { return (vec){_mm256_add_ps(x.a, y.a), _mm256_add_ps(x.b, y.b)}; }
INLINE vec sub(vec x, vec y) { return (vec){_mm256_sub_ps(x.a, y.a), _mm256_sub_ps(x.b, y.b)}; }
INLINE vec mul(vec x, vec y) { return (vec){_mm256_mul_ps(x.a, y.a), _mm256_mul_ps(x.b, y.b)}; }
INLINE vec quotient(vec x, vec y) { return (vec){_mm256_div_ps(x.a, y.a), _mm256_div_ps(x.b, y.b)}; }
INLINE vec fma3(vec x, vec y, vec z) { return (vec){_mm256_fmadd_ps(x.a, y.a, z.a), _mm256_fmadd_ps(x.b, y.b, z.b)}; }
INLINE vec larger(vec x, vec y) { return (vec){_mm256_max_ps(x.a, y.a), _mm256_max_ps(x.b, y.b)}; }
INLINE vec smaller(vec x, vec y) { return (vec){_mm256_min_ps(x.a, y.a), _mm256_min_ps(x.b, y.b)}; }
INLINE ints bits(vec x) { return (ints){_mm256_castps_si256(x.a), _mm256_castps_si256(x.b)}; }
INLINE vec from_bits(ints x) { return (vec){_mm256_castsi256_ps(x.a), _mm256_castsi256_ps(x.b)}; }
INLINE ints iload(const int32_t *p) { return (ints){_mm256_loadu_si256((const __m256i *)p), _mm256_loadu_si256((const __m256i *)(p + 8))}; }
INLINE ints iall(int32_t x) { return (ints){_mm256_set1_epi32(x), _mm256_set1_epi32(x)}; }
INLINE ints iadd(ints x, ints y) { return (ints){_mm256_add_epi32(x.a, y.a), _mm256_add_epi32(x.b, y.b)}; }
INLINE ints iand(ints x, ints y) { return (ints){_mm256_and_si256(x.a, y.a), _mm256_and_si256(x.b, y.b)}; }
INLINE ints ilarger(ints x, ints y) { return (ints){_mm256_max_epi32(x.a, y.a), _mm256_max_epi32(x.b, y.b)}; }
INLINE ints exponent_bits(ints x) { return (ints){_mm256_slli_epi32(x.a, 23), _mm256_slli_epi32(x.b, 23)}; }
INLINE ints upper_half(ints x) { return (ints){_mm256_slli_epi32(x.a, 16), _mm256_slli_epi32(x.b, 16)}; }
INLINE vec to_floats(ints x) { return (vec){_mm256_cvtepi32_ps(x.a), _mm256_cvtepi32_ps(x.b)}; }

INLINE void store_bytes(uint8_t *p, ints x) {
	const __m256i low = _mm256_set1_epi32(0xff), order = _mm256_setr_epi32(0, 4, 1, 5, 0, 0, 0, 0);
	__m256i words = _mm256_packus_epi32(_mm256_and_si256(x.a, low), _mm256_and_si256(x.b, low)); // a0-3 b0-3 a4-7 b4-7
	__m256i bytes = _mm256_packus_epi16(words, words);
	_mm_storeu_si128((__m128i *)p, _mm256_castsi256_si128(_mm256_permutevar8x32_epi32(bytes, order)));
}

INLINE vec widen(const uint16_t *p) {
	__m256i a = _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)p)), b = _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)(p + 8)));
	return from_bits(upper_half((ints){a, b}));
}

// rounded_half is x rounded to bf16, to the nearest, ties to even, in the low half; NaN stays NaN.
INLINE __m256i rounded_half(__m256 x) {
	__m256i b = _mm256_castps_si256(x), odd = _mm256_and_si256(_mm256_srli_epi32(b, 16), _mm256_set1_epi32(1));
	__m256i rounded = _mm256_add_epi32(_mm256_add_epi32(b, _mm256_set1_epi32(0x7fff)), odd);
	__m256i quiet = _mm256_or_si256(b, _mm256_set1_epi32(1 << 22)), unordered = _mm256_castps_si256(_mm256_cmp_ps(x, x, _CMP_UNORD_Q));
	return _mm256_srli_epi32(_mm256_blendv_epi8(rounded, quiet, unordered), 16);
}

INLINE void store_halves(uint16_t *p, vec x) {
	__m256i words = _mm256_packus_epi32(rounded_half(x.a), rounded_half(x.b)); // a0-3 b0-3 a4-7 b4-7
	_mm256_storeu_si256((__m256i *)p, _mm256_permute4x64_epi64(words, 0xd8));
}

INLINE float sum(vec x) {
	__m256 b = _mm256_add_ps(x.a, x.b);
	__m128 c = _mm_add_ps(_mm256_castps256_ps128(b), _mm256_extractf128_ps(b, 1));
	c = _mm_add_ps(c, _mm_movehl_ps(c, c));
	return _mm_cvtss_f32(_mm_add_ss(c, _mm_movehdup_ps(c)));
}

INLINE int32_t largest(ints x) {
	__m256i b = _mm256_max_epi32(x.a, x.b);
	__m128i c = _mm_max_epi32(_mm256_castsi256_si128(b), _mm256_extracti128_si256(b, 1));
	c = _mm_max_epi32(c, _mm_shuffle_epi32(c, 0x4e));
	return _mm_cvtsi128_si32(_mm_max_epi32(c, _mm_shuffle_epi32(c, 0xb1)));
}

INLINE void transpose8(__m256 r[8]) {
	__m256 t[8];
	for (int i = 0; i < 8; i += 2) t[i] = _mm256_unpacklo_ps(r[i], r[i + 1]), t[i + 1] = _mm256_unpackhi_ps(r[i], r[i + 1]);
	for (int i = 0; i < 8; i += 4) {
		r[i] = _mm256_shuffle_ps(t[i], t[i + 2], 0x44), r[i + 1] = _mm256_shuffle_ps(t[i], t[i + 2], 0xee);
		r[i + 2] = _mm256_shuffle_ps(t[i + 1], t[i + 3], 0x44), r[i + 3] = _mm256_shuffle_ps(t[i + 1], t[i + 3], 0xee);
	}
	for (int i = 0; i < 4; i++) t[i] = _mm256_permute2f128_ps(r[i], r[i + 4], 0x20), t[i + 4] = _mm256_permute2f128_ps(r[i], r[i + 4], 0x31);
	for (int i = 0; i < 8; i++) r[i] = t[i];
}

INLINE void transpose(vec x[16]) {
	__m256 q[4][8];
	for (int i = 0; i < 8; i++) q[0][i] = x[i].a, q[1][i] = x[i].b, q[2][i] = x[i + 8].a, q[3][i] = x[i + 8].b;
	for (int k = 0; k < 4; k++) transpose8(q[k]);
	for (int i = 0; i < 8; i++) x[i] = (vec){q[0][i], q[2][i]}, x[i + 8] = (vec){q[1][i], q[3][i]};
}
