// The layers of a panel, for every level. A level includes this file after the operations of its vectors, and defines
//
//	TILE_ROWS, TILE_COLUMNS  of a tile of results; TILE_ROWS divides 32, TILE_COLUMNS is 16 or 32
//	tile_begin, tile_end     prepare a thread for tile, and end that
//	tile                     multiplies: see below
//	UNROLL                   unrolls the loop that follows
//	SIGNED_SUMS              if tile subtracts the zero point of the activations
//	PANELS                   the name of the function that it defines
//
// Activations are in blocks of 16 rows, [in / 64][16][64] bytes each, which are the tiles of AMX.
#include <math.h>
#include <stddef.h>
#include <string.h>

#include "kernels.h"

enum { feed_rows = 128 }; // rows of the feed-forward block at a time, whose intermediate values stay in the cache

// room is the scratch memory of a thread.
typedef struct {
	float *x, *wide, *attended, *scale;
	uint8_t *quantized, *quantized_wide;
	float *scores, *query, *row;
} room;

// ---- numbers ----

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
	const float *terms = int8_gelu[function == gelu_tanh];
	vec c = larger(smaller(x, all(gelu_limit)), all(-gelu_limit)), square = mul(c, c);
	vec p = all(terms[gelu_terms - 1]);
	UNROLL
	for (int i = gelu_terms - 2; i >= 0; i--) p = fma3(p, square, all(terms[i]));
	return mul(x, fma3(c, p, all(0.5f)));
}

// ---- rows ----

// hadamard mixes n vectors of a row.
INLINE void hadamard(vec *v, int n) {
	UNROLL
	for (int span = 1; span < n; span *= 2)
	UNROLL
		for (int i = 0; i < n; i++)
			if (!(i & span)) {
				vec a = v[i], b = v[i + span];
				v[i] = add(a, b);
				v[i + span] = sub(a, b);
			}
}

// rotate_block rotates n vectors of a row and returns the bits of the largest absolute value; that of a NaN is larger
// than any other.
INLINE ints rotate_block(const float *from, float *to, ints top, int n) {
	vec v[16];
	UNROLL
	for (int i = 0; i < n; i++) v[i] = load(from + 16 * i);
	hadamard(v, n);
	UNROLL
	for (int i = 0; i < n; i++) {
		top = ilarger(top, iand(bits(v[i]), iall(0x7fffffff)));
		store(to + 16 * i, v[i]);
	}
	return top;
}

INLINE ints rotate_row(const float *from, float *to, int64_t columns) {
	ints top = iall(0);
	if (columns % 16) { // no model of practical use
		int64_t size = columns & -columns, wide = round_up(columns, 16);
		memcpy(to, from, columns * 4);
		memset(to + columns, 0, (wide - columns) * 4);
		for (int64_t span = 1; span < size; span *= 2)
			for (int64_t i = 0; i < columns; i++)
				if (!(i & span)) {
					float a = to[i], b = to[i + span];
					to[i] = a + b;
					to[i + span] = a - b;
				}
		for (int64_t c = 0; c < wide; c += 16) top = ilarger(top, iand(bits(load(to + c)), iall(0x7fffffff)));
		return top;
	}
	int64_t n = rotation_vectors(columns);
	for (int64_t c = 0; c < columns; c += 16 * n) switch (n) {
		case 1: top = rotate_block(from + c, to + c, top, 1); break;
		case 2: top = rotate_block(from + c, to + c, top, 2); break;
		case 4: top = rotate_block(from + c, to + c, top, 4); break;
		case 8: top = rotate_block(from + c, to + c, top, 8); break;
		default: top = rotate_block(from + c, to + c, top, 16);
		}
	return top;
}

// quantize writes row of the quantized activations and its scale. A value that is not finite makes the scale NaN or
// infinite, so that it is not lost in the integers.
INLINE void quantize(const float *values, int64_t columns, int64_t row, uint8_t *quantized, float *scales, float *temporary) {
	int32_t top = largest(rotate_row(values, temporary, columns));
	float most;
	memcpy(&most, &top, 4);
	most += 1e-18f; // for a row of zeros
	scales[row] = most / 127.0f;
	const vec by = all(127.0f / most), magic = all(12582912.0f + zero_point);
	int64_t wide = round_up(columns, 64);
	uint8_t *to = quantized + row / 16 * 16 * wide + row % 16 * 64;
	for (int64_t c = 0; c < columns; c += 16)
		store_bytes(to + c / 64 * 1024 + c % 64, bits(fma3(load(temporary + c), by, magic)));
}

