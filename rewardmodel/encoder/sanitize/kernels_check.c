// kernels_check calls the functions of kernels.c on random inputs of random shapes and compares the results with plain
// loops in double precision. Half of the inputs have values that are huge or not finite: such a value may change its own
// row or sequence only, and one that is not finite is not lost there. make sanitize compiles both with sanitizers. Every
// buffer is an allocation of exactly its size, so that AddressSanitizer sees the first byte that a kernel reads or writes
// beyond it.
//
//	kernels_check [SECONDS [SEED]]
#include "../modernbert.h"
#include "random.h"
#include "threads.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

// ---- random inputs ----

enum { maxBuffers = 64 };
static void *buffers[maxBuffers];
static int used;

static void *buffer(int64_t size) {
	if (used == maxBuffers) abort();
	void *p = malloc(size > 0 ? (size_t)size : 1);
	if (!p) abort();
	memset(p, 0xaa, size > 0 ? (size_t)size : 1);
	return buffers[used++] = p;
}

static void release(void) {
	while (used) free(buffers[--used]);
}

static float from_bits(uint32_t bits) {
	float v;
	memcpy(&v, &bits, 4);
	return v;
}

static int spoiled; // whether inputs have such values

// spoilt is a value that is tiny, huge or not finite: zeros, subnormal numbers, the largest ones, and NaN of either sign,
// quiet and signaling, whose other bits vanish or overflow when it is rounded to bfloat16.
static uint32_t spoilt(void) {
	static const uint32_t all[] = {
		0x80000000, 0x00000001, 0x000116c2, 0x807fffff, 0x7f7fffff, 0xff7fffff, 0x60ad78ec, 0xe0ad78ec, 0x7f800000, 0xff800000,
		0x7fc00000, 0xffc00000, 0x7fffffff, 0xffffffff, 0x7fff8000, 0xffff8000, 0x7f800001, 0xff800001, 0x7fa00000,
	};
	return all[between(0, sizeof all / sizeof *all - 1)];
}

// spoils reports whether to spoil a value, about one in n.
static int spoils(int64_t n) { return spoiled && !between(0, n); }

static float *floats_of(int64_t n, float scale) {
	float *p = buffer(n * 4);
	for (int64_t i = 0; i < n; i++) p[i] = normal() * scale;
	return p;
}

static int64_t *integers(int64_t n, int64_t low, int64_t high) {
	int64_t *p = buffer(n * 8);
	for (int64_t i = 0; i < n; i++) p[i] = between(low, high);
	return p;
}

// spoil puts a few spoilt values into n values.
static float *spoil(float *p, int64_t n) {
	for (int64_t i = 0; i < n; i++)
		if (spoils(n / 2)) {
			uint32_t bits = spoilt();
			memcpy(p + i, &bits, 4); // as an integer: a move as a float may quiet it
		}
	return p;
}

// random_matrix has columns within a row of a larger stride, as queries, keys and values have in one product.
static matrix random_matrix(int64_t rows, int64_t columns) {
	matrix m = {.stride = columns + between(0, 1) * between(1, 40), .half = (int32_t)between(0, 1)};
	int64_t n = rows ? (rows - 1) * m.stride + columns : 0;
	if (m.half) {
		uint16_t *p = buffer(n * 2);
		for (int64_t i = 0; i < n; i++) {
			float v = normal();
			uint32_t bits;
			memcpy(&bits, &v, 4);
			p[i] = (uint16_t)((spoils(n / 2) ? spoilt() : bits) >> 16);
		}
		m.data = p;
		return m;
	}
	m.data = spoil(floats_of(n, 1), n);
	return m;
}

static double widen(uint16_t h) { return from_bits((uint32_t)h << 16); }

static double at(const matrix *m, int64_t row, int64_t column) {
	if (m->half) return widen(((const uint16_t *)m->data)[row * m->stride + column]);
	return ((const float *)m->data)[row * m->stride + column];
}

