#include "kernels.h"

#include <dlfcn.h>
#include <math.h>
#include <stdatomic.h>
#include <stddef.h>

// A vector of 16 floats is one AVX-512 register, two of AVX2, four of SSE or NEON: the compiler splits it for the target.
// On x86 it compiles the functions for each level, and one is selected when the program starts.
typedef float vec __attribute__((vector_size(64), aligned(4), may_alias));
typedef int32_t ints __attribute__((vector_size(64)));
typedef uint32_t words __attribute__((vector_size(64)));
typedef uint16_t halves __attribute__((vector_size(32), aligned(2), may_alias));
enum { W = 16 };

#define INLINE static inline __attribute__((always_inline))
#if defined(EACH_CPU) // on the command line: make sanitize checks one level at a time
#elif defined(__x86_64__) && __GNUC__ >= 12
#define EACH_CPU __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#elif defined(__x86_64__)
#define EACH_CPU __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define EACH_CPU
#endif

// ---- threads ----

// job distributes n tasks among threads.
typedef struct {
	void (*task)(const void *args, int64_t from, int64_t to, int thread);
	const void *args;
	int64_t n, grain;
	_Atomic int64_t next;
	_Atomic int threads;
} job;

static void worker(void *data) {
	job *j = data;
	int thread = atomic_fetch_add(&j->threads, 1);
	for (;;) {
		int64_t from = atomic_fetch_add(&j->next, j->grain);
		if (from >= j->n) return;
		j->task(j->args, from, from + j->grain < j->n ? from + j->grain : j->n, thread);
	}
}

typedef void (*gomp_parallel)(void (*)(void *), void *, unsigned, unsigned);

void share(void (*task)(const void *, int64_t, int64_t, int), const void *args, int64_t n, int64_t grain, int threads) {
	job j = {.task = task, .args = args, .n = n, .grain = grain};
	gomp_parallel parallel = threads > 1 && n > grain ? (gomp_parallel)dlsym(RTLD_DEFAULT, "GOMP_parallel") : NULL;
	if (parallel)
		parallel(worker, &j, (unsigned)threads, 0);
	else
		worker(&j);
}

// ---- numbers ----

INLINE vec all(float v) { return (vec){} + v; }

INLINE vec blend(ints yes, vec a, vec b) { return (vec)((yes & (ints)a) | (~yes & (ints)b)); }

INLINE vec larger(vec a, vec b) { return blend(a > b, a, b); }

INLINE vec absolute(vec v) { return (vec)((ints)v & 0x7fffffff); }

INLINE float sum(vec v) {
	float s = 0;
	for (int i = 0; i < W; i++) s += v[i];
	return s;
}

INLINE float largest(vec v) {
	float m = v[0];
	for (int i = 1; i < W; i++) m = v[i] > m ? v[i] : m;
	return m;
}

// nearest rounds to the nearest integer, ties to even. |v| is below 2^22.
INLINE vec nearest(vec v) {
	const vec magic = all(12582912.0f); // 1.5 * 2^23
	return (v + magic) - magic;
}

// exponential is e^v by the polynomial of Cephes' expf, for v <= 88; 0 below -87.
INLINE vec exponential(vec v) {
	ints tiny = v < all(-87.0f);
	vec n = nearest(v * 1.44269504f);
	vec r = v - n * 0.693359375f - n * -2.12194440e-4f;
	vec p = all(1.9875691500e-4f);
	p = p * r + 1.3981999507e-3f;
	p = p * r + 8.3334519073e-3f;
	p = p * r + 4.1665795894e-2f;
	p = p * r + 1.6666665459e-1f;
	p = p * r + 5.0000001201e-1f;
	p = p * r * r + r + 1.0f;
	ints power = (__builtin_convertvector(n, ints) + 127) << 23;
	return blend(tiny, all(0), p * (vec)power);
}

// error_function is erf(v) to 1.5e-7 (Abramowitz and Stegun 7.1.26).
INLINE vec error_function(vec v) {
	vec size = absolute(v), t = 1.0f / (1.0f + 0.3275911f * size);
	vec p = all(1.061405429f);
	p = p * t - 1.453152027f;
	p = p * t + 1.421413741f;
	p = p * t - 0.284496736f;
	p = p * t + 0.254829592f;
	vec e = 1.0f - p * t * exponential(-size * size);
	return blend(v < all(0), -e, e);
}

