// int8 panels for AMX; the rest is AVX-512.
#include "panel_levels.h"
#ifdef PANELS_X86
#pragma GCC target("arch=x86-64-v4,avx512vnni,amx-tile,amx-int8")
#pragma GCC optimize("fp-contract=off")
#include "vector_avx512.h"

#define TILE_DOT(sums, x, weights) _tile_dpbusd(sums, x, weights)
#include "tile_amx.h"

#define PANELS int8_panels_amx
#include "panel_int8.h"
#include "panel_layers.h"
#endif