static double result(const void *out, int half, int64_t i) { return half ? widen(((const uint16_t *)out)[i]) : ((const float *)out)[i]; }

// ---- comparisons ----

static uint64_t seed;
static const char *shape;

// wild is set while the results that are compared depend on a huge value, or on one that is not finite: float32 may then
// overflow where double precision does not.
static int wild;

static double wary(double v) {
	if (!(fabs(v) < 1e3)) wild = 1;
	return v;
}

static void expect(const char *what, int64_t i, double got, double want, double tolerance) {
	if (!isfinite(want) ? !isfinite(got) : wild || fabs(got - want) <= tolerance * (1 + fabs(want))) return;
	fprintf(stderr, "kernels_check: seed %llu: %s of %s: element %lld is %g, want %g\n", (unsigned long long)seed, what, shape, (long long)i, got, want);
	exit(1);
}

static double tolerance(int half) { return half ? 1e-2 : 1e-3; }

// expect_normalized compares row r of a result with the layer normalization of values, which it overwrites.
static void expect_normalized(double *values, int64_t columns, int64_t r, const norm_weights *w, const void *out, int half) {
	double mean = 0, variance = 0;
	for (int64_t c = 0; c < columns; c++) mean += values[c] / (double)columns;
	for (int64_t c = 0; c < columns; c++) variance += (values[c] - mean) * (values[c] - mean) / (double)columns;
	for (int64_t c = 0; c < columns; c++) {
		values[c] = (values[c] - mean) / sqrt(variance + w->epsilon) * w->weight[c] + w->bias[c];
		expect("normalized", r * columns + c, result(out, half, r * columns + c), values[c], tolerance(half));
	}
}

// columns_of favors multiples of the vector width, which models have, and also returns others.
static int64_t columns_of(void) { return between(0, 2) ? 16 * between(1, 24) : between(2, 200); }

static norm_weights random_norm(int64_t columns) { return (norm_weights){floats_of(columns, 1), floats_of(columns, 1), 1e-3f}; }

static void check_embed(int threads) {
	int64_t rows = between(0, 70), columns = columns_of(), words = between(1, 50), positions = between(1, 50);
	embed_args a = {.rows = rows, .columns = columns, .half = (int32_t)between(0, 1)};
	a.ids = integers(rows, 0, words - 1), a.positions = integers(rows, 0, positions - 1);
	a.types = between(0, 1) ? integers(rows, 0, 1) : NULL;
	a.word = random_matrix(words, columns);
	if (between(0, 3)) a.position = random_matrix(positions, columns);
	if (between(0, 3)) a.token_type = random_matrix(2, columns);
	a.norm = random_norm(columns);
	a.out = buffer(rows * columns * (a.half ? 2 : 4));
	embed(&a, threads);
	double values[columns];
	for (int64_t r = 0; r < rows; r++) {
		wild = 0;
		for (int64_t c = 0; c < columns; c++) {
			values[c] = wary(at(&a.word, a.ids[r], c));
			if (a.position.data) values[c] += wary(at(&a.position, a.positions[r], c));
			if (a.token_type.data) values[c] += wary(at(&a.token_type, a.types ? a.types[r] : 0, c));
		}
		expect_normalized(values, columns, r, &a.norm, a.out, a.half);
	}
}

static void check_add_norm(int threads) {
	int64_t rows = between(0, 70), columns = columns_of(), more = rows + between(0, 9);
	add_norm_args a = {.rows = rows, .columns = columns, .half = (int32_t)between(0, 1)};
	a.x_rows = between(0, 1) && more ? integers(rows, 0, more - 1) : NULL;
	a.x = random_matrix(more, columns), a.y = random_matrix(rows, columns);
	a.norm = random_norm(columns);
	a.out = buffer(rows * columns * (a.half ? 2 : 4));
	add_norm(&a, threads);
	double values[columns];
	for (int64_t r = 0; r < rows; r++) {
		wild = 0;
		for (int64_t c = 0; c < columns; c++) values[c] = wary(at(&a.x, a.x_rows ? a.x_rows[r] : r, c)) + wary(at(&a.y, r, c));
		expect_normalized(values, columns, r, &a.norm, a.out, a.half);
	}
}

