#include "int8_levels.h"

#include <string.h>

#include "kernels.h"
#ifdef INT8_X86
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

const float int8_gelu[2][gelu_terms] = {
	{3.991096318e-01f, -6.666422635e-02f, 9.990726598e-03f, -1.155831618e-03f, 1.006070888e-04f, -6.270993254e-06f, 2.593725981e-07f, -6.289162968e-09f, 6.707479711e-11f},
	{3.987877667e-01f, -6.645298749e-02f, 9.904826991e-03f, -1.128648873e-03f, 9.547221998e-05f, -5.722190053e-06f, 2.264700356e-07f, -5.253867563e-09f, 5.374630949e-11f},
};

#ifdef INT8_X86

// may_use_amx asks Linux for the permission to use the tiles of AMX, whose state is large: it is granted per process.
static int may_use_amx(void) {
#ifdef __linux__
	enum { request_permission = 0x1023, tile_data = 18 };
	return syscall(SYS_arch_prctl, request_permission, tile_data) == 0;
#else
	return 0;
#endif
}

int int8_supports(int level) {
	unsigned a, b, c, d, most = __get_cpuid_max(0, NULL);
	switch (level) {
	case int8_portable: return 1;
	case int8_avx2: return __builtin_cpu_supports("x86-64-v3") != 0;
	case int8_avx_vnni:
		if (most < 7 || !int8_supports(int8_avx2)) return 0;
		__cpuid_count(7, 1, a, b, c, d);
		return a >> 4 & 1;
	case int8_avx512_vnni: return __builtin_cpu_supports("x86-64-v4") && __builtin_cpu_supports("avx512vnni");
	case int8_amx:
		if (!int8_supports(int8_avx512_vnni)) return 0;
		__cpuid_count(7, 0, a, b, c, d);
		return (d >> 24 & 1) && (d >> 25 & 1) && may_use_amx(); // AMX-TILE, AMX-INT8
	}
	return 0;
}

#else

int int8_supports(int level) { return level == int8_portable; }

#endif

int int8_best(void) {
	int level = int8_levels - 1;
	while (!int8_supports(level)) level--;
	return level;
}

void int8_encode(const int8_batch *b, int level, int threads) {
	void (*const panels[int8_levels])(const void *, int64_t, int64_t, int) = {
		int8_panels_portable,
#ifdef INT8_X86
		int8_panels_avx2, int8_panels_avx_vnni, int8_panels_avx512_vnni, int8_panels_amx,
#endif
	};
	share(panels[level], b, b->panels, 1, threads);
}

int64_t int8_rotation(int64_t columns) { return columns % 16 ? columns & -columns : rotation_vectors(columns); }

int64_t int8_bytes(int64_t in, int64_t out) {
	const int64_t wide = round_up(out, 32);
	return wide * round_up(in, 64) + 3 * wide * 4;
}

int8_linear int8_at(const void *memory, int64_t in, int64_t out) {
	const int64_t deep = round_up(in, 64), wide = round_up(out, 32);
	const int8_t *weight = memory;
	const int32_t *correction = (const int32_t *)(weight + wide * deep);
	const float *scale = (const float *)(correction + wide);
	return (int8_linear){.in = in, .out = out, .weight = weight, .correction = correction, .scale = scale, .bias = scale + wide};
}

int8_linear int8_pack(void *memory, const int8_t *weight, const float *scale, const float *bias, int64_t in, int64_t out) {
	const int8_linear at = int8_at(memory, in, out);
	const int64_t deep = round_up(in, 64);
	memset(memory, 0, int8_bytes(in, out));
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