INLINE vec activate(vec v, int function) {
	switch (function) {
	case gelu:
		return 0.5f * v * (1.0f + error_function(v * 0.70710678f));
	case gelu_tanh: { // tanh(u) = 1 - 2 / (e^2u + 1)
		vec u = 0.79788456f * (v + 0.044715f * v * v * v);
		u = blend(u > all(20), all(20), u);
		return 0.5f * v * (2.0f - 2.0f / (exponential(2.0f * u) + 1.0f));
	}
	case relu:
		return blend(v <= all(0), all(0), v); // NaN stays NaN
	case hyperbolic_tangent: {
		vec u = blend(v > all(20), all(20), v);
		return 1.0f - 2.0f / (exponential(2.0f * u) + 1.0f);
	}
	}
	return v;
}

// ---- rows ----

INLINE vec from_halves(halves h) { return (vec)(__builtin_convertvector(h, words) << 16); }

INLINE halves to_halves(vec v) { // to the nearest, ties to even; NaN stays NaN
	words w = (words)v, nan = (words)(v != v);
	return __builtin_convertvector((((w + 0x7fff + ((w >> 16) & 1)) & ~nan) | ((w | 1 << 22) & nan)) >> 16, halves);
}

// take reads up to 16 values of a row; values beyond n are 0.
INLINE vec take(const matrix *m, int64_t row, int64_t at, int64_t n) {
	vec v = all(0);
	int64_t from = row * m->stride + at;
	if (m->half) {
		const uint16_t *p = (const uint16_t *)m->data + from;
		halves h = {0};
		if (n >= W) h = *(const halves *)p;
		else for (int i = 0; i < n; i++) h[i] = p[i];
		return from_halves(h);
	}
	const float *p = (const float *)m->data + from;
	if (n >= W) v = *(const vec *)p;
	else for (int i = 0; i < n; i++) v[i] = p[i];
	return v;
}

// ahead prefetches values that are read soon, because the stride is too large for the hardware prefetcher.
INLINE void ahead(const matrix *m, int64_t row, int64_t at) {
	__builtin_prefetch((const char *)m->data + (row * m->stride + at) * (m->half ? 2 : 4));
}

INLINE vec floats(const float *p, int64_t n) {
	vec v = all(0);
	if (n >= W) return *(const vec *)p;
	for (int i = 0; i < n; i++) v[i] = p[i];
	return v;
}

INLINE void put(void *out, int half, int64_t at, vec v, int64_t n) {
	if (half) {
		uint16_t *p = (uint16_t *)out + at;
		halves h = to_halves(v);
		if (n >= W) *(halves *)p = h;
		else for (int i = 0; i < n; i++) p[i] = h[i];
		return;
	}
	float *p = (float *)out + at;
	if (n >= W) *(vec *)p = v;
	else for (int i = 0; i < n; i++) p[i] = v[i];
}

// normalize writes the layer normalization of row to a row of out.
INLINE void normalize(const float *row, int64_t columns, int64_t at, const norm_weights *w, void *out, int half) {
	vec total = all(0), squares = all(0);
	for (int64_t c = 0; c < columns; c += W) total += floats(row + c, columns - c);
	float mean = sum(total) / (float)columns;
	for (int64_t c = 0; c + W <= columns; c += W) {
		vec d = *(const vec *)(row + c) - mean;
		squares += d * d;
	}
	float rest = 0;
	for (int64_t c = columns / W * W; c < columns; c++) rest += (row[c] - mean) * (row[c] - mean);
	float by = 1.0f / sqrtf((sum(squares) + rest) / (float)columns + w->epsilon);
	for (int64_t c = 0; c < columns; c += W) {
		int64_t n = columns - c;
		vec v = (floats(row + c, n) - mean) * by * floats(w->weight + c, n) + floats(w->bias + c, n);
		put(out, half, at * columns + c, v, n);
	}
}

// ---- embeddings, residual connections ----

EACH_CPU static void embed_rows(const void *args, int64_t from, int64_t to, int thread) {
	const embed_args *a = args;
	float row[a->columns];
	for (int64_t r = from; r < to; r++) {
		for (int64_t c = 0; c < a->columns; c += W) {
			int64_t n = a->columns - c;
			vec v = take(&a->word, a->ids[r], c, n);
			if (a->position.data) v += take(&a->position, a->positions[r], c, n);
			if (a->token_type.data) v += take(&a->token_type, a->types ? a->types[r] : 0, c, n);
			put(row, 0, c, v, n);
		}
		normalize(row, a->columns, r, &a->norm, a->out, a->half);
	}
}