// normalize replaces a row by its layer normalization.
INLINE void normalize(float *row, int64_t columns, const int8_norm *w, float epsilon) {
	vec total = all(0), squares = all(0);
	int64_t whole = columns / 16 * 16;
	for (int64_t c = 0; c < columns; c += 16) total = add(total, load(row + c)); // beyond columns they are 0
	float mean = sum(total) / (float)columns, rest = 0;
	for (int64_t c = 0; c < whole; c += 16) {
		vec d = sub(load(row + c), all(mean));
		squares = fma3(d, d, squares);
	}
	for (int64_t c = whole; c < columns; c++) rest = fmaf(row[c] - mean, row[c] - mean, rest);
	const vec by = all(1.0f / sqrtf((sum(squares) + rest) / (float)columns + epsilon));
	for (int64_t c = 0; c < columns; c += 16)
		store(row + c, fma3(mul(sub(load(row + c), all(mean)), by), load(w->weight + c), load(w->bias + c)));
}

// ---- linear layers ----

enum { assign, accumulate, activate };

// finish applies scales and bias to rows of a tile, and then what follows the layer, and writes them to out.
INLINE void finish(const int8_linear *w, const int32_t *sums, const float *scales, int64_t row, int64_t rows, int64_t column, float *out, int64_t stride, int then, int function) {
	UNROLL
	for (int64_t c = 0; c < TILE_COLUMNS; c += 16) {
#ifdef SIGNED_SUMS
		const ints correction = iall(0);
#else
		const ints correction = iload(w->correction + column + c);
#endif
		const vec scale = load(w->scale + column + c), bias = load(w->bias + column + c);
		for (int64_t r = 0; r < rows; r++) {
			float *to = out + (row + r) * stride + column + c;
			vec v = fma3(mul(to_floats(iadd(iload(sums + r * TILE_COLUMNS + c), correction)), scale), all(scales[row + r]), bias);
			if (then == activate) v = activated(v, function);
			if (then == accumulate) v = add(v, load(to));
			store(to, v);
		}
	}
}

// multiply computes a linear layer of rows [from, to); from is a multiple of 32. A column block of the weights is used for
// all rows while it is in the innermost cache. A tile is finished after the next one is begun, so that both overlap.
INLINE void multiply_then(const int8_linear *w, const uint8_t *quantized, const float *scales, int64_t from, int64_t to, float *out, int64_t stride, int then, int function) {
	int32_t sums[2][TILE_ROWS * TILE_COLUMNS] __attribute__((aligned(64)));
	const int64_t wide = round_up(w->in, 64);
	int64_t row = -1, rows = 0, column = 0, turn = 0;
	for (int64_t n = 0; n < round_up(w->out, 32); n += TILE_COLUMNS)
		for (int64_t r = from; r < to; r += TILE_ROWS) {
			int64_t count = to - r < TILE_ROWS ? to - r : TILE_ROWS;
			tile(w->weight + n * wide, quantized + r / 16 * 16 * wide + r % 16 * 64, wide / 64, count, sums[turn & 1]);
			if (row >= 0) finish(w, sums[(turn & 1) ^ 1], scales, row, rows, column, out, stride, then, function);
			row = r, rows = count, column = n, turn++;
		}
	if (row >= 0) finish(w, sums[(turn & 1) ^ 1], scales, row, rows, column, out, stride, then, function);
}

static __attribute__((noinline)) void multiply(const int8_linear *w, const uint8_t *quantized, const float *scales, int64_t from, int64_t to, float *out, int64_t stride) {
	multiply_then(w, quantized, scales, from, to, out, stride, assign, 0);
}

static __attribute__((noinline)) void multiply_add(const int8_linear *w, const uint8_t *quantized, const float *scales, int64_t from, int64_t to, float *out, int64_t stride) {
	multiply_then(w, quantized, scales, from, to, out, stride, accumulate, 0);
}

