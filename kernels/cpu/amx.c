/* SPDX-License-Identifier: Apache-2.0
 * Asking for AMX.
 */
#include "kernels/cpu/amx.h"

#if defined(__x86_64__) && defined(__linux__)
#include <cpuid.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { AMX_BF16 = 22, AMX_TILE = 24, AMX_INT8 = 25 }; /* bits of leaf 7, edx */
enum { ARCH_REQ_XCOMP_PERM = 0x1023, XFEATURE_XTILEDATA = 18 };

/* Both parts of the tile state are saved by the system: xgetbv, bits 17 and 18. */
static bool system_saves_tiles(void) {
    unsigned a, b, c, d;
    if (__get_cpuid(1, &a, &b, &c, &d) == 0 || (c & bit_OSXSAVE) == 0)
        return false;
    uint32_t low, high;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return (low >> 17 & 3u) == 3u;
}

static bool have(int feature) {
    unsigned a, b, c, d;
    if (__get_cpuid_count(7, 0, &a, &b, &c, &d) == 0 || (d >> AMX_TILE & 1u) == 0 ||
        (d >> feature & 1u) == 0 || !system_saves_tiles())
        return false;
    return syscall(SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA) == 0;
}

bool krn_amx_int8(void) {
    return have(AMX_INT8);
}

bool krn_amx_bf16(void) {
    return have(AMX_BF16);
}
#else
bool krn_amx_int8(void) {
    return false;
}

bool krn_amx_bf16(void) {
    return false;
}
#endif