static double activated(double v, int function) {
	switch (function) {
	case gelu: return 0.5 * v * (1 + erf(v * sqrt(0.5)));
	case gelu_tanh: return 0.5 * v * (1 + tanh(0.79788456 * (v + 0.044715 * v * v * v)));
	case relu: return v <= 0 ? 0 : v; // NaN stays NaN
	case hyperbolic_tangent: return tanh(v);
	}
	return v;
}

// length_of is mostly short. Now and then it is up to the longest sequence of a model, to which blocks of keys and queries
// add up in other ways, and the next power of two.
static int64_t length_of(int64_t usual) { return between(0, 15) ? between(1, usual) : between(0, 3) ? between(1, 512) : 512 - between(0, 1); }

// following is the query after t to compare: all of a short sequence, and some of a long one, including the last.
static int64_t following(int64_t t, int64_t n) {
	int64_t to = t + between(1, 1 + n / 8);
	return t < n - 1 && to >= n ? n - 1 : to;
}

// wary_of sets wild if that is due to a value of a row.
static void wary_of(const matrix *m, int64_t row, int64_t from, int64_t n) {
	for (int64_t c = from; c < from + n; c++) wary(at(m, row, c));
}

static void check_attend(int threads) {
	int64_t sequences = between(1, 6), heads = between(1, 4), size = between(0, 2) ? 16 * between(1, 5) : between(1, 70);
	int shared = (int)between(0, 2); // 0: no contexts; 1: each its own; 2: runs that share one
	attend_args a = {.heads = heads, .size = size, .first_only = (int32_t)between(0, 1), .half = (int32_t)between(0, 1), .scale = 0.3f};
	int64_t rows = 0, lengths[6], starts[6], member[6], run[7], runs = 0, longest = 0;
	for (int64_t s = 0; s < sequences; s++) {
		lengths[s] = length_of(40);
		if (shared == 2 && s && lengths[s] < lengths[s - 1]) lengths[s] = lengths[s - 1]; // ascending within a run
		starts[s] = rows;
		rows += lengths[s];
		member[s] = s;
	}
	for (int64_t s = 0; s < sequences; s++)
		if (!s || shared != 2 || !between(0, 2)) run[runs++] = s;
	run[runs] = sequences;
	int64_t tokens = rows, context_starts[6] = {0}, context_lengths[6] = {0};
	if (shared)
		for (int64_t r = 0; r < runs; r++) {
			int64_t n = between(0, 3) ? length_of(30) : 0;
			for (int64_t s = run[r]; s < run[r + 1]; s++) context_starts[s] = rows, context_lengths[s] = n;
			rows += n;
		}
	for (int64_t s = 0; s < sequences; s++)
		if (lengths[s] + context_lengths[s] > longest) longest = lengths[s] + context_lengths[s];
	a.runs = runs, a.longest = longest;
#define COPY(values, n) memcpy(buffer((n) * 8), values, (size_t)(n) * 8)
	a.first = COPY(starts, sequences), a.length = COPY(lengths, sequences);
	if (shared) a.context_first = COPY(context_starts, sequences), a.context_length = COPY(context_lengths, sequences);
	if (shared == 2) a.run = COPY(run, runs + 1), a.member = COPY(member, sequences);
	int64_t asked = a.first_only ? sequences : tokens, columns = heads * size;
	a.q = random_matrix(asked, columns), a.k = random_matrix(rows, columns), a.v = random_matrix(rows, columns);
	a.scratch = buffer(threads * attend_scratch(longest, size) * 4);
	a.out = buffer(asked * columns * (a.half ? 2 : 4));
	attend(&a, threads);
	for (int64_t s = 0; s < sequences; s++) {
		wild = 0;
		for (int64_t i = 0; i < (a.first_only ? 1 : lengths[s]); i++) wary_of(&a.q, a.first_only ? s : starts[s] + i, 0, columns);
		for (int64_t i = 0; i < context_lengths[s]; i++) wary_of(&a.k, context_starts[s] + i, 0, columns), wary_of(&a.v, context_starts[s] + i, 0, columns);
		for (int64_t i = 0; i < lengths[s]; i++) wary_of(&a.k, starts[s] + i, 0, columns), wary_of(&a.v, starts[s] + i, 0, columns);
		for (int64_t t = 0; t < (a.first_only ? 1 : lengths[s]); t = following(t, lengths[s]))
			for (int64_t h = 0; h < heads; h++) {
				int64_t query = a.first_only ? s : starts[s] + t, n = context_lengths[s] + lengths[s];
				double weights[n], total = 0, most = -INFINITY;
				for (int64_t i = 0; i < n; i++) {
					int64_t row = i < context_lengths[s] ? context_starts[s] + i : starts[s] + i - context_lengths[s];
					weights[i] = 0;
					for (int64_t c = 0; c < size; c++) weights[i] += at(&a.q, query, h * size + c) * a.scale * at(&a.k, row, h * size + c);
					most = fmax(most, weights[i]);
				}
				for (int64_t i = 0; i < n; i++) total += weights[i] = exp(weights[i] - most);
				for (int64_t c = 0; c < size; c++) {
					double want = 0;
					for (int64_t i = 0; i < n; i++) {
						int64_t row = i < context_lengths[s] ? context_starts[s] + i : starts[s] + i - context_lengths[s];
						want += weights[i] / total * at(&a.v, row, h * size + c);
					}
					int64_t i = query * columns + h * size + c;
					expect("attention", i, result(a.out, a.half, i), want, tolerance(a.half));
				}
			}
	}
}

