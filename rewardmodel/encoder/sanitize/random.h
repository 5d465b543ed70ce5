// Random numbers of the checks, the same on every machine.
#pragma once
#include <stdint.h>

static uint64_t state;

static uint64_t next(void) { // splitmix64
	uint64_t z = state += 0x9e3779b97f4a7c15u;
	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
	return z ^ (z >> 31);
}

static int64_t between(int64_t low, int64_t high) { return low + (int64_t)(next() % (uint64_t)(high - low + 1)); }

static float normal(void) {
	float s = 0;
	for (int i = 0; i < 6; i++) s += (float)between(-1000, 1000) / 1000;
	return s;
}