static __attribute__((noinline)) void multiply_activate(const int8_linear *w, const uint8_t *quantized, const float *scales, int64_t from, int64_t to, float *out, int64_t stride, int function) {
	switch (function) {
	case gelu: multiply_then(w, quantized, scales, from, to, out, stride, activate, gelu); break;
	case gelu_tanh: multiply_then(w, quantized, scales, from, to, out, stride, activate, gelu_tanh); break;
	default: multiply_then(w, quantized, scales, from, to, out, stride, activate, relu);
	}
}

// ---- attention ----

// span is a range of keys and values: rows of a matrix that are stride values apart.
typedef struct {
	const float *keys, *values;
	int64_t stride, n;
} span;

// score computes the scores of 16 queries [size][16] and count keys.
INLINE void score(const float *query, int64_t size, const float *keys, int64_t stride, float *scores, int count) {
	vec s[8];
	for (int i = 0; i < count; i++) s[i] = all(0);
	for (int64_t d = 0; d < size; d++) {
		vec q = load(query + 16 * d);
	UNROLL
		for (int i = 0; i < count; i++) s[i] = fma3(q, all(keys[i * stride + d]), s[i]);
	}
	for (int i = 0; i < count; i++) store(scores + 16 * i, s[i]);
}

// blend adds up count columns of the values, weighted by the scores [keys][16], into out [count][16].
INLINE void blend(const span *spans, const float *scores, int64_t column, vec *out, int count) {
	for (int i = 0; i < count; i++) out[i] = all(0);
	for (int k = 0; k < 2; k++) {
		if (!spans[k].n) continue;
		const float *values = spans[k].values + column;
		for (int64_t j = 0; j < spans[k].n; j++, scores += 16, values += spans[k].stride) {
			vec p = load(scores);
	UNROLL
			for (int i = 0; i < count; i++) out[i] = fma3(p, all(values[i]), out[i]);
		}
	}
}

// attend computes a head of up to 16 queries, which are stride values apart, and writes rows of out. Each lane is a query.
INLINE void attend_block(const float *queries, int64_t stride, int64_t n, const span *spans, int64_t size, float scale, float *query, float *scores, float *out, int64_t out_stride) {
	for (int64_t d = 0; d < size; d += 16) {
		if (d + 16 <= size) {
			vec q[16];
	UNROLL
			for (int r = 0; r < 16; r++) q[r] = mul(load(queries + (r < n ? r : n - 1) * stride + d), all(scale));
			transpose(q);
	UNROLL
			for (int r = 0; r < 16; r++) store(query + 16 * (d + r), q[r]);
		} else
			for (int64_t c = d; c < size; c++)
				for (int64_t r = 0; r < 16; r++) query[16 * c + r] = queries[(r < n ? r : n - 1) * stride + c] * scale;
	}
	int64_t keys = 0;
	for (int k = 0; k < 2; k++) {
		const float *key = spans[k].keys;
		int64_t left = spans[k].n;
		for (; left >= 8; left -= 8, keys += 8, key += 8 * spans[k].stride) score(query, size, key, spans[k].stride, scores + 16 * keys, 8);
		if (left >= 4) {
			score(query, size, key, spans[k].stride, scores + 16 * keys, 4);
			left -= 4, keys += 4, key += 4 * spans[k].stride;
		}
		for (; left > 0; left--, keys++, key += spans[k].stride) score(query, size, key, spans[k].stride, scores + 16 * keys, 1);
	}
	vec most = load(scores), total = all(0);
	for (int64_t j = 1; j < keys; j++) most = larger(most, load(scores + 16 * j));
	for (int64_t j = 0; j < keys; j++) {
		vec e = exponential(sub(load(scores + 16 * j), most));
		total = add(total, e);
		store(scores + 16 * j, e);
	}
	const vec inverse = quotient(all(1.0f), total);
	int64_t d = 0;
	for (; d + 16 <= size; d += 16) {
		vec o[16];
		blend(spans, scores, d, o, 16);
	UNROLL
		for (int i = 0; i < 16; i++) o[i] = mul(o[i], inverse);
		transpose(o);
	UNROLL
		for (int r = 0; r < 16; r++)
			if (r < n) store(out + r * out_stride + d, o[r]);
	}
	for (; d < size; d++) {
		vec o;
		blend(spans, scores, d, &o, 1);
		float lanes[16];
		store(lanes, mul(o, inverse));
		for (int64_t r = 0; r < n; r++) out[r * out_stride + d] = lanes[r];
	}
}