static void check_attend_near(int threads) {
	int64_t sequences = between(1, 5), heads = between(1, 3), size = between(0, 1) ? 16 * between(1, 4) : between(1, 40);
	attend_near_args near = {.window = between(0, 60)};
	attend_args *a = &near.all;
	*a = (attend_args){.heads = heads, .size = size, .first_only = (int32_t)between(0, 1), .half = (int32_t)between(0, 1), .scale = 0.3f, .runs = sequences};
	int64_t rows = 0, lengths[5], starts[5], longest = 0;
	for (int64_t s = 0; s < sequences; s++) {
		lengths[s] = length_of(120), starts[s] = rows, rows += lengths[s];
		if (lengths[s] > longest) longest = lengths[s];
	}
	a->longest = longest, a->first = COPY(starts, sequences), a->length = COPY(lengths, sequences);
	int64_t asked = a->first_only ? sequences : rows, columns = heads * size;
	a->q = random_matrix(asked, columns), a->k = random_matrix(rows, columns), a->v = random_matrix(rows, columns);
	a->scratch = buffer(threads * attend_scratch(longest, size) * 4);
	a->out = buffer(asked * columns * (a->half ? 2 : 4));
	attend_near(&near, threads);
	for (int64_t s = 0; s < sequences; s++) {
		wild = 0;
		for (int64_t i = 0; i < (a->first_only ? 1 : lengths[s]); i++) wary_of(&a->q, a->first_only ? s : starts[s] + i, 0, columns);
		for (int64_t i = 0; i < lengths[s]; i++) wary_of(&a->k, starts[s] + i, 0, columns), wary_of(&a->v, starts[s] + i, 0, columns);
		for (int64_t t = 0; t < (a->first_only ? 1 : lengths[s]); t = following(t, lengths[s]))
			for (int64_t h = 0; h < heads; h++) {
				int64_t query = a->first_only ? s : starts[s] + t, low = t > near.window ? t - near.window : 0;
				int64_t high = t + near.window < lengths[s] ? t + near.window + 1 : lengths[s];
				double weights[high], total = 0, most = -INFINITY;
				for (int64_t i = low; i < high; i++) {
					weights[i] = 0;
					for (int64_t c = 0; c < size; c++) weights[i] += at(&a->q, query, h * size + c) * a->scale * at(&a->k, starts[s] + i, h * size + c);
					most = fmax(most, weights[i]);
				}
				for (int64_t i = low; i < high; i++) total += weights[i] = exp(weights[i] - most);
				for (int64_t c = 0; c < size; c++) {
					double want = 0;
					for (int64_t i = low; i < high; i++) want += weights[i] / total * at(&a->v, starts[s] + i, h * size + c);
					int64_t i = query * columns + h * size + c;
					expect("local attention", i, result(a->out, a->half, i), want, tolerance(a->half));
				}
			}
	}
}

