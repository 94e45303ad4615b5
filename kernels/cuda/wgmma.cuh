/* SPDX-License-Identifier: Apache-2.0
 * step16 of numerics.md 16.2 by wgmma: 64 rows of a by N rows of b, both in shared memory.
 * acc[4 * i + j] is what finish_bf16.cuh calls c[j] of the rows from 8 * i on.
 */
#ifndef KERNELS_CUDA_WGMMA_CUH
#define KERNELS_CUDA_WGMMA_CUH

#include <stdint.h>

#define WGMMA_4(c, i)  "+f"(c[i]), "+f"(c[(i) + 1]), "+f"(c[(i) + 2]), "+f"(c[(i) + 3])
#define WGMMA_16(c, i) WGMMA_4(c, i), WGMMA_4(c, (i) + 4), WGMMA_4(c, (i) + 8), WGMMA_4(c, (i) + 12)
#define WGMMA_64(c, i)                                                                             \
    WGMMA_16(c, i), WGMMA_16(c, (i) + 16), WGMMA_16(c, (i) + 32), WGMMA_16(c, (i) + 48)
#define WGMMA_8(c, i) WGMMA_4(c, i), WGMMA_4(c, (i) + 4)
#define WGMMA_BEGIN   "{\n\t.reg .pred add;\n\tsetp.eq.u32 add, 0, 0;\n\t"

template <int N>
static __device__ __forceinline__ void wgmma_step(float (&c)[N / 2], uint64_t a, uint64_t b);

template <> __device__ __forceinline__ void wgmma_step<16>(float (&c)[8], uint64_t a, uint64_t b) {
    asm volatile(WGMMA_BEGIN "wgmma.mma_async.sync.aligned.m64n16k16.f32.bf16.bf16 {"
                             "%0,%1,%2,%3,%4,%5,%6,%7}, "
                             "%8, %9, add, 1, 1, 0, 0;\n\t}"
                 : WGMMA_8(c, 0)
                 : "l"(a), "l"(b));
}

template <> __device__ __forceinline__ void wgmma_step<32>(float (&c)[16], uint64_t a, uint64_t b) {
    asm volatile(WGMMA_BEGIN "wgmma.mma_async.sync.aligned.m64n32k16.f32.bf16.bf16 {"
                             "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15}, "
                             "%16, %17, add, 1, 1, 0, 0;\n\t}"
                 : WGMMA_16(c, 0)
                 : "l"(a), "l"(b));
}

template <> __device__ __forceinline__ void wgmma_step<48>(float (&c)[24], uint64_t a, uint64_t b) {
    asm volatile(WGMMA_BEGIN "wgmma.mma_async.sync.aligned.m64n48k16.f32.bf16.bf16 {"
                             "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,"
                             "%16,%17,%18,%19,%20,%21,%22,%23}, "
                             "%24, %25, add, 1, 1, 0, 0;\n\t}"
                 : WGMMA_16(c, 0), WGMMA_8(c, 16)
                 : "l"(a), "l"(b));
}

template <> __device__ __forceinline__ void wgmma_step<64>(float (&c)[32], uint64_t a, uint64_t b) {
    asm volatile(WGMMA_BEGIN "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {"
                             "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,"
                             "%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31}, "
                             "%32, %33, add, 1, 1, 0, 0;\n\t}"
                 : WGMMA_16(c, 0), WGMMA_16(c, 16)
                 : "l"(a), "l"(b));
}

template <> __device__ __forceinline__ void wgmma_step<80>(float (&c)[40], uint64_t a, uint64_t b) {
    asm volatile(WGMMA_BEGIN "wgmma.mma_async.sync.aligned.m64n80k16.f32.bf16.bf16 {"
                             "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,"
                             "%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31,"
                             "%32,%33,%34,%35,%36,%37,%38,%39}, "
                             "%40, %41, add, 1, 1, 0, 0;\n\t}"
                 : WGMMA_16(c, 0), WGMMA_16(c, 16), WGMMA_8(c, 32)
                 : "l"(a), "l"(b));
}

template <> __device__ __forceinline__ void wgmma_step<96>(float (&c)[48], uint64_t a, uint64_t b) {
    asm volatile(WGMMA_BEGIN "wgmma.mma_async.sync.aligned.m64n96k16.f32.bf16.bf16 {"
                             "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,"
                             "%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31,"
                             "%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47}, "
                             "%48, %49, add, 1, 1, 0, 0;\n\t}"
                 : WGMMA_16(c, 0), WGMMA_16(c, 16), WGMMA_16(c, 32)
                 : "l"(a), "l"(b));
}

