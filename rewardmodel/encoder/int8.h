// The int8 engine: all layers of an encoder for a batch, for scoring on a CPU. A thread takes a panel of whole sequences
// and carries it through every layer, so that its activations stay in the cache of its core and threads wait for each
// other only at the end. Sums of products are integers, and every other operation is a correctly rounded one in a fixed
// order, so that a score has the same bits in every batch, on any number of threads, and at every level.
#pragma once
#include <stdint.h>

// int8_linear is a linear layer: y = rotate(x) * weight * scale + bias, where x has one scale per row.
typedef struct {
	int64_t in, out;
	const int8_t *weight;     // [out / 16][in / 4][16][4], where in is rounded up to 64 and out to 32, with zeros
	const int32_t *correction; // [out rounded up to 32]: what the zero point of the activations adds, negated
	const float *scale, *bias; // [out rounded up to 32]
} int8_linear;

// int8_norm is a layer normalization: weight and bias are [hidden rounded up to 16], with zeros.
typedef struct {
	const float *weight, *bias;
} int8_norm;

// int8_layer is a Transformer layer. In the last one query projects to queries only, for first tokens, and key_value to
// keys and values; in the others query projects to all three.
typedef struct {
	int8_linear query, key_value, attended, intermediate, output;
	int8_norm attention_norm, output_norm;
} int8_layer;

// int8_batch is a batch and the model that it is for. A segment is a sequence or a context. A panel is a range of
// segments, of which the contexts come first.
typedef struct {
	int64_t hidden, heads, intermediate, layer_count;
	int32_t function; // the activation function, of kernels.h
	float scale, epsilon;
	const int8_layer *layers;
	const float *word, *position, *token_type; // [n, hidden]; the last two may be NULL
	int8_norm embed_norm;

	const int64_t *ids, *positions, *types; // by row of the batch; types may be NULL: all 0
	int64_t panels;
	const int64_t *panel;           // [panels + 1] the first segment
	const int64_t *first, *length;  // [segments] rows of the batch
	const int64_t *context, *result; // [segments] the segment that is its context, or -1; the row of out, or -1
	float *out;                     // [sequences, hidden] the last hidden states of first tokens
	char *scratch;                  // int8_scratch bytes per thread, aligned to 64
	int64_t scratch_bytes;
} int8_batch;

// The levels, from the slowest to the fastest.
enum { int8_portable, int8_avx2, int8_avx_vnni, int8_avx512_vnni, int8_amx, int8_levels };

// int8_supports reports whether this processor can compute on a level. One that can may lack slower ones: AMD's Zen 4 has
// AVX-512 VNNI, but not AVX-VNNI. For AMX it asks the kernel for permission. int8_best is the fastest level.
int int8_supports(int level);
int int8_best(void);

// int8_rotation is the size of the Hadamard matrix that int8_rotate multiplies each row by, block by block; it does not
// normalize.
int64_t int8_rotation(int64_t columns);
void int8_rotate(float *rows, int64_t n, int64_t columns);

// int8_bytes is the size of the memory, aligned to 64, of a linear layer. int8_at returns where its parts are in there,
// and int8_pack writes them.
int64_t int8_bytes(int64_t in, int64_t out);
int8_linear int8_at(const void *memory, int64_t in, int64_t out);
int8_linear int8_pack(void *memory, const int8_t *weight, const float *scale, const float *bias, int64_t in, int64_t out);

// int8_scratch is the scratch memory of a thread, for panels of up to the given rows and sequences of up to the given
// number of keys.
int64_t int8_scratch(const int8_batch *b, int64_t rows, int64_t keys);

// int8_encode computes b->out on the given level.
void int8_encode(const int8_batch *b, int level, int threads);
