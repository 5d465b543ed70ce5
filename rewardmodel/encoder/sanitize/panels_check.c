// panels_check runs random models in int8 and bf16 on every level of panels that the processor has, with 1 to 4 threads.
// All levels of int8 must give the same bits, and so must all levels of bf16 that have no instructions for it. Each must
// give the same bits for every division into panels, and results close to plain loops in double precision that round the
// inputs of linear layers as the level does. A value that is not finite stays in its sequences, and is not lost there.
//
//	panels_check [SECONDS [SEED]]            compare
//	panels_check bench HIDDEN HEADS LAYERS   CPU time per token of each level, for 32 sequences of 8 to 48 tokens
#include "../panel_levels.h"
#include "../kernels.h"
#include "random.h"
#include "threads.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static uint64_t seed;

static double now(void) {
	struct timespec t;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (double)t.tv_sec + t.tv_nsec * 1e-9;
}

static void *memory(int64_t bytes) {
	void *p; // exactly its size, so that AddressSanitizer sees the first byte beyond
	if (posix_memalign(&p, 64, bytes > 0 ? (size_t)bytes : 1)) abort();
	memset(p, 0xaa, (size_t)bytes);
	return p;
}

enum { maxLayers = 12, maxSegments = 64, vocabulary = 50, positions = 520 };

// plain is a linear layer before it is packed.
typedef struct { int64_t in, out; int8_t *weight; uint16_t *halves; float *scale, *bias; } plain;

static plain layers[maxLayers][5];
static panel_layer packed[maxLayers];
static panel_batch batch;
static int64_t panel[maxSegments + 1], first[maxSegments], length[maxSegments], context[maxSegments], result[maxSegments];
static int64_t ids[1 << 16], places[1 << 16], types[1 << 16];
static void *kept[512];
static int kept_count;

static void *keep(void *p) { return kept[kept_count++] = p; }

static float *values(int64_t n, int64_t room, float mean, float spread) {
	float *p = keep(memory(room * 4));
	for (int64_t i = 0; i < room; i++) p[i] = i < n ? mean + spread * normal() : 0;
	return p;
}

static float widened(uint16_t half) {
	uint32_t bits = (uint32_t)half << 16;
	float v;
	memcpy(&v, &bits, 4);
	return v;
}

