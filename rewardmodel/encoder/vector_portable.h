// Vectors of 16 values in plain C. Every level computes the same bits.
#pragma once
#include <math.h>
#include <string.h>

#define UNROLL

typedef struct { float v[16]; } vec;
typedef struct { int32_t v[16]; } ints;

#define EACH(expression) for (int i = 0; i < 16; i++) r.v[i] = expression; return r

INLINE vec load(const float *p) { vec r; memcpy(&r, p, 64); return r; }
INLINE void store(float *p, vec a) { memcpy(p, &a, 64); }
INLINE vec all(float x) { vec r; EACH(x); }
INLINE vec add(vec a, vec b) { vec r; EACH(a.v[i] + b.v[i]); }
INLINE vec sub(vec a, vec b) { vec r; EACH(a.v[i] - b.v[i]); }
INLINE vec mul(vec a, vec b) { vec r; EACH(a.v[i] * b.v[i]); }
INLINE vec quotient(vec a, vec b) { vec r; EACH(a.v[i] / b.v[i]); }
INLINE vec fma3(vec a, vec b, vec c) { vec r; EACH(fmaf(a.v[i], b.v[i], c.v[i])); }
INLINE vec larger(vec a, vec b) { vec r; EACH(a.v[i] > b.v[i] ? a.v[i] : b.v[i]); }
INLINE vec smaller(vec a, vec b) { vec r; EACH(a.v[i] < b.v[i] ? a.v[i] : b.v[i]); }
INLINE ints bits(vec a) { ints r; memcpy(&r, &a, 64); return r; }
INLINE vec from_bits(ints a) { vec r; memcpy(&r, &a, 64); return r; }
INLINE ints iload(const int32_t *p) { ints r; memcpy(&r, p, 64); return r; }
INLINE ints iall(int32_t x) { ints r; EACH(x); }
INLINE ints iadd(ints a, ints b) { ints r; EACH((int32_t)((uint32_t)a.v[i] + (uint32_t)b.v[i])); }
INLINE ints iand(ints a, ints b) { ints r; EACH(a.v[i] & b.v[i]); }
INLINE ints ilarger(ints a, ints b) { ints r; EACH(a.v[i] > b.v[i] ? a.v[i] : b.v[i]); }
INLINE ints exponent_bits(ints a) { ints r; EACH((int32_t)((uint32_t)a.v[i] << 23)); }
INLINE ints upper_half(ints a) { ints r; EACH((int32_t)((uint32_t)a.v[i] << 16)); }
INLINE vec to_floats(ints a) { vec r; EACH((float)a.v[i]); }
INLINE void store_bytes(uint8_t *p, ints a) { for (int i = 0; i < 16; i++) p[i] = (uint8_t)a.v[i]; }

INLINE vec widen(const uint16_t *p) {
	ints r;
	for (int i = 0; i < 16; i++) r.v[i] = (int32_t)((uint32_t)p[i] << 16);
	return from_bits(r);
}

// store_halves rounds to bf16, to the nearest, ties to even; NaN stays NaN.
INLINE void store_halves(uint16_t *p, vec a) {
	for (int i = 0; i < 16; i++) {
		uint32_t b = (uint32_t)bits(a).v[i];
		p[i] = (uint16_t)((a.v[i] == a.v[i] ? b + 0x7fff + (b >> 16 & 1) : b | 1 << 22) >> 16);
	}
}

INLINE float sum(vec a) {
	for (int n = 8; n > 0; n /= 2)
		for (int i = 0; i < n; i++) a.v[i] += a.v[i + n];
	return a.v[0];
}

INLINE int32_t largest(ints a) {
	int32_t m = a.v[0];
	for (int i = 1; i < 16; i++) m = a.v[i] > m ? a.v[i] : m;
	return m;
}

INLINE void transpose(vec a[16]) {
	for (int i = 0; i < 16; i++)
		for (int j = 0; j < i; j++) {
			float x = a[i].v[j];
			a[i].v[j] = a[j].v[i];
			a[j].v[i] = x;
		}
}
