// What a Transformer layer does between its matrix products, row by row, for scoring on a CPU. Each function takes a
// token, or a sequence and a head, at a time, and reads and writes each row once. So a result depends on its own
// sequence alone, never on what else is in the batch or on how many threads share the work.
#include <stdint.h>

// matrix is [rows, columns] of float32 or bfloat16, whose rows are stride elements apart. When step is set, its values
// are those of an integer product, and value * step[row] + bias[column] is meant.
typedef struct {
	const void *data;
	int64_t stride;
	int32_t half; // bfloat16
	const float *step, *bias;
} matrix;

// quantiser makes bytes of a row: rotate(x), divided by the row's own step, which it writes, and rounded. The byte of 0
// is 128.
typedef struct {
	uint8_t *bytes; // [rows, columns]; NULL for none
	float *step;    // [rows]
} quantiser;

// norm_weights are those of a layer normalisation.
typedef struct {
	const float *weight, *bias;
	float epsilon;
} norm_weights;

typedef struct {
	int64_t rows, columns;
	const int64_t *ids, *positions;    // [rows]
	matrix word, position, token_type; // data is NULL where there is none; row 0 of token_type
	norm_weights norm;
	void *out; // [rows, columns] float32, or bfloat16 when half
	int32_t half;
	quantiser bytes;
} embed_args;

typedef struct {
	int64_t rows, columns;
	matrix x, y;
	const int64_t *x_rows; // the row of x for each of y; NULL: its own
	norm_weights norm;
	void *out;
	int32_t half;
	quantiser bytes;
} add_norm_args;

typedef struct {
	int64_t sequences, heads, size; // size of a head
	const int64_t *first, *length;  // [sequences]
	int32_t first_only;             // queries are the sequences' first tokens alone, one row each
	matrix q, k, v;
	float scale;
	float *scratch;  // [threads, scratch_size(longest, size)]
	int64_t longest; // of length
	void *out;       // [rows of q, heads * size]
	int32_t half;
} attend_args;

enum { gelu = 0, gelu_tanh = 1, relu = 2 };

typedef struct {
	int64_t rows, columns;
	matrix x;
	int32_t function; // -1: none
	quantiser bytes;
} quantise_args;

// rotation is how many columns are mixed with each other, a power of two. rotate multiplies each row in place with the
// Hadamard matrix of that size, block by block.
int64_t rotation(int64_t columns);
void rotate(float *rows, int64_t n, int64_t columns);

int64_t attend_scratch(int64_t longest, int64_t size);
void embed(const embed_args *a, int threads);
void add_norm(const add_norm_args *a, int threads);
void attend(const attend_args *a, int threads);
void quantise_rows(const quantise_args *a, int threads);