// rounded is v as bf16.
static uint16_t rounded(double v) {
	float f = (float)v;
	uint32_t bits;
	memcpy(&bits, &f, 4);
	return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

static panel_linear random_linear(plain *p, int64_t in, int64_t out) {
	*p = (plain){.in = in, .out = out, .bias = values(out, out, 0, 0.1f)};
	void *packed = keep(memory(panel_bytes(batch.half, in, out)));
	if (batch.half) {
		p->halves = keep(memory(in * out * 2));
		for (int64_t i = 0; i < in * out; i++) p->halves[i] = rounded(normal() / sqrtf((float)in));
		return bf16_pack(packed, p->halves, p->bias, in, out);
	}
	p->weight = keep(memory(in * out)), p->scale = values(out, out, 0, 0);
	for (int64_t i = 0; i < in * out; i++) p->weight[i] = (int8_t)between(-127, 127);
	for (int64_t n = 0; n < out; n++) p->scale[n] = (0.5f + 0.1f * (float)between(0, 9)) / (73 * sqrtf((float)(in * int8_rotation(in))));
	return int8_pack(packed, p->weight, p->scale, p->bias, in, out);
}

// table is random embeddings, and table_at one of their values.
static const void *table(int64_t n, float spread) {
	float *v = values(n, n, 0, spread);
	if (!batch.half) return v;
	uint16_t *halves = keep(memory(n * 2));
	for (int64_t i = 0; i < n; i++) halves[i] = rounded(v[i]);
	return halves;
}

static double table_at(const void *t, int64_t i) { return !t ? 0 : batch.half ? widened(((const uint16_t *)t)[i]) : ((const float *)t)[i]; }

static panel_norm random_norm(int64_t n) {
	int64_t room = (n + 15) / 16 * 16;
	return (panel_norm){values(n, room, 1, 0.1f), values(n, room, 0, 0.1f)};
}

static void random_model(int half, int64_t hidden, int64_t heads, int64_t feed, int64_t count, int function) {
	memset(&batch, 0, sizeof batch);
	batch.half = half, batch.hidden = hidden, batch.heads = heads, batch.intermediate = feed, batch.layer_count = count, batch.function = function;
	batch.scale = 1 / sqrtf((float)(hidden / heads)), batch.epsilon = 1e-5f, batch.layers = packed;
	batch.word = table(vocabulary * hidden, 1), batch.position = table(positions * hidden, 0.3f);
	batch.token_type = between(0, 1) ? table(2 * hidden, 0.3f) : NULL, batch.embed_norm = random_norm(hidden);
	for (int64_t i = 0; i < count; i++) {
		plain *p = layers[i];
		int last = i == count - 1;
		packed[i] = (panel_layer){
			.query = random_linear(&p[0], hidden, last ? hidden : 3 * hidden), .attended = random_linear(&p[2], hidden, hidden),
			.intermediate = random_linear(&p[3], hidden, feed), .output = random_linear(&p[4], feed, hidden),
			.attention_norm = random_norm(hidden), .output_norm = random_norm(hidden),
		};
		if (last) packed[i].key_value = random_linear(&p[1], hidden, 2 * hidden);
	}
}

// add appends a segment.
static int64_t segments, rows, sequences;

static void add(int64_t n, int64_t its_context, int is_context) {
	first[segments] = rows, length[segments] = n, context[segments] = its_context, result[segments] = is_context ? -1 : sequences++;
	for (int64_t i = 0; i < n; i++) ids[rows + i] = between(0, vocabulary - 1), places[rows + i] = i, types[rows + i] = is_context;
	rows += n, segments++;
}

static void begin_batch(void) {
	segments = rows = sequences = 0;
	batch.ids = ids, batch.positions = places, batch.types = types, batch.panel = panel, batch.panels = 0;
	batch.first = first, batch.length = length, batch.context = context, batch.result = result;
	panel[0] = 0;
}

static void end_panel(void) { panel[++batch.panels] = segments; }

static int64_t *copy_of(const int64_t *from, int64_t n) { return keep(memcpy(memory(n * 8), from, (size_t)n * 8)); }

// encode runs a copy of the batch that is exact allocations, with scratch memory for its largest panel, as production has.
static float *encode(int level, int threads) {
	const int before = kept_count;
	const int64_t n = batch.panel[batch.panels];
	panel_batch b = batch;
	int64_t most_rows = 0, most_keys = 0;
	for (int64_t p = 0; p < b.panels; p++) {
		int64_t its_rows = 0;
		for (int64_t s = b.panel[p]; s < b.panel[p + 1]; s++) {
			const int64_t keys = b.length[s] + (b.context[s] < 0 ? 0 : b.length[b.context[s]]);
			its_rows += b.length[s];
			if (keys > most_keys) most_keys = keys;
		}
		if (its_rows > most_rows) most_rows = its_rows;
	}
	b.ids = copy_of(ids, rows), b.positions = copy_of(places, rows), b.types = copy_of(types, rows), b.panel = copy_of(batch.panel, b.panels + 1);
	b.first = copy_of(batch.first, n), b.length = copy_of(batch.length, n), b.context = copy_of(batch.context, n), b.result = copy_of(batch.result, n);
	b.out = memory(sequences * b.hidden * 4);
	b.scratch_bytes = panel_scratch(&b, most_rows, most_keys);
	b.scratch = memory(threads * b.scratch_bytes);
	panel_encode(&b, level, threads);
	free(b.scratch);
	while (kept_count > before) free(kept[--kept_count]);
	return b.out;
}

// ---- the reference ----

static double activation(double v) {
	switch (batch.function) {
	case gelu: return 0.5 * v * (1 + erf(v * sqrt(0.5)));
	case gelu_tanh: return 0.5 * v * (1 + tanh(0.79788456 * (v + 0.044715 * v * v * v)));
	}
	return fmax(v, 0);
}

static void reference_norm(double *x, const panel_norm *w) {
	const int64_t n = batch.hidden;
	double mean = 0, variance = 0;
	for (int64_t c = 0; c < n; c++) mean += x[c] / (double)n;
	for (int64_t c = 0; c < n; c++) variance += (x[c] - mean) * (x[c] - mean) / (double)n;
	for (int64_t c = 0; c < n; c++) x[c] = (x[c] - mean) / sqrt(variance + batch.epsilon) * w->weight[c] + w->bias[c];
}

static void reference_linear(const plain *p, const double *x, double *y) {
	for (int64_t n = 0; p->halves && n < p->out; n++) {
		y[n] = p->bias[n];
		for (int64_t k = 0; k < p->in; k++) y[n] += (double)widened(rounded(x[k])) * widened(p->halves[n * p->in + k]);
	}
	if (p->halves) return;
	double *q = malloc((size_t)p->in * 8), most = 0;
	memcpy(q, x, (size_t)p->in * 8);
	int64_t step = p->in % 16 ? 1 : 16, size = int8_rotation(p->in);
	for (int64_t span = step; span < size * step; span *= 2)
		for (int64_t i = 0; i < p->in; i++)
			if (!(i & span)) {
				double a = q[i], b = q[i + span];
				q[i] = a + b, q[i + span] = a - b;
			}
	for (int64_t i = 0; i < p->in; i++) most = fmax(most, fabs(q[i]));
	most = fmax(most, 1e-18);
	for (int64_t i = 0; i < p->in; i++) q[i] = nearbyint(q[i] * 127 / most);
	for (int64_t n = 0; n < p->out; n++) {
		double s = 0;
		for (int64_t k = 0; k < p->in; k++) s += q[k] * p->weight[n * p->in + k];
		y[n] = s * most / 127 * p->scale[n] + p->bias[n];
	}
	free(q);
}

static double *reference(void) {
	const int64_t h = batch.hidden, size = h / batch.heads, f = batch.intermediate;
	double *x = malloc((size_t)(rows * h) * 8), *qkv = malloc((size_t)(rows * 3 * h) * 8), *feed = malloc((size_t)f * 8), *o = malloc((size_t)h * 8 * 2);
	for (int64_t r = 0; r < rows; r++) {
		for (int64_t c = 0; c < h; c++) x[r * h + c] = table_at(batch.word, ids[r] * h + c) + table_at(batch.position, places[r] * h + c) + table_at(batch.token_type, types[r] * h + c);
		reference_norm(x + r * h, &batch.embed_norm);
	}
	for (int64_t i = 0; i < batch.layer_count; i++) {
		int last = i == batch.layer_count - 1;
		for (int64_t r = 0; r < rows; r++) {
			reference_linear(&layers[i][0], x + r * h, qkv + r * 3 * h);
			if (last) reference_linear(&layers[i][1], x + r * h, qkv + r * 3 * h + h);
		}
		for (int64_t s = 0; s < segments; s++)
			for (int64_t t = 0; t < length[s]; t++) {
				double *row = x + (first[s] + t) * h, *out = o + h;
				int64_t before = context[s] < 0 ? 0 : length[context[s]], n = before + length[s];
				double *weights = malloc((size_t)n * 8);
				for (int64_t head = 0; head < h; head += size) {
					double total = 0, most = -INFINITY;
#define KEY(j) ((j) < before ? first[context[s]] + (j) : first[s] + (j)-before)
					for (int64_t j = 0; j < n; j++) {
						weights[j] = 0;
						for (int64_t c = head; c < head + size; c++) weights[j] += qkv[(first[s] + t) * 3 * h + c] * batch.scale * qkv[KEY(j) * 3 * h + h + c];
						most = fmax(most, weights[j]);
					}
					for (int64_t j = 0; j < n; j++) total += weights[j] = exp(weights[j] - most);
					for (int64_t c = head; c < head + size; c++) {
						o[c] = 0;
						for (int64_t j = 0; j < n; j++) o[c] += weights[j] / total * qkv[KEY(j) * 3 * h + 2 * h + c];
					}
				}
				free(weights);
				reference_linear(&layers[i][2], o, out);
				for (int64_t c = 0; c < h; c++) row[c] += out[c];
				reference_norm(row, &packed[i].attention_norm);
				reference_linear(&layers[i][3], row, feed);
				for (int64_t c = 0; c < f; c++) feed[c] = activation(feed[c]);
				reference_linear(&layers[i][4], feed, out);
				for (int64_t c = 0; c < h; c++) row[c] += out[c];
				reference_norm(row, &packed[i].output_norm);
			}
	}
	free(qkv), free(feed), free(o);
	return x;
}

static double worst[2];

// can reports whether a level can be checked here. Emulated tiles need the rest of their level.
static int can(int level) {
#ifdef AMX_EMULATED
	if (level == int8_amx || level == bf16_amx) return panel_supports(level - 1) && bf16_amx_works();
#endif
	return panel_supports(level);
}

static void same(const char *what, int level, const float *got, const float *want, int64_t n) {
	for (int64_t i = 0; i < n; i++)
		if (memcmp(&got[i], &want[i], 4)) {
			fprintf(stderr, "panels_check: seed %llu: level %d, %s: element %lld is %.9g, want %.9g\n", (unsigned long long)seed, level, what, (long long)i, (double)got[i], (double)want[i]);
			exit(1);
		}
}

// separate has a panel for each sequence and its context.
static void separate(void) {
	static int64_t each[maxSegments + 1], its_first[2 * maxSegments], its_length[2 * maxSegments], its_context[2 * maxSegments], its_result[2 * maxSegments];
	int64_t n = 0;
	batch.panels = 0;
	for (int64_t s = 0; s < segments; s++) {
		if (result[s] < 0) continue;
		const int64_t c = context[s];
		each[batch.panels++] = n;
		if (c >= 0) its_first[n] = first[c], its_length[n] = length[c], its_context[n] = its_result[n] = -1, n++;
		its_first[n] = first[s], its_length[n] = length[s], its_context[n] = c < 0 ? -1 : n - 1, its_result[n] = result[s], n++;
	}
	each[batch.panels] = n;
	batch.panel = each, batch.first = its_first, batch.length = its_length, batch.context = its_context, batch.result = its_result;
}

static int contains(int64_t segment, int64_t token) {
	for (int64_t i = 0; segment >= 0 && i < length[segment]; i++)
		if (ids[first[segment] + i] == token) return 1;
	return 0;
}

// spoil puts a value that is not finite, or huge, into the embeddings of a token, which it returns.
static int64_t spoil(int *finite) {
	static const float worst_values[] = {NAN, -NAN, INFINITY, -INFINITY, 3e38f, -3e38f, 1e-40f};
	const int64_t which = between(0, 6), token = between(0, vocabulary - 1), at = token * batch.hidden + between(0, batch.hidden - 1);
	const float v = worst_values[which];
	*finite = which > 3;
	if (batch.half)
		((uint16_t *)batch.word)[at] = v == v ? rounded(v) : 0x7fc1;
	else
		((float *)batch.word)[at] = v;
	return token;
}

static void check_spoiled(int level, const float *want, int64_t token, int finite) {
	const int64_t h = batch.hidden;
	float *got = encode(level, (int)between(1, maxThreads));
	for (int64_t s = 0; s < segments; s++) {
		if (result[s] < 0) continue;
		const float *row = got + result[s] * h;
		if (!contains(s, token) && !contains(context[s], token)) {
			same("next to a spoiled sequence", level, row, want + result[s] * h, h);
			continue;
		}
		float total = 0;
		for (int64_t c = 0; c < h; c++) total += row[c] * 0;
		if (!finite && total == 0) {
			fprintf(stderr, "panels_check: seed %llu: level %d lost a value that is not finite\n", (unsigned long long)seed, level);
			exit(1);
		}
	}
	free(got);
}

static void check_near(int level, const float *got, const double *exact) {
	const int64_t h = batch.hidden;
	double error = 0, total = 0;
	for (int64_t s = 0; s < segments; s++)
		for (int64_t c = 0; result[s] >= 0 && c < h; c++) {
			double d = got[result[s] * h + c] - exact[first[s] * h + c];
			error += d * d, total += exact[first[s] * h + c] * exact[first[s] * h + c];
		}
	const double relative = sqrt(error / total);
	if (!(relative < 0.03)) {
		fprintf(stderr, "panels_check: seed %llu: level %d: relative error %g of hidden %lld\n", (unsigned long long)seed, level, relative, (long long)h);
		exit(1);
	}
	worst[batch.half] = fmax(worst[batch.half], relative);
}

static void check(void) {
	static const int64_t sizes[] = {8, 16, 20, 32, 48, 64};
	const int half = (int)between(0, 1);
	const int small = !between(0, 1); // models whose sequences are more often long, since the reference is slow
	int64_t heads = between(1, small ? 2 : 4), hidden = heads * sizes[between(0, small ? 2 : 5)];
	random_model(half, hidden, heads, between(1, 200) + 16 * between(0, small ? 0 : 20), between(1, small ? 2 : 3), (int)between(gelu, relu));
	begin_batch();
	for (int64_t p = between(1, 3); p > 0; p--) {
		int64_t contexts = between(0, 2), base = segments;
		for (int64_t i = 0; i < contexts; i++) add(between(1, 40), -1, 1);
		for (int64_t i = between(1, 6); i > 0; i--) {
			int64_t n = between(0, small ? 5 : 30) ? between(1, 50) : between(0, 3) ? between(1, 512) : 512 - between(0, 1);
			add(n, contexts && between(0, 1) ? base + between(0, contexts - 1) : -1, 0);
		}
		end_panel();
	}
	const panel_batch together = batch;
	const int portable = half ? bf16_portable : int8_portable, last = half ? bf16_amx : int8_amx;
	const int64_t n = sequences * hidden;
	float *wanted[panel_levels] = {0};
	double *exact = reference();
	for (int level = portable; level <= last; level++) {
		if (!can(level)) continue;
		float *got = wanted[level] = encode(level, (int)between(1, maxThreads));
		if (level <= bf16_avx512) same("other levels", level, got, wanted[portable], n);
		check_near(level, got, exact);
		separate();
		float *alone = encode(level, (int)between(1, maxThreads));
		same("alone", level, alone, got, n);
		free(alone);
		batch = together;
	}
	int finite;
	const int64_t token = spoil(&finite);
	for (int level = portable; level <= last; level++)
		if (wanted[level]) check_spoiled(level, wanted[level], token, finite), free(wanted[level]);
	free(exact);
	while (kept_count) free(kept[--kept_count]);
}

static void bench(int half, int64_t hidden, int64_t heads, int64_t count) {
	state = 7;
	random_model(half, hidden, heads, 4 * hidden, count, gelu);
	for (int64_t limit = 64; limit <= 1024; limit *= 2) {
		state = 8;
		begin_batch();
		for (int64_t s = 0, left = limit; s < 32; s++) {
			int64_t n = between(8, 48);
			if (n > left) end_panel(), left = limit;
			add(n, -1, 0), left -= n;
		}
		end_panel();
		for (int level = half ? bf16_avx2 : int8_avx2; level <= (half ? bf16_amx : int8_amx); level++) {
			if (!can(level)) continue;
			double best = 1e9;
			for (int i = 0; i < 4; i++) {
				double start = now();
				free(encode(level, 1));
				best = fmin(best, now() - start);
			}
			printf("panels of up to %lld tokens, level %d: %.1f us of CPU per token\n", (long long)limit, level, best / (double)rows * 1e6);
		}
	}
}

int main(int argc, char **argv) {
	if (argc == 5 && !strcmp(argv[1], "bench")) {
		for (int half = 0; half < 2; half++) bench(half, atoll(argv[2]), atoll(argv[3]), atoll(argv[4]));
		return 0;
	}
	double seconds = argc > 1 ? atof(argv[1]) : 5, end = now() + seconds;
	uint64_t from = argc > 2 ? strtoull(argv[2], NULL, 10) : (uint64_t)time(NULL);
	seed = from;
	do {
		state = seed++;
		check();
	} while (now() < end);
	printf("panels_check: seeds %llu to %llu, the fastest levels are %d and %d, relative errors at most %.4f and %.4f\n", (unsigned long long)from, (unsigned long long)(seed - 1), panel_best(0), panel_best(1), worst[0], worst[1]);
	return 0;
}
