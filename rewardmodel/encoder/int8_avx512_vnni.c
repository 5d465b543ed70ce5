// int8 panels for AVX-512 with VNNI.
#include "panel_levels.h"
#ifdef PANELS_X86
#pragma GCC target("arch=x86-64-v4,avx512vnni")
#pragma GCC optimize("fp-contract=off")
#include "vector_avx512.h"

#define DOT(sums, x, weights) _mm512_dpbusd_epi32(sums, x, weights)
#include "tile_avx512.h"

#define PANELS int8_panels_avx512_vnni
#include "panel_int8.h"
#include "panel_layers.h"
#endif
