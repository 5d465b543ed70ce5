#include "panel_levels.h"

#include "kernels.h"
#ifdef PANELS_X86
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

const float panel_gelu[2][gelu_terms] = {
	{3.991096318e-01f, -6.666422635e-02f, 9.990726598e-03f, -1.155831618e-03f, 1.006070888e-04f, -6.270993254e-06f, 2.593725981e-07f, -6.289162968e-09f, 6.707479711e-11f},
	{3.987877667e-01f, -6.645298749e-02f, 9.904826991e-03f, -1.128648873e-03f, 9.547221998e-05f, -5.722190053e-06f, 2.264700356e-07f, -5.253867563e-09f, 5.374630949e-11f},
};

#ifdef PANELS_X86

// Linux grants the permission per process, since the state of the tiles is large.
int panel_may_use_amx(void) {
#ifdef __linux__
	enum { request_permission = 0x1023, tile_data = 18 };
	return syscall(SYS_arch_prctl, request_permission, tile_data) == 0;
#else
	return 0;
#endif
}

// has reports a bit of a register of a leaf of CPUID: register 0 is eax, 3 is edx.
static int has(unsigned leaf, unsigned subleaf, int number, int bit) {
	unsigned r[4] = {0};
	if (__get_cpuid_max(0, NULL) < leaf) return 0;
	__cpuid_count(leaf, subleaf, r[0], r[1], r[2], r[3]);
	return r[number] >> bit & 1;
}

enum { eax = 0, edx = 3 };

int panel_supports(int level) {
	switch (level) {
	case int8_portable:
	case bf16_portable: return 1;
	case int8_avx2:
	case bf16_avx2: return __builtin_cpu_supports("x86-64-v3") != 0;
	case int8_avx_vnni: return panel_supports(int8_avx2) && has(7, 1, eax, 4);
	case int8_avx512_vnni: return panel_supports(bf16_avx512) && __builtin_cpu_supports("avx512vnni");
	case int8_amx: return panel_supports(int8_avx512_vnni) && has(7, 0, edx, 24) && has(7, 0, edx, 25) && panel_may_use_amx(); // AMX-TILE, AMX-INT8
	case bf16_avx512: return __builtin_cpu_supports("x86-64-v4") != 0;
	case bf16_avx512_bf16: return panel_supports(bf16_avx512) && has(7, 1, eax, 5);
	case bf16_amx: return panel_supports(bf16_avx512_bf16) && has(7, 0, edx, 24) && has(7, 0, edx, 22) && panel_may_use_amx() && bf16_amx_works(); // AMX-TILE, AMX-BF16
	}
	return 0;
}

#else

int panel_may_use_amx(void) { return 0; }

int panel_supports(int level) { return level == int8_portable || level == bf16_portable; }

#endif

int panel_best(int half) {
	int level = half ? bf16_amx : int8_amx;
	while (!panel_supports(level)) level--;
	return level;
}

void panel_encode(const panel_batch *b, int level, int threads) {
	static panel_function *const panels[panel_levels] = {
		[int8_portable] = int8_panels_portable, [bf16_portable] = bf16_panels_portable,
#ifdef PANELS_X86
		[int8_avx2] = int8_panels_avx2, [int8_avx_vnni] = int8_panels_avx_vnni, [int8_avx512_vnni] = int8_panels_avx512_vnni, [int8_amx] = int8_panels_amx,
		[bf16_avx2] = bf16_panels_avx2, [bf16_avx512] = bf16_panels_avx512, [bf16_avx512_bf16] = bf16_panels_avx512_bf16, [bf16_amx] = bf16_panels_amx,
#endif
	};
	share(panels[level], b, b->panels, 1, threads);
}

int64_t panel_room(room *m, const panel_batch *b, char *memory, int64_t rows, int64_t keys) {
	const int64_t hidden = round_up(b->hidden, 32), feed = round_up(b->intermediate, 32), all_rows = round_up(rows, 32);
	const int64_t block = all_rows < feed_rows ? all_rows : feed_rows;
	int64_t wide = all_rows * round_up(3 * b->hidden, 32), at = 0;
	if (!b->half && block * feed > wide) wide = block * feed; // in bf16 it goes to inner directly
#define PART(field, bytes) m->field = (void *)(memory + at), at = AFTER_PART(memory, at, bytes)
	PART(x, all_rows * hidden * 4);
	PART(wide, wide * 4 + 64);
	PART(attended, all_rows * hidden * 4);
	PART(in.values, all_rows * row_bytes(b->half, b->hidden));
	PART(in.scale, all_rows * 4);
	PART(inner.values, block * row_bytes(b->half, feed));
	PART(inner.scale, block * 4);
	PART(scores, round_up(keys, 8) * 64);
	PART(query, round_up(b->hidden / b->heads, 16) * 64);
	PART(row, (hidden > feed ? hidden : feed) * 4 + 64);
#undef PART
	return round_up(at, 4096);
}

int64_t panel_scratch(const panel_batch *b, int64_t rows, int64_t keys) {
	room m;
	return panel_room(&m, b, NULL, rows, keys);
}

int64_t int8_rotation(int64_t columns) { return columns % 16 ? columns & -columns : rotation_vectors(columns); }

int64_t panel_bytes(int half, int64_t in, int64_t out) {
	const int64_t wide = round_up(out, 32);
	return wide * row_bytes(half, in) + (half ? 1 : 3) * wide * 4;
}

panel_linear panel_at(int half, const void *memory, int64_t in, int64_t out) {
	const int64_t wide = round_up(out, 32);
	panel_linear at = {.in = in, .out = out, .weight = memory, .bias = (const float *)((const char *)memory + wide * row_bytes(half, in))};
	if (!half) at.scale = at.bias + wide, at.correction = (const int32_t *)(at.scale + wide);
	return at;
}

panel_linear int8_pack(void *memory, const int8_t *weight, const float *scale, const float *bias, int64_t in, int64_t out) {
	const panel_linear at = panel_at(0, memory, in, out);
	const int64_t deep = row_bytes(0, in);
	memset(memory, 0, panel_bytes(0, in, out));
	int8_t *packed = memory;
	int32_t *correction = (int32_t *)at.correction;
	float *scales = (float *)at.scale, *biases = (float *)at.bias;
	for (int64_t n = 0; n < out; n++) {
		int32_t sum = 0;
		for (int64_t k = 0; k < in; k++) {
			sum += weight[n * in + k];
			packed[n / 16 * 16 * deep + k / 4 * 64 + n % 16 * 4 + k % 4] = weight[n * in + k];
		}
		correction[n] = -zero_point * sum;
		scales[n] = scale[n], biases[n] = bias[n];
	}
	return at;
}

panel_linear bf16_pack(void *memory, const uint16_t *weight, const float *bias, int64_t in, int64_t out) {
	const panel_linear at = panel_at(1, memory, in, out);
	const int64_t deep = row_bytes(1, in) / 2;
	memset(memory, 0, panel_bytes(1, in, out));
	uint16_t *packed = memory;
	for (int64_t n = 0; n < out; n++)
		for (int64_t k = 0; k < in; k++) packed[n / 16 * 16 * deep + k / 2 * 32 + n % 16 * 2 + k % 2] = weight[n * in + k];
	memcpy((float *)at.bias, bias, out * 4);
	return at;
}
