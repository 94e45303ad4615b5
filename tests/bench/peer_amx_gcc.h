/* SPDX-License-Identifier: Apache-2.0
 * For the peer's source only: gcc 12 tells its optimiser that the AMX loads read 8 bytes or nothing
 * of memory, and drops or moves the stores before them. The same instructions, with what they read.
 */
#ifndef TESTS_BENCH_PEER_AMX_GCC_H
#define TESTS_BENCH_PEER_AMX_GCC_H
#if defined(__AMX_TILE__) && defined(__GNUC__) && !defined(__clang__)
#include <immintrin.h>
struct peer_amx_shape {
    char bytes[64];
};
static inline void peer_tile_loadconfig(const void *shape) {
    __asm__ volatile("ldtilecfg %0" ::"m"(*(const struct peer_amx_shape *)shape));
}
#define _tile_loadconfig peer_tile_loadconfig
#undef _tile_loadd_internal
#define _tile_loadd_internal(tile, base, stride)                                                   \
    __asm__ volatile("tileloadd (%0,%1,1), %%tmm" #tile ::"r"((const void *)(base)),               \
                     "r"((long)(stride))                                                           \
                     : "memory")
#endif
#endif
