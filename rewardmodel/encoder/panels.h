// Panels: all layers of an encoder for a batch, in int8 or bf16, for scoring on a CPU. A thread takes a panel of whole
// sequences and carries it through every layer, so that its activations stay in the cache of its core and threads wait
// for each other only at the end. Everything is added in an order that depends on nothing but the sequence, so a score
// has the same bits in every batch and on any number of threads.
//
// In int8, sums of products are integers, and every other operation is a correctly rounded one in a fixed order: all
// levels give the same bits. In bf16, the inputs and weights of linear layers are bf16 and everything else is float32;
// the levels without instructions for bf16 give the same bits, and each of the others its own.
#pragma once
#include <stdint.h>

// panel_linear is a linear layer. Its weights are [out / 16][bytes of a row of inputs / 4][16][4 bytes], where a row is
// rounded up to 64 bytes and out to 32, with zeros. In int8 it is y = rotate(x) * weight * scale + bias, where x has one
// scale per row; in bf16, y = x * weight + bias.
typedef struct {
	int64_t in, out;
	const void *weight;
	const float *bias;         // [out rounded up to 32]
	const float *scale;        // [out rounded up to 32], in int8
	const int32_t *correction; // [out rounded up to 32], in int8: what the zero point of the inputs adds, negated
} panel_linear;

// panel_norm is a layer normalization: weight and bias are [hidden rounded up to 16], with zeros.
typedef struct {
	const float *weight, *bias;
} panel_norm;

// panel_layer is a Transformer layer. In the last one query projects to queries only, for first tokens, and key_value to
// keys and values; in the others query projects to all three.
typedef struct {
	panel_linear query, key_value, attended, intermediate, output;
	panel_norm attention_norm, output_norm;
} panel_layer;

// panel_batch is a batch and the model that it is for. A segment is a sequence or a context. A panel is a range of
// segments, of which the contexts come first.
typedef struct {
	int64_t hidden, heads, intermediate, layer_count;
	int32_t half;     // bf16: the weights, and the embeddings, which are float32 for int8
	int32_t function; // the activation function, of kernels.h
	float scale, epsilon;
	const panel_layer *layers;
	const void *word, *position, *token_type; // [n, hidden]; the last two may be NULL
	panel_norm embed_norm;

	const int64_t *ids, *positions, *types; // by row of the batch; types may be NULL: all 0
	int64_t panels;
	const int64_t *panel;           // [panels + 1] the first segment
	const int64_t *first, *length;  // [segments] rows of the batch
	const int64_t *context, *result; // [segments] the segment that is its context, or -1; the row of out, or -1
	float *out;                     // [sequences, hidden] the last hidden states of first tokens
	char *scratch;                  // panel_scratch bytes per thread, aligned to 64
	int64_t scratch_bytes;
} panel_batch;

// The levels of either precision, from the slowest to the fastest.
enum {
	int8_portable, int8_avx2, int8_avx_vnni, int8_avx512_vnni, int8_amx,
	bf16_portable, bf16_avx2, bf16_avx512, bf16_avx512_bf16, bf16_amx,
	panel_levels
};

// panel_supports reports whether this processor can compute on a level. One that can may lack slower ones: AMD's Zen 4
// has AVX-512 VNNI, but not AVX-VNNI. For AMX it asks the kernel for permission. panel_best is the fastest level of a
// precision.
int panel_supports(int level);
int panel_best(int half);

// panel_may_use_amx asks the operating system for the permission to use the tiles of AMX.
int panel_may_use_amx(void);

// int8_rotation is the size of the Hadamard matrix that int8_rotate multiplies each row by, block by block; it does not
// normalize.
int64_t int8_rotation(int64_t columns);
void int8_rotate(float *rows, int64_t n, int64_t columns);

// panel_bytes is the size of the memory, aligned to 64, of a linear layer. panel_at returns where its parts are in there,
// and int8_pack and bf16_pack write them, from weights [out, in].
int64_t panel_bytes(int half, int64_t in, int64_t out);
panel_linear panel_at(int half, const void *memory, int64_t in, int64_t out);
panel_linear int8_pack(void *memory, const int8_t *weight, const float *scale, const float *bias, int64_t in, int64_t out);
panel_linear bf16_pack(void *memory, const uint16_t *weight, const float *bias, int64_t in, int64_t out);

// panel_scratch is the scratch memory of a thread, for panels of up to the given rows and sequences of up to the given
// number of keys.
int64_t panel_scratch(const panel_batch *b, int64_t rows, int64_t keys);

// panel_encode computes b->out on the given level, which is one of its precision.
void panel_encode(const panel_batch *b, int level, int threads);