template <>
__device__ __forceinline__ void wgmma_step<112>(float (&c)[56], uint64_t a, uint64_t b) {
    asm volatile(WGMMA_BEGIN "wgmma.mma_async.sync.aligned.m64n112k16.f32.bf16.bf16 {"
                             "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,"
                             "%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31,"
                             "%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,"
                             "%48,%49,%50,%51,%52,%53,%54,%55}, "
                             "%56, %57, add, 1, 1, 0, 0;\n\t}"
                 : WGMMA_16(c, 0), WGMMA_16(c, 16), WGMMA_16(c, 32), WGMMA_8(c, 48)
                 : "l"(a), "l"(b));
}

template <>
__device__ __forceinline__ void wgmma_step<128>(float (&c)[64], uint64_t a, uint64_t b) {
    asm volatile(WGMMA_BEGIN "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {"
                             "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,"
                             "%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31,"
                             "%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,"
                             "%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63}, "
                             "%64, %65, add, 1, 1, 0, 0;\n\t}"
                 : WGMMA_64(c, 0)
                 : "l"(a), "l"(b));
}

template <>
__device__ __forceinline__ void wgmma_step<192>(float (&c)[96], uint64_t a, uint64_t b) {
    asm volatile(WGMMA_BEGIN "wgmma.mma_async.sync.aligned.m64n192k16.f32.bf16.bf16 {"
                             "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,"
                             "%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31,"
                             "%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,"
                             "%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63,"
                             "%64,%65,%66,%67,%68,%69,%70,%71,%72,%73,%74,%75,%76,%77,%78,%79,"
                             "%80,%81,%82,%83,%84,%85,%86,%87,%88,%89,%90,%91,%92,%93,%94,%95}, "
                             "%96, %97, add, 1, 1, 0, 0;\n\t}"
                 : WGMMA_64(c, 0), WGMMA_16(c, 64), WGMMA_16(c, 80)
                 : "l"(a), "l"(b));
}

template <>
__device__ __forceinline__ void wgmma_step<256>(float (&c)[128], uint64_t a, uint64_t b) {
    asm volatile(
        WGMMA_BEGIN
        "wgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16 {"
        "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,"
        "%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31,"
        "%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,"
        "%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63,"
        "%64,%65,%66,%67,%68,%69,%70,%71,%72,%73,%74,%75,%76,%77,%78,%79,"
        "%80,%81,%82,%83,%84,%85,%86,%87,%88,%89,%90,%91,%92,%93,%94,%95,"
        "%96,%97,%98,%99,%100,%101,%102,%103,%104,%105,%106,%107,%108,%109,%110,%111,"
        "%112,%113,%114,%115,%116,%117,%118,%119,%120,%121,%122,%123,%124,%125,%126,%127}, "
        "%128, %129, add, 1, 1, 0, 0;\n\t}"
        : WGMMA_64(c, 0), WGMMA_64(c, 64)
        : "l"(a), "l"(b));
}

/* a from registers (fragments of 16 rows a warp), rows of b with K innermost. */
template <int N>
static __device__ __forceinline__ void wgmma_step_rows(float (&c)[N / 2], const uint32_t (&a)[4],
                                                       uint64_t b);
/* The same, b's rows being K and its columns the other side (hopper_matrix_across). */
template <int N>
static __device__ __forceinline__ void wgmma_step_columns(float (&c)[N / 2], const uint32_t (&a)[4],
                                                          uint64_t b);

template <>
__device__ __forceinline__ void wgmma_step_rows<64>(float (&c)[32], const uint32_t (&a)[4],
                                                    uint64_t b) {
    asm volatile(WGMMA_BEGIN "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {"
                             "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,"
                             "%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31}, "
                             "{%32, %33, %34, %35}, %36, add, 1, 1, 0;\n\t}"
                 : WGMMA_16(c, 0), WGMMA_16(c, 16)
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
}

template <>
__device__ __forceinline__ void wgmma_step_columns<64>(float (&c)[32], const uint32_t (&a)[4],
                                                       uint64_t b) {
    asm volatile(WGMMA_BEGIN "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {"
                             "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,"
                             "%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31}, "
                             "{%32, %33, %34, %35}, %36, add, 1, 1, 1;\n\t}"
                 : WGMMA_16(c, 0), WGMMA_16(c, 16)
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
}

template <>
__device__ __forceinline__ void wgmma_step_columns<128>(float (&c)[64], const uint32_t (&a)[4],
                                                        uint64_t b) {
    asm volatile(WGMMA_BEGIN "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {"
                             "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,"
                             "%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31,"
                             "%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,"
                             "%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63}, "
                             "{%64, %65, %66, %67}, %68, add, 1, 1, 1;\n\t}"
                 : WGMMA_64(c, 0)
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
}

#endif