void embed(const embed_args *a, int threads) { share(embed_rows, a, a->rows, 16, threads); }

EACH_CPU static void add_norm_rows(const void *args, int64_t from, int64_t to, int thread) {
	const add_norm_args *a = args;
	float row[a->columns];
	for (int64_t r = from; r < to; r++) {
		int64_t x = a->x_rows ? a->x_rows[r] : r;
		for (int64_t c = 0; c < a->columns; c += W) {
			int64_t n = a->columns - c;
			put(row, 0, c, take(&a->x, x, c, n) + take(&a->y, r, c, n), n);
		}
		normalize(row, a->columns, r, &a->norm, a->out, a->half);
	}
}

void add_norm(const add_norm_args *a, int threads) { share(add_norm_rows, a, a->rows, 16, threads); }

// ---- attention ----

enum { Q = 4 }; // queries per block

// matmul is c [4, n] = a [4, k] * b [k, n]; n is a multiple of 16.
INLINE void matmul(const float *a, int64_t as, const float *b, int64_t bs, float *c, int64_t cs, int64_t k, int64_t n) {
	int64_t j = 0;
	for (; j + 2 * W <= n; j += 2 * W) {
		vec s[Q][2] = {0};
		for (int64_t p = 0; p < k; p++) {
			vec b0 = *(const vec *)(b + p * bs + j), b1 = *(const vec *)(b + p * bs + j + W);
#pragma GCC unroll 4
			for (int r = 0; r < Q; r++) {
				s[r][0] += a[r * as + p] * b0;
				s[r][1] += a[r * as + p] * b1;
			}
		}
#pragma GCC unroll 4
		for (int r = 0; r < Q; r++) {
			*(vec *)(c + r * cs + j) = s[r][0];
			*(vec *)(c + r * cs + j + W) = s[r][1];
		}
	}
	if (j < n) {
		vec s[Q] = {0};
		for (int64_t p = 0; p < k; p++) {
			vec b0 = *(const vec *)(b + p * bs + j);
#pragma GCC unroll 4
			for (int r = 0; r < Q; r++) s[r] += a[r * as + p] * b0;
		}
#pragma GCC unroll 4
		for (int r = 0; r < Q; r++) *(vec *)(c + r * cs + j) = s[r];
	}
}

static int64_t up(int64_t n) { return (n + W - 1) / W * W; }

// softmax replaces scores by unnormalized weights and returns their sum, by which the caller divides.
INLINE float softmax(float *scores, int64_t n) {
	vec m = all(-INFINITY), total = all(0);
	for (int64_t j = n; j < up(n); j++) scores[j] = -INFINITY;
	for (int64_t j = 0; j < n; j += W) m = larger(m, *(vec *)(scores + j));
	float max_score = largest(m);
	for (int64_t j = 0; j < n; j += W) {
		vec e = exponential(*(vec *)(scores + j) - max_score);
		*(vec *)(scores + j) = e;
		total += e;
	}
	return sum(total);
}

// attend_room is the scratch of a thread, for one sequence and head: keys [size, longest], values [longest, size], queries
// and their results [4, size], scores [4, longest].
typedef struct {
	float *keys, *values, *queries, *results, *scores;
} attend_room;

// divide divides the scratch of a thread, and returns its size in bytes.
static int64_t divide(attend_room *m, char *memory, int64_t longest, int64_t size) {
	const int64_t wide = up(size), deep = up(longest);
	int64_t at = 0;
#define PART(field, n) m->field = (float *)(memory + at), at = AFTER_PART(memory, at, (n) * 4)
	PART(keys, deep * wide);
	PART(values, deep * wide);
	PART(queries, Q * wide);
	PART(results, Q * wide);
	PART(scores, Q * deep);
#undef PART
	return at;
}

int64_t attend_scratch(int64_t longest, int64_t size) {
	attend_room m;
	return divide(&m, NULL, longest, size) / 4;
}

