// bf16 panels in plain C, for any processor. It is slow.
#pragma GCC optimize("O2", "fp-contract=off") // with -O3 it takes ten times as long to compile
#include "panel_levels.h"
#include "vector_portable.h"

enum { TILE_ROWS = 16, TILE_COLUMNS = 16 };
#include "tile_fma.h"

#define PANELS bf16_panels_portable
#include "panel_bf16.h"
#include "panel_layers.h"
