// bf16 panels for AVX2, in float32.
#include "panel_levels.h"
#ifdef PANELS_X86
#pragma GCC target("avx2,fma")
#pragma GCC optimize("fp-contract=off")
#include "vector_avx2.h"

enum { TILE_ROWS = 4, TILE_COLUMNS = 16 };
#include "tile_fma.h"

#define PANELS bf16_panels_avx2
#include "panel_bf16.h"
#include "panel_layers.h"
#endif