static void check_rope(int threads) {
	int64_t rows = between(0, 40), heads = between(1, 4), size = 2 * (between(0, 1) ? 16 * between(1, 3) : between(1, 40)), positions = between(1, 50);
	matrix m = random_matrix(rows, heads * size);
	int64_t n = rows ? (rows - 1) * m.stride + heads * size : 0, bytes = m.half ? 2 : 4;
	rope_args a = {.rows = rows, .heads = heads, .size = size, .stride = m.stride, .half = m.half};
	a.positions = integers(rows, 0, positions - 1), a.cos = floats_of(positions * size / 2, 1), a.sin = floats_of(positions * size / 2, 1);
	a.data = memcpy(buffer(n * bytes), m.data, (size_t)(n * bytes));
	rope(&a, threads);
	for (int64_t r = 0; r < rows; r++)
		for (int64_t h = 0; h < heads; h++)
			for (int64_t k = 0; k < size / 2; k++) {
				int64_t i = h * size + k, angle = a.positions[r] * size / 2 + k;
				wild = 0;
				double x = wary(at(&m, r, i)), y = wary(at(&m, r, i + size / 2));
				expect("rotated", r * m.stride + i, result(a.data, a.half, r * m.stride + i), x * a.cos[angle] - y * a.sin[angle], tolerance(a.half));
				expect("rotated", r * m.stride + i + size / 2, result(a.data, a.half, r * m.stride + i + size / 2), y * a.cos[angle] + x * a.sin[angle], tolerance(a.half));
			}
}

static void check_gate(int threads) {
	int64_t rows = between(0, 40), columns = columns_of();
	gate_args a = {.rows = rows, .columns = columns, .function = (int32_t)between(gelu, relu), .half = (int32_t)between(0, 1)};
	a.x = random_matrix(rows, 2 * columns);
	a.out = buffer(rows * columns * (a.half ? 2 : 4));
	gate(&a, threads);
	for (int64_t r = 0; r < rows; r++)
		for (int64_t c = 0; c < columns; c++) {
			wild = 0;
			double want = activated(wary(at(&a.x, r, c)), a.function) * wary(at(&a.x, r, columns + c));
			expect("gated", r * columns + c, result(a.out, a.half, r * columns + c), want, tolerance(a.half));
		}
}