// load writes rows [first, first + n) of the keys and values of a head to columns at and rows at of the scratch.
INLINE void load(const attend_args *a, int64_t first, int64_t n, int64_t head, float *keys, int64_t stride, float *values, int64_t at) {
	const int64_t size = a->size, wide = up(size);
	for (int64_t t = 0; t < n; t++)
		for (int64_t c = 0; c < wide; c += W) {
			vec k = take(&a->k, first + t, head + c, size - c);
			ahead(&a->k, first + t, head + c + size);
			ahead(&a->v, first + t, head + c + size);
			ahead(&a->q, first + t, head + c + size);
			for (int i = 0; i < W; i++) keys[(c + i) * stride + at + t] = k[i];
			*(vec *)(values + (at + t) * wide + c) = take(&a->v, first + t, head + c, size - c);
		}
}

EACH_CPU static void attend_some(const void *args, int64_t from, int64_t to, int thread) {
	const attend_args *a = args;
	const int64_t size = a->size, wide = up(size);
	attend_room m;
	divide(&m, (char *)(a->scratch + thread * attend_scratch(a->longest, size)), a->longest, size);
	float *keys = m.keys, *values = m.values, *queries = m.queries, *results = m.results, *scores = m.scores;
	for (int64_t task = from; task < to; task++) {
		// the longest first, so that no thread starts it when the others are done
		int64_t run = a->runs - 1 - task / a->heads, at = task % a->heads * size;
		int64_t begin = a->run ? a->run[run] : run, end = a->run ? a->run[run + 1] : run + 1;
		int64_t last = a->member ? a->member[end - 1] : end - 1; // the longest
		int64_t context = a->context_length ? a->context_length[last] : 0, stride = up(context + a->length[last]);
		if (context) load(a, a->context_first[last], context, at, keys, stride, values, 0);
		for (int64_t i = begin; i < end; i++) {
			int64_t s = a->member ? a->member[i] : i;
			int64_t first = a->first[s], length = a->length[s], total = context + length, padded = up(total);
			load(a, first, length, at, keys, stride, values, context);
			for (int64_t d = 0; d < wide; d++)
				for (int64_t t = total; t < padded; t++) keys[d * stride + t] = 0;
			int64_t asked = a->first_only ? 1 : length, base = a->first_only ? s : first;
			for (int64_t t = 0; t < asked; t += Q) {
				int64_t n = asked - t < Q ? asked - t : Q;
				float by[Q];
				for (int64_t r = 0; r < Q; r++)
					for (int64_t c = 0; c < wide; c += W) {
						vec q = all(0);
						if (r < n) q = take(&a->q, base + t + r, at + c, size - c) * a->scale;
						*(vec *)(queries + r * wide + c) = q;
					}
				matmul(queries, wide, keys, stride, scores, padded, wide, padded);
				for (int64_t r = 0; r < n; r++) by[r] = 1.0f / softmax(scores + r * padded, total);
				matmul(scores, padded, values, wide, results, wide, total, wide);
				for (int64_t r = 0; r < n; r++)
					for (int64_t c = 0; c < wide; c += W)
						put(a->out, a->half, (base + t + r) * a->heads * size + at + c, *(vec *)(results + r * wide + c) * by[r], size - c);
			}
		}
	}
}

void attend(const attend_args *a, int threads) { share(attend_some, a, a->runs * a->heads, 4, threads); }

// ---- classifier ----

EACH_CPU static void dense_rows(const void *args, int64_t from, int64_t to, int thread) {
	const dense_args *a = args;
	const int64_t wide = up(a->out);
	float rows[Q * a->in], results[Q * wide];
	for (int64_t block = from; block < to; block++) {
		int64_t first = block * Q, n = a->rows - first < Q ? a->rows - first : Q;
		for (int64_t i = 0; i < Q * a->in; i++) rows[i] = i < n * a->in ? a->x[first * a->in + i] : 0;
		matmul(rows, a->in, a->weight, wide, results, wide, a->in, wide);
		for (int64_t r = 0; r < n; r++)
			for (int64_t c = 0; c < wide; c += W)
				put(a->y, 0, (first + r) * a->out + c, activate(*(vec *)(results + r * wide + c) + *(const vec *)(a->bias + c), a->function), a->out - c);
	}
}

void dense(const dense_args *a, int threads) { share(dense_rows, a, (a->rows + Q - 1) / Q, 1, threads); }

#include "modernbert_kernels.h"
