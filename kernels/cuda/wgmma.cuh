/* SPDX-License-Identifier: Apache-2.0
 * step16 of numerics.md 16.2 by wgmma: 64 rows of a by N rows of b, both in shared memory.
 * acc[4 * i + j] is what finish_bf16.cuh calls c[j] of the rows from 8 * i on.
 */
#ifndef KERNELS_CUDA_WGMMA_CUH
#define KERNELS_CUDA_WGMMA_CUH

#include <stdint.h>

/* Accumulators as operands, eight or so many from i on, and their numbers in the instruction. */
#define WGMMA_4(c, i)   "+f"(c[i]), "+f"(c[(i) + 1]), "+f"(c[(i) + 2]), "+f"(c[(i) + 3])
#define WGMMA_8(c, i)   WGMMA_4(c, i), WGMMA_4(c, (i) + 4)
#define WGMMA_16(c, i)  WGMMA_8(c, i), WGMMA_8(c, (i) + 8)
#define WGMMA_32(c, i)  WGMMA_16(c, i), WGMMA_16(c, (i) + 16)
#define WGMMA_64(c, i)  WGMMA_32(c, i), WGMMA_32(c, (i) + 32)
#define WGMMA_24(c, i)  WGMMA_16(c, i), WGMMA_8(c, (i) + 16)
#define WGMMA_40(c, i)  WGMMA_32(c, i), WGMMA_8(c, (i) + 32)
#define WGMMA_48(c, i)  WGMMA_32(c, i), WGMMA_16(c, (i) + 32)
#define WGMMA_56(c, i)  WGMMA_48(c, i), WGMMA_8(c, (i) + 48)
#define WGMMA_96(c, i)  WGMMA_64(c, i), WGMMA_32(c, (i) + 64)
#define WGMMA_128(c, i) WGMMA_64(c, i), WGMMA_64(c, (i) + 64)

#define WGMMA_N8  "%0,%1,%2,%3,%4,%5,%6,%7"
#define WGMMA_N16 WGMMA_N8 ",%8,%9,%10,%11,%12,%13,%14,%15"
#define WGMMA_N24 WGMMA_N16 ",%16,%17,%18,%19,%20,%21,%22,%23"
#define WGMMA_N32 WGMMA_N24 ",%24,%25,%26,%27,%28,%29,%30,%31"
#define WGMMA_N40 WGMMA_N32 ",%32,%33,%34,%35,%36,%37,%38,%39"
#define WGMMA_N48 WGMMA_N40 ",%40,%41,%42,%43,%44,%45,%46,%47"
#define WGMMA_N56 WGMMA_N48 ",%48,%49,%50,%51,%52,%53,%54,%55"
#define WGMMA_N64 WGMMA_N56 ",%56,%57,%58,%59,%60,%61,%62,%63"
#define WGMMA_N96                                                                                  \
    WGMMA_N64 ",%64,%65,%66,%67,%68,%69,%70,%71,%72,%73,%74,%75,%76,%77,%78,%79"                   \
              ",%80,%81,%82,%83,%84,%85,%86,%87,%88,%89,%90,%91,%92,%93,%94,%95"
#define WGMMA_N128                                                                                 \
    WGMMA_N96 ",%96,%97,%98,%99,%100,%101,%102,%103,%104,%105,%106,%107,%108,%109,%110,%111"       \
              ",%112,%113,%114,%115,%116,%117,%118,%119,%120,%121,%122,%123,%124,%125,%126,%127"

/* Adds to what is there: m64n<n>k16, `rest` behind the accumulators. */
#define WGMMA(n, numbers, rest)                                                                    \
    "{\n\t.reg .pred add;\n\tsetp.eq.u32 add, 0, 0;\n\t"                                           \
    "wgmma.mma_async.sync.aligned.m64n" #n "k16.f32.bf16.bf16 {" numbers "}, " rest ";\n\t}"

template <int N>
static __device__ __forceinline__ void wgmma_step(float (&c)[N / 2], uint64_t a, uint64_t b);

/* half: n / 2; at, next: the numbers of a and b. */
#define WGMMA_STEP(n, half, at, next)                                                              \
    template <>                                                                                    \
    __device__ __forceinline__ void wgmma_step<n>(float(&c)[half], uint64_t a, uint64_t b) {       \
        asm volatile(WGMMA(n, WGMMA_N##half, "%" #at ", %" #next ", add, 1, 1, 0, 0")              \
                     : WGMMA_##half(c, 0)                                                          \
                     : "l"(a), "l"(b));                                                            \
    }
WGMMA_STEP(16, 8, 8, 9)
WGMMA_STEP(32, 16, 16, 17)
WGMMA_STEP(48, 24, 24, 25)
WGMMA_STEP(64, 32, 32, 33)
WGMMA_STEP(80, 40, 40, 41)
WGMMA_STEP(96, 48, 48, 49)
WGMMA_STEP(112, 56, 56, 57)
WGMMA_STEP(128, 64, 64, 65)
WGMMA_STEP(192, 96, 96, 97)
WGMMA_STEP(256, 128, 128, 129)

/* a from registers (fragments of 16 rows a warp), rows of b with K innermost. */
template <int N>
static __device__ __forceinline__ void wgmma_step_rows(float (&c)[N / 2], const uint32_t (&a)[4],
                                                       uint64_t b);
/* The same, b's rows being K and its columns the other side (hopper_matrix_across). */
template <int N>
static __device__ __forceinline__ void wgmma_step_columns(float (&c)[N / 2], const uint32_t (&a)[4],
                                                          uint64_t b);

/* operands: the numbers of a and b, then what turns b. */
#define WGMMA_STEP_OF(name, n, half, operands)                                                     \
    template <>                                                                                    \
    __device__ __forceinline__ void name<n>(float(&c)[half], const uint32_t(&a)[4], uint64_t b) {  \
        asm volatile(WGMMA(n, WGMMA_N##half, operands)                                             \
                     : WGMMA_##half(c, 0)                                                          \
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));                        \
    }
WGMMA_STEP_OF(wgmma_step_rows, 64, 32, "{%32, %33, %34, %35}, %36, add, 1, 1, 0")
WGMMA_STEP_OF(wgmma_step_columns, 64, 32, "{%32, %33, %34, %35}, %36, add, 1, 1, 1")
WGMMA_STEP_OF(wgmma_step_columns, 128, 64, "{%64, %65, %66, %67}, %68, add, 1, 1, 1")

#endif