// attend computes attention of queries rows [0, n), and of the keys and values of spans, for all heads.
static __attribute__((noinline)) void attend_segment(const int8_batch *b, const float *queries, int64_t stride, int64_t n, const span *of, room *m, float *out, int64_t out_stride) {
	const int64_t size = b->hidden / b->heads;
	for (int64_t h = 0; h < b->heads; h++) {
		span spans[2] = {of[0], of[1]};
		for (int k = 0; k < 2; k++)
			if (spans[k].n) spans[k].keys += h * size, spans[k].values += h * size;
		for (int64_t r = 0; r < n; r += 16)
			attend_block(queries + r * stride + h * size, stride, n - r < 16 ? n - r : 16, spans, size, b->scale, m->query, m->scores, out + r * out_stride + h * size, out_stride);
	}
}

// ---- panels ----

// embed writes the normalized embeddings of rows [first, first + n) of the batch.
INLINE void embed_rows(const int8_batch *b, int64_t first, int64_t n, float *x, int64_t stride) {
	const int64_t hidden = b->hidden;
	for (int64_t r = 0; r < n; r++, x += stride) {
		const float *word = b->word + b->ids[first + r] * hidden;
		const float *position = b->position ? b->position + b->positions[first + r] * hidden : NULL;
		const float *type = b->token_type ? b->token_type + (b->types ? b->types[first + r] : 0) * hidden : NULL;
		int64_t c = 0;
		for (; c + 16 <= hidden; c += 16) {
			vec v = load(word + c);
			if (position) v = add(v, load(position + c));
			if (type) v = add(v, load(type + c));
			store(x + c, v);
		}
		for (; c < stride; c++) x[c] = c < hidden ? word[c] + (position ? position[c] : 0) + (type ? type[c] : 0) : 0;
		normalize(x, hidden, &b->embed_norm, b->epsilon);
	}
}

INLINE void quantize_rows_of(const float *x, int64_t stride, int64_t columns, int64_t from, int64_t to, uint8_t *quantized, float *scale, float *row) {
	for (int64_t r = from; r < to; r++) quantize(x + r * stride, columns, r, quantized, scale, row);
}

// lay_out divides the scratch memory of a thread and returns its size.
static int64_t lay_out(room *m, const int8_batch *b, char *memory, int64_t rows, int64_t keys) {
	const int64_t hidden = round_up(b->hidden, 32), feed = round_up(b->intermediate, 32), all_rows = round_up(rows, 32);
	int64_t wide = all_rows * round_up(3 * b->hidden, 32), block = (all_rows < feed_rows ? all_rows : feed_rows) * feed, at = 0;
	if (block > wide) wide = block;
#define PART(field, bytes) m->field = (void *)(memory + at), at += round_up(bytes, 64)
	PART(x, all_rows * hidden * 4);
	PART(wide, wide * 4 + 64);
	PART(attended, all_rows * hidden * 4);
	PART(scale, 2 * all_rows * 4);
	PART(quantized, all_rows * round_up(b->hidden, 64));
	PART(quantized_wide, feed_rows * round_up(b->intermediate, 64));
	PART(scores, round_up(keys, 8) * 64);
	PART(query, round_up(b->hidden / b->heads, 16) * 64);
	PART(row, (hidden > feed ? hidden : feed) * 4 + 64);
#undef PART
	return round_up(at, 4096);
}