static void check_sum_norm(int threads) {
	int64_t rows = between(0, 70), columns = columns_of(), more = rows + between(0, 9);
	sum_norm_args a = {.rows = rows, .columns = columns, .half = (int32_t)between(0, 1)};
	a.x_rows = between(0, 1) && more ? integers(rows, 0, more - 1) : NULL;
	a.x = random_matrix(more, columns);
	if (between(0, 2)) a.y = random_matrix(rows, columns);
	if (between(0, 2)) a.sum = buffer(rows * columns * 4);
	a.norm = random_norm(columns);
	a.out = buffer(rows * columns * (a.half ? 2 : 4));
	sum_norm(&a, threads);
	double values[columns];
	for (int64_t r = 0; r < rows; r++) {
		wild = 0;
		for (int64_t c = 0; c < columns; c++) {
			values[c] = wary(at(&a.x, a.x_rows ? a.x_rows[r] : r, c)) + (a.y.data ? wary(at(&a.y, r, c)) : 0);
			if (a.sum) expect("sum", r * columns + c, a.sum[r * columns + c], values[c], 1e-5);
		}
		expect_normalized(values, columns, r, &a.norm, a.out, a.half);
	}
}

static void check_mean(int threads) {
	int64_t sequences = between(0, 6), columns = columns_of(), rows = 0, lengths[6], starts[6];
	for (int64_t s = 0; s < sequences; s++) lengths[s] = between(1, 40), starts[s] = rows, rows += lengths[s];
	mean_args a = {.sequences = sequences, .columns = columns, .first = COPY(starts, sequences), .length = COPY(lengths, sequences)};
	a.x = spoil(floats_of(rows * columns, 1), rows * columns), a.out = buffer(sequences * columns * 4);
	mean(&a, threads);
	for (int64_t s = 0; s < sequences; s++)
		for (int64_t c = 0; c < columns; c++) {
			double want = 0;
			wild = 0;
			for (int64_t r = 0; r < lengths[s]; r++) want += wary(a.x[(starts[s] + r) * columns + c]) / (double)lengths[s];
			expect("mean", s * columns + c, a.out[s * columns + c], want, 1e-4);
		}
}

static void check_dense(int threads) {
	int64_t rows = between(0, 20), in = columns_of(), out = between(0, 1) ? between(1, 6) : columns_of(), wide = (out + 15) / 16 * 16;
	dense_args a = {.rows = rows, .in = in, .out = out, .function = (int32_t)between(-1, hyperbolic_tangent)};
	a.x = spoil(floats_of(rows * in, 1), rows * in), a.weight = floats_of(in * wide, 0.3f), a.bias = floats_of(wide, 1);
	a.y = buffer(rows * out * 4);
	dense(&a, threads);
	for (int64_t r = 0; r < rows; r++) {
		wild = 0;
		for (int64_t c = 0; c < out; c++) {
			double want = a.bias[c];
			for (int64_t i = 0; i < in; i++) want += wary(a.x[r * in + i]) * a.weight[i * wide + c];
			expect("dense", r * out + c, a.y[r * out + c], activated(want, a.function), 1e-3);
		}
	}
}

int main(int argc, char **argv) {
	static const struct {
		const char *name;
		void (*check)(int threads);
	} checks[] = {{"embed", check_embed}, {"add_norm", check_add_norm}, {"attend", check_attend},
		{"attend_near", check_attend_near}, {"rope", check_rope}, {"gate", check_gate}, {"sum_norm", check_sum_norm}, {"mean", check_mean}, {"dense", check_dense}};
	double seconds = argc > 1 ? atof(argv[1]) : 5;
	uint64_t first = argc > 2 ? strtoull(argv[2], NULL, 10) : (uint64_t)time(NULL);
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	double end = (double)now.tv_sec + now.tv_nsec * 1e-9 + seconds;
	seed = first;
	do {
		for (size_t i = 0; i < sizeof checks / sizeof *checks; i++) {
			state = seed * 31 + i;
			shape = checks[i].name;
			spoiled = (int)between(0, 1);
			checks[i].check((int)between(1, maxThreads));
			release();
		}
		seed++;
		clock_gettime(CLOCK_MONOTONIC, &now);
	} while ((double)now.tv_sec + now.tv_nsec * 1e-9 < end);
	printf("kernels_check: seeds %llu to %llu\n", (unsigned long long)first, (unsigned long long)(seed - 1));
	return 0;
}
