// The operations of a Transformer layer between its matrix multiplications, row by row, for scoring on a CPU. Each
// function processes one token, or one sequence and head, at a time, and reads and writes each row once. A result
// therefore depends only on its own sequence, never on the rest of the batch or on the number of threads.
#pragma once
#include <stdint.h>

// share runs n tasks, grain of them per call, on libtorch's own OpenMP threads, which stay awake between its operations, or
// on the calling thread without OpenMP. thread is below threads.
void share(void (*task)(const void *args, int64_t from, int64_t to, int thread), const void *args, int64_t n, int64_t grain, int threads);

// AFTER_PART is where the next part of a scratch memory begins, behind one at at. A check build has gaps there
// (sanitize/gaps.h).
#ifndef AFTER_PART
#define AFTER_PART(memory, at, bytes) (((at) + (bytes) + 63) / 64 * 64)
#endif

// matrix is [rows, columns] of float32 or bfloat16, whose rows are stride elements apart.
typedef struct {
	const void *data;
	int64_t stride;
	int32_t half; // bfloat16
} matrix;

// norm_weights are the parameters of a layer normalization.
typedef struct {
	const float *weight, *bias;
	float epsilon;
} norm_weights;

typedef struct {
	int64_t rows, columns;
	const int64_t *ids, *positions, *types; // [rows]; types may be NULL: all 0
	matrix word, position, token_type;      // data is NULL without one
	norm_weights norm;
	void *out; // [rows, columns] float32, or bfloat16 when half
	int32_t half;
} embed_args;

typedef struct {
	int64_t rows, columns;
	matrix x, y;
	const int64_t *x_rows; // the row of x for each row of y; NULL: the same row
	norm_weights norm;
	void *out;
	int32_t half;
} add_norm_args;

typedef struct {
	int64_t runs, heads, size;     // size of a head
	const int64_t *first, *length; // [sequences]
	const int64_t *context_first, *context_length; // [sequences]: rows of k and v before those of the sequence; NULL: none
	// Run r is the sequences member[run[r]] to member[run[r + 1] - 1], of ascending length, which share a context: its
	// keys and values are loaded once. NULL: run r is sequence r.
	const int64_t *run, *member;
	int32_t first_only;             // queries are only the sequences' first tokens, one row each
	matrix q, k, v;
	float scale;
	float *scratch;  // [threads, scratch_size(longest, size)]
	int64_t longest; // maximum of length + context_length
	void *out;       // [rows of q, heads * size]
	int32_t half;
} attend_args;

enum { gelu = 0, gelu_tanh = 1, relu = 2, hyperbolic_tangent = 3 };

// dense_args are a linear layer of float32, followed by a function, in an order of additions that does not depend on the
// number of rows. It is for layers whose cost does not matter: it is slower than oneDNN.
typedef struct {
	int64_t rows, in, out;
	const float *x;            // [rows, in]
	const float *weight, *bias; // [in, up(out)], [up(out)], where up rounds up to a multiple of 16
	int32_t function;          // -1: none
	float *y;                  // [rows, out]
} dense_args;

int64_t attend_scratch(int64_t longest, int64_t size);
void embed(const embed_args *a, int threads);
void add_norm(const add_norm_args *a, int threads);
void attend(const attend_args *a, int threads);
void dense(const dense_args *a, int threads);
