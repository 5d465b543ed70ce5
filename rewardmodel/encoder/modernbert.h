// The operations of ModernBERT's layers between its matrix multiplications; see kernels.h, which has the others. The
// residual stream is float32.
#include "kernels.h"

// rope_args rotate queries and keys by their positions, in place: in each of the heads that start at data, dimension k
// with dimension k + size/2.
typedef struct {
	int64_t rows, heads, size, stride; // stride: of data, in elements
	const int64_t *positions;          // [rows]
	const float *cos, *sin;            // [positions, size/2]
	void *data;
	int32_t half;
} rope_args;

// attend_near_args are attention of each token to those of its sequence that are at most window away.
typedef struct {
	attend_args all; // without runs and contexts; longest is the maximum length
	int64_t window;
} attend_near_args;

// gate_args are function(x) * gate for x [rows, columns] and the gate in the next columns of the same rows.
typedef struct {
	int64_t rows, columns;
	matrix x; // [rows, 2 * columns]
	int32_t function;
	void *out;
	int32_t half;
} gate_args;

// sum_norm_args write x + y and its layer normalization; without y.data, those of x.
typedef struct {
	int64_t rows, columns;
	matrix x, y;
	const int64_t *x_rows; // the row of x for each row of y; NULL: the same row
	float *sum;            // [rows, columns]; NULL: not written
	norm_weights norm;
	void *out;
	int32_t half;
} sum_norm_args;

// mean_args average the rows of each sequence.
typedef struct {
	int64_t sequences, columns;
	const int64_t *first, *length; // [sequences]
	const float *x;
	float *out; // [sequences, columns]
} mean_args;

void rope(const rope_args *a, int threads);
void attend_near(const attend_near_args *a, int threads);
void gate(const gate_args *a, int threads);
void sum_norm(const sum_norm_args *a, int threads);
void mean(const mean_args *a, int threads);
