// bf16 panels for AVX-512 without bf16, in float32.
#include "panel_levels.h"
#ifdef PANELS_X86
#pragma GCC target("arch=x86-64-v4")
#pragma GCC optimize("fp-contract=off")
#include "vector_avx512.h"

enum { TILE_ROWS = 8, TILE_COLUMNS = 32 };
#include "tile_fma.h"

#define PANELS bf16_panels_avx512
#include "panel_bf16.h"
#include "panel_layers.h"
#endif
