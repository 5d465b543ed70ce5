// bf16 panels for AVX-512 with bf16.
#include "panel_levels.h"
#ifdef PANELS_X86
#pragma GCC target("arch=x86-64-v4,avx512bf16")
#pragma GCC optimize("fp-contract=off")
#include "vector_avx512.h"

#define DOT(sums, x, weights) (__m512i)_mm512_dpbf16_ps((__m512)(sums), (__m512bh)(x), (__m512bh)(weights))
#include "tile_avx512.h"

#define PANELS bf16_panels_avx512_bf16
#include "panel_bf16.h"
#include "panel_layers.h"
#endif
