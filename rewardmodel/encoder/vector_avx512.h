// Vectors of 16 values in one register of AVX-512.
#pragma once
#include <immintrin.h>

#define UNROLL _Pragma("GCC unroll 16")

typedef __m512 vec;
typedef __m512i ints;

INLINE vec load(const float *p) { return _mm512_loadu_ps(p); }
INLINE void store(float *p, vec a) { _mm512_storeu_ps(p, a); }
INLINE vec all(float x) { return _mm512_set1_ps(x); }
INLINE vec add(vec a, vec b) { return _mm512_add_ps(a, b); }
INLINE vec sub(vec a, vec b) { return _mm512_sub_ps(a, b); }
INLINE vec mul(vec a, vec b) { return _mm512_mul_ps(a, b); }
INLINE vec quotient(vec a, vec b) { return _mm512_div_ps(a, b); }
INLINE vec fma3(vec a, vec b, vec c) { return _mm512_fmadd_ps(a, b, c); }
INLINE vec larger(vec a, vec b) { return _mm512_max_ps(a, b); }
INLINE vec smaller(vec a, vec b) { return _mm512_min_ps(a, b); }
INLINE ints bits(vec a) { return _mm512_castps_si512(a); }
INLINE vec from_bits(ints a) { return _mm512_castsi512_ps(a); }
INLINE ints iload(const int32_t *p) { return _mm512_loadu_si512(p); }
INLINE ints iall(int32_t x) { return _mm512_set1_epi32(x); }
INLINE ints iadd(ints a, ints b) { return _mm512_add_epi32(a, b); }
INLINE ints iand(ints a, ints b) { return _mm512_and_si512(a, b); }
INLINE ints ilarger(ints a, ints b) { return _mm512_max_epi32(a, b); }
INLINE ints exponent_bits(ints a) { return _mm512_slli_epi32(a, 23); }
INLINE ints upper_half(ints a) { return _mm512_slli_epi32(a, 16); }
INLINE vec to_floats(ints a) { return _mm512_cvtepi32_ps(a); }
INLINE void store_bytes(uint8_t *p, ints a) { _mm_storeu_si128((__m128i *)p, _mm512_cvtepi32_epi8(a)); }

INLINE vec widen(const uint16_t *p) { return from_bits(upper_half(_mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)p)))); }

// store_halves rounds to bf16, to the nearest, ties to even; NaN stays NaN.
INLINE void store_halves(uint16_t *p, vec a) {
#ifdef __AVX512BF16__
	_mm256_storeu_si256((__m256i *)p, (__m256i)_mm512_cvtneps_pbh(a));
#else
	ints b = bits(a), odd = _mm512_and_si512(_mm512_srli_epi32(b, 16), iall(1));
	ints rounded = _mm512_add_epi32(_mm512_add_epi32(b, iall(0x7fff)), odd);
	rounded = _mm512_mask_or_epi32(rounded, _mm512_cmp_ps_mask(a, a, _CMP_UNORD_Q), b, iall(1 << 22));
	_mm256_storeu_si256((__m256i *)p, _mm512_cvtepi32_epi16(_mm512_srli_epi32(rounded, 16)));
#endif
}

INLINE float sum(vec a) {
	__m256 b = _mm256_add_ps(_mm512_castps512_ps256(a), _mm512_extractf32x8_ps(a, 1));
	__m128 c = _mm_add_ps(_mm256_castps256_ps128(b), _mm256_extractf128_ps(b, 1));
	c = _mm_add_ps(c, _mm_movehl_ps(c, c));
	return _mm_cvtss_f32(_mm_add_ss(c, _mm_movehdup_ps(c)));
}

INLINE int32_t largest(ints a) { return _mm512_reduce_max_epi32(a); }

INLINE void transpose(vec a[16]) {
	vec b[16];
	for (int i = 0; i < 16; i += 2) b[i] = _mm512_unpacklo_ps(a[i], a[i + 1]), b[i + 1] = _mm512_unpackhi_ps(a[i], a[i + 1]);
	for (int i = 0; i < 16; i += 4)
		for (int j = 0; j < 2; j++) {
			__m512d x = _mm512_castps_pd(b[i + j]), y = _mm512_castps_pd(b[i + j + 2]);
			a[i + 2 * j] = _mm512_castpd_ps(_mm512_unpacklo_pd(x, y));
			a[i + 2 * j + 1] = _mm512_castpd_ps(_mm512_unpackhi_pd(x, y));
		}
	for (int i = 0; i < 4; i++) {
		b[i] = _mm512_shuffle_f32x4(a[i], a[i + 4], 0x88), b[i + 4] = _mm512_shuffle_f32x4(a[i], a[i + 4], 0xdd);
		b[i + 8] = _mm512_shuffle_f32x4(a[i + 8], a[i + 12], 0x88), b[i + 12] = _mm512_shuffle_f32x4(a[i + 8], a[i + 12], 0xdd);
	}
	for (int i = 0; i < 4; i++) {
		a[i] = _mm512_shuffle_f32x4(b[i], b[i + 8], 0x88), a[i + 8] = _mm512_shuffle_f32x4(b[i], b[i + 8], 0xdd);
		a[i + 4] = _mm512_shuffle_f32x4(b[i + 4], b[i + 12], 0x88), a[i + 12] = _mm512_shuffle_f32x4(b[i + 4], b[i + 12], 0xdd);
	}
}
