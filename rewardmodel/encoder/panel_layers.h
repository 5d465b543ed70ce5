// The layers of a panel, for every level and precision. A level includes this file after the operations of its vectors,
// and defines
//
//	TILE_ROWS, TILE_COLUMNS  of a tile of results; TILE_ROWS divides 32, TILE_COLUMNS is 16 or 32
//	tile_begin, tile_end     prepare a thread for tile, and end that
//	tile                     multiplies rows of an input by TILE_COLUMNS columns of weights: sums [TILE_ROWS][TILE_COLUMNS]
//	UNROLL                   unrolls the loop that follows
//	PANELS                   the name of the function that it defines
//
// and after those panel_int8.h or panel_bf16.h, with
//
//	HALF                     for bf16
//	put_row                  writes a row of an input
//	finish                   does what follows the sums of a tile
#include <math.h>
#include <stddef.h>

#include "kernels.h"
#include "panel_numbers.h"

// ---- rows ----

// normalize replaces a row by its layer normalization.
INLINE void normalize(float *row, int64_t columns, const panel_norm *w, float epsilon) {
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

// multiply_then computes a linear layer of rows of an input. A column block of the weights is used for all rows while it
// is in the innermost cache. A tile is finished after the next one is begun, so that both overlap.
INLINE void multiply_then(const panel_linear *w, const input *x, int64_t rows, const output *to, int then, int function) {
	int32_t sums[2][TILE_ROWS * TILE_COLUMNS] __attribute__((aligned(64)));
	const int64_t bytes = row_bytes(HALF, w->in);
	const uint8_t *weight = w->weight;
	int64_t row = -1, count = 0, column = 0, turn = 0;
	for (int64_t n = 0; n < round_up(w->out, 32); n += TILE_COLUMNS)
		for (int64_t r = 0; r < rows; r += TILE_ROWS) {
			const int64_t left = rows - r < TILE_ROWS ? rows - r : TILE_ROWS;
			tile(weight + n * bytes, input_at(x, r, bytes, 0), bytes / 64, left, sums[turn & 1]);
			if (row >= 0) finish(w, sums[(turn & 1) ^ 1], x, row, count, column, to, then, function);
			row = r, count = left, column = n, turn++;
		}
	if (row >= 0) finish(w, sums[(turn & 1) ^ 1], x, row, count, column, to, then, function);
}

static __attribute__((noinline)) void multiply(const panel_linear *w, const input *x, int64_t rows, float *values, int64_t stride) {
	multiply_then(w, x, rows, &(output){values, stride, NULL}, assign, 0);
}

static __attribute__((noinline)) void multiply_add(const panel_linear *w, const input *x, int64_t rows, float *values, int64_t stride) {
	multiply_then(w, x, rows, &(output){values, stride, NULL}, accumulate, 0);
}

static __attribute__((noinline)) void multiply_activate(const panel_linear *w, const input *x, int64_t rows, const output *to, int function) {
	switch (function) {
	case gelu: multiply_then(w, x, rows, to, activate, gelu); break;
	case gelu_tanh: multiply_then(w, x, rows, to, activate, gelu_tanh); break;
	default: multiply_then(w, x, rows, to, activate, relu);
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
static __attribute__((noinline)) void attend_segment(const panel_batch *b, const float *queries, int64_t stride, int64_t n, const span *of, room *m, float *out, int64_t out_stride) {
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

// add_embedding adds n values of a row of a table of embeddings, if there is one, to sum.
INLINE void add_embedding(const panel_batch *b, const void *table, int64_t row, int64_t column, int64_t n, float *sum) {
	if (!table) return;
	const int64_t at = row * b->hidden + column;
	if (HALF) {
		uint16_t part[16] = {0};
		const uint16_t *from = (const uint16_t *)table + at;
		if (n < 16) from = memcpy(part, from, n * 2);
		store(sum, add(load(sum), widen(from)));
	} else {
		float part[16] = {0};
		const float *from = (const float *)table + at;
		if (n < 16) from = memcpy(part, from, n * 4);
		store(sum, add(load(sum), load(from)));
	}
}

// embed_rows writes the normalized embeddings of rows [first, first + n) of the batch.
INLINE void embed_rows(const panel_batch *b, int64_t first, int64_t n, float *x, int64_t stride) {
	const int64_t hidden = b->hidden;
	for (int64_t r = 0; r < n; r++, x += stride) {
		memset(x, 0, stride * 4);
		for (int64_t c = 0; c < hidden; c += 16) {
			const int64_t left = hidden - c < 16 ? hidden - c : 16;
			add_embedding(b, b->word, b->ids[first + r], c, left, x + c);
			add_embedding(b, b->position, b->position ? b->positions[first + r] : 0, c, left, x + c);
			add_embedding(b, b->token_type, b->types ? b->types[first + r] : 0, c, left, x + c);
		}
		normalize(x, hidden, &b->embed_norm, b->epsilon);
	}
}

INLINE void put_rows(const float *x, int64_t stride, int64_t columns, int64_t rows, const input *in, float *row) {
	for (int64_t r = 0; r < rows; r++) put_row(x + r * stride, columns, r, in, row);
}

// run computes segments [begin, end) of the batch: a panel.
static void run(const panel_batch *b, int64_t begin, int64_t end, char *memory) {
	room m;
	int64_t rows = 0, keys = 0, offset[end - begin], sequences = 0;
	for (int64_t s = begin; s < end; s++) {
		offset[s - begin] = rows;
		rows += b->length[s];
		int64_t n = b->length[s] + (b->context[s] < 0 ? 0 : b->length[b->context[s]]);
		if (n > keys) keys = n;
		if (b->result[s] >= 0) sequences++;
	}
	panel_room(&m, b, memory, rows, keys);
	const int64_t hidden = b->hidden, stride = round_up(hidden, 32), feed_stride = round_up(b->intermediate, 32);
	for (int64_t s = begin; s < end; s++) embed_rows(b, b->first[s], b->length[s], m.x + offset[s - begin] * stride, stride);
	put_rows(m.x, stride, hidden, rows, &m.in, m.row);
	for (int64_t i = 0; i < b->layer_count; i++) {
		const panel_layer *l = &b->layers[i];
		const int last = i == b->layer_count - 1;
		const int64_t columns = round_up(last ? 2 * hidden : 3 * hidden, 32);
		float *queries = m.attended; // of the last layer, which the results overwrite
		multiply(last ? &l->key_value : &l->query, &m.in, rows, m.wide, columns);
		const float *kept = last ? m.wide : m.wide + hidden;
		if (last) { // only first tokens continue
			int64_t at = 0;
			for (int64_t s = begin; s < end; s++)
				if (b->result[s] >= 0) memmove(m.x + at++ * stride, m.x + offset[s - begin] * stride, stride * 4);
			put_rows(m.x, stride, hidden, sequences, &m.in, m.row);
			multiply(&l->query, &m.in, sequences, queries, stride);
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
		put_rows(m.attended, stride, hidden, rows, &m.in, m.row);
		multiply_add(&l->attended, &m.in, rows, m.x, stride);
		for (int64_t r = 0; r < rows; r++) {
			normalize(m.x + r * stride, hidden, &l->attention_norm, b->epsilon);
			put_row(m.x + r * stride, hidden, r, &m.in, m.row);
		}
		for (int64_t from = 0; from < rows; from += feed_rows) {
			const int64_t n = rows - from < feed_rows ? rows - from : feed_rows;
			const input block = {input_at(&m.in, from, row_bytes(HALF, hidden), 0), m.in.scale + from};
			const output active = {m.wide, feed_stride, &m.inner};
			multiply_activate(&l->intermediate, &block, n, &active, b->function);
			activated_rows(&active, n, b->intermediate, m.row);
			multiply_add(&l->output, &m.inner, n, m.x + from * stride, stride);
			for (int64_t r = from; r < from + n; r++) {
				normalize(m.x + r * stride, hidden, &l->output_norm, b->epsilon);
				if (!last) put_row(m.x + r * stride, hidden, r, &m.in, m.row);
			}
		}
	}
	for (int64_t s = begin, at = 0; s < end; s++)
		if (b->result[s] >= 0) memcpy(b->out + b->result[s] * hidden, m.x + at++ * stride, hidden * 4);
}

void PANELS(const void *batch, int64_t from, int64_t to, int thread) {
	const panel_batch *b = batch;
	tile_begin();
	for (int64_t p = from; p < to; p++) run(b, b->panel[p], b->panel[p + 1], b->scratch + thread * b->scratch_bytes);
	tile_end();
}
