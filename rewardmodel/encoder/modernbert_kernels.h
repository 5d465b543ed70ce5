// Included by kernels.c, whose inline functions it uses.
#include "modernbert.h"

EACH_CPU static void rope_rows(const void *args, int64_t from, int64_t to, int thread) {
	const rope_args *a = args;
	const int64_t half = a->size / 2;
	for (int64_t r = from; r < to; r++) {
		const float *cosines = a->cos + a->positions[r] * half, *sines = a->sin + a->positions[r] * half;
		for (int64_t h = 0; h < a->heads; h++) {
			const matrix m = {.data = a->data, .stride = a->stride, .half = a->half};
			const int64_t at = h * a->size, out = r * a->stride + at;
			for (int64_t c = 0; c < half; c += W) {
				const int64_t n = half - c;
				vec x = take(&m, r, at + c, n), y = take(&m, r, at + half + c, n), cosine = floats(cosines + c, n), sine = floats(sines + c, n);
				put(a->data, a->half, out + c, x * cosine - y * sine, n);
				put(a->data, a->half, out + half + c, y * cosine + x * sine, n);
			}
		}
	}
}

void rope(const rope_args *a, int threads) { share(rope_rows, a, a->rows, 16, threads); }

// The scratch is that of attend. Scores are of the keys that any query of a block can see, from a multiple of 16.
EACH_CPU static void attend_near_some(const void *args, int64_t from, int64_t to, int thread) {
	const attend_near_args *near = args;
	const attend_args *a = &near->all;
	const int64_t size = a->size, wide = up(size);
	attend_room m;
	divide(&m, (char *)(a->scratch + thread * attend_scratch(a->longest, size)), a->longest, size);
	float *keys = m.keys, *values = m.values, *queries = m.queries, *results = m.results, *scores = m.scores;
	for (int64_t task = from; task < to; task++) {
		int64_t s = a->runs - 1 - task / a->heads, at = task % a->heads * size; // the longest first
		int64_t first = a->first[s], length = a->length[s], stride = up(length);
		int64_t asked = a->first_only ? 1 : length, base = a->first_only ? s : first;
		int64_t seen = a->first_only && near->window < length ? near->window + 1 : length;
		load(a, first, seen, at, keys, stride, values, 0);
		for (int64_t d = 0; d < wide; d++)
			for (int64_t t = seen; t < up(seen); t++) keys[d * stride + t] = 0;
		for (int64_t t = 0; t < asked; t += Q) {
			int64_t n = asked - t < Q ? asked - t : Q;
			int64_t low = t - near->window > 0 ? (t - near->window) / W * W : 0;
			int64_t high = t + n + near->window < length ? t + n + near->window : length, padded = up(high - low);
			float by[Q];
			for (int64_t r = 0; r < Q; r++)
				for (int64_t c = 0; c < wide; c += W) {
					vec q = all(0);
					if (r < n) q = take(&a->q, base + t + r, at + c, size - c) * a->scale;
					*(vec *)(queries + r * wide + c) = q;
				}
			matmul(queries, wide, keys + low, stride, scores, padded, wide, padded);
			for (int64_t r = 0; r < n; r++) {
				float *row = scores + r * padded;
				for (int64_t j = 0; j < t + r - near->window - low; j++) row[j] = -INFINITY;
				for (int64_t j = t + r + near->window + 1 - low; j < high - low; j++) row[j] = -INFINITY;
				by[r] = 1.0f / softmax(row, high - low);
			}
			matmul(scores, padded, values + low * wide, wide, results, wide, high - low, wide);
			for (int64_t r = 0; r < n; r++)
				for (int64_t c = 0; c < wide; c += W)
					put(a->out, a->half, (base + t + r) * a->heads * size + at + c, *(vec *)(results + r * wide + c) * by[r], size - c);
		}
	}
}

void attend_near(const attend_near_args *a, int threads) { share(attend_near_some, a, a->all.runs * a->all.heads, 4, threads); }

EACH_CPU static void gate_rows(const void *args, int64_t from, int64_t to, int thread) {
	const gate_args *a = args;
	for (int64_t r = from; r < to; r++)
		for (int64_t c = 0; c < a->columns; c += W) {
			const int64_t n = a->columns - c;
			put(a->out, a->half, r * a->columns + c, activate(take(&a->x, r, c, n), a->function) * take(&a->x, r, a->columns + c, n), n);
		}
}

void gate(const gate_args *a, int threads) { share(gate_rows, a, a->rows, 8, threads); }

EACH_CPU static void sum_norm_rows(const void *args, int64_t from, int64_t to, int thread) {
	const sum_norm_args *a = args;
	float row[a->columns];
	for (int64_t r = from; r < to; r++) {
		int64_t x = a->x_rows ? a->x_rows[r] : r;
		for (int64_t c = 0; c < a->columns; c += W) {
			const int64_t n = a->columns - c;
			vec v = take(&a->x, x, c, n);
			if (a->y.data) v += take(&a->y, r, c, n);
			put(row, 0, c, v, n);
			if (a->sum) put(a->sum, 0, r * a->columns + c, v, n);
		}
		normalize(row, a->columns, r, &a->norm, a->out, a->half);
	}
}

void sum_norm(const sum_norm_args *a, int threads) { share(sum_norm_rows, a, a->rows, 16, threads); }

EACH_CPU static void mean_rows(const void *args, int64_t from, int64_t to, int thread) {
	const mean_args *a = args;
	for (int64_t s = from; s < to; s++)
		for (int64_t c = 0; c < a->columns; c += W) {
			const int64_t n = a->columns - c;
			vec total = all(0);
			for (int64_t r = 0; r < a->length[s]; r++) total += floats(a->x + (a->first[s] + r) * a->columns + c, n);
			put(a->out, 0, s * a->columns + c, total / (float)a->length[s], n);
		}
}

void mean(const mean_args *a, int threads) { share(mean_rows, a, a->sequences, 1, threads); }
