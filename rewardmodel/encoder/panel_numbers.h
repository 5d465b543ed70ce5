// Functions of vectors that the levels of panels share, which include it after the operations of their vectors.
#pragma once
#include "kernels.h"

// exponential is e^v for v <= 0, to 3e-7 of it; below -87 it is e^-87.
INLINE vec exponential(vec v) {
	const vec magic = all(12582912.0f); // 1.5 * 2^23: adding it rounds to an integer, in the low bits
	v = larger(all(-87.0f), v); // in this order, which keeps NaN
	vec shifted = fma3(v, all(1.44269504f), magic), n = sub(shifted, magic);
	vec r = fma3(n, all(-0.693359375f), v);
	r = fma3(n, all(2.12194440e-4f), r);
	vec p = all(1.9875691500e-4f);
	p = fma3(p, r, all(1.3981999507e-3f));
	p = fma3(p, r, all(8.3334519073e-3f));
	p = fma3(p, r, all(4.1665795894e-2f));
	p = fma3(p, r, all(1.6666665459e-1f));
	p = fma3(p, r, all(5.0000001201e-1f));
	p = fma3(p, mul(r, r), add(r, all(1.0f)));
	return from_bits(iadd(bits(p), exponent_bits(bits(shifted))));
}

INLINE vec activated(vec x, int function) {
	if (function == relu) return larger(all(0), x); // in this order, which keeps NaN
	const float *terms = panel_gelu[function == gelu_tanh];
	vec c = larger(smaller(x, all(gelu_limit)), all(-gelu_limit)), square = mul(c, c);
	vec p = all(terms[gelu_terms - 1]);
	UNROLL
	for (int i = gelu_terms - 2; i >= 0; i--) p = fma3(p, square, all(terms[i]));
	return mul(x, fma3(c, p, all(0.5f)));
}