// run computes segments [begin, end) of the batch: a panel.
static void run(const int8_batch *b, int64_t begin, int64_t end, char *memory) {
	room m;
	int64_t rows = 0, keys = 0, offset[end - begin], sequences = 0;
	for (int64_t s = begin; s < end; s++) {
		offset[s - begin] = rows;
		rows += b->length[s];
		int64_t n = b->length[s] + (b->context[s] < 0 ? 0 : b->length[b->context[s]]);
		if (n > keys) keys = n;
		if (b->result[s] >= 0) sequences++;
	}
	lay_out(&m, b, memory, rows, keys);
	const int64_t hidden = b->hidden, stride = round_up(hidden, 32), feed_stride = round_up(b->intermediate, 32);
	for (int64_t s = begin; s < end; s++) embed_rows(b, b->first[s], b->length[s], m.x + offset[s - begin] * stride, stride);
	quantize_rows_of(m.x, stride, hidden, 0, rows, m.quantized, m.scale, m.row);
	for (int64_t i = 0; i < b->layer_count; i++) {
		const int8_layer *l = &b->layers[i];
		const int last = i == b->layer_count - 1;
		const int64_t columns = round_up(last ? 2 * hidden : 3 * hidden, 32);
		float *queries = m.attended; // of the last layer, which the results overwrite
		multiply(last ? &l->key_value : &l->query, m.quantized, m.scale, 0, rows, m.wide, columns);
		const float *kept = last ? m.wide : m.wide + hidden;
		if (last) { // only first tokens continue
			int64_t at = 0;
			for (int64_t s = begin; s < end; s++)
				if (b->result[s] >= 0) memmove(m.x + at++ * stride, m.x + offset[s - begin] * stride, stride * 4);
			quantize_rows_of(m.x, stride, hidden, 0, sequences, m.quantized, m.scale, m.row);
			multiply(&l->query, m.quantized, m.scale, 0, sequences, queries, stride);
		}
		for (int64_t s = begin, at = 0; s < end; s++) {
			const float *own = kept + offset[s - begin] * columns;
			span spans[2] = {{NULL, NULL, columns, 0}, {own, own + hidden, columns, b->length[s]}};
			if (b->context[s] >= 0) {
				const float *context = kept + offset[b->context[s] - begin] * columns;
				spans[0] = (span){context, context + hidden, columns, b->length[b->context[s]]};
			}
			if (!last)
				attend_segment(b, m.wide + offset[s - begin] * columns, columns, b->length[s], spans, &m, m.attended + offset[s - begin] * stride, stride);
			else if (b->result[s] >= 0) {
				attend_segment(b, queries + at * stride, stride, 1, spans, &m, queries + at * stride, stride);
				at++;
			}
		}
		if (last) rows = sequences;
		quantize_rows_of(m.attended, stride, hidden, 0, rows, m.quantized, m.scale, m.row);
		multiply_add(&l->attended, m.quantized, m.scale, 0, rows, m.x, stride);
		for (int64_t r = 0; r < rows; r++) {
			normalize(m.x + r * stride, hidden, &l->attention_norm, b->epsilon);
			quantize(m.x + r * stride, hidden, r, m.quantized, m.scale, m.row);
		}
		for (int64_t from = 0; from < rows; from += feed_rows) {
			const int64_t n = rows - from < feed_rows ? rows - from : feed_rows;
			float *scale = m.scale + round_up(rows, 32); // the second half
			multiply_activate(&l->intermediate, m.quantized + from * round_up(hidden, 64), m.scale + from, 0, n, m.wide, feed_stride, b->function);
			quantize_rows_of(m.wide, feed_stride, b->intermediate, 0, n, m.quantized_wide, scale, m.row);
			multiply_add(&l->output, m.quantized_wide, scale, 0, n, m.x + from * stride, stride);
			for (int64_t r = from; r < from + n; r++) {
				normalize(m.x + r * stride, hidden, &l->output_norm, b->epsilon);
				if (!last) quantize(m.x + r * stride, hidden, r, m.quantized, m.scale, m.row);
			}
		}
	}
	for (int64_t s = begin, at = 0; s < end; s++)
		if (b->result[s] >= 0) memcpy(b->out + b->result[s] * hidden, m.x + at++ * stride, hidden * 4);
}

void PANELS(const void *batch, int64_t from, int64_t to, int thread) {
	const int8_batch *b = batch;
	tile_begin();
	for (int64_t p = from; p < to; p++) run(b, b->panel[p], b->panel[p + 1], b->scratch + thread * b->scratch_bytes);
	tile_end();
}
