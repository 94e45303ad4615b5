/* SPDX-License-Identifier: Apache-2.0
 * What sm_90a has: transaction barriers, bulk copies (also to all blocks of a cluster), wgmma on
 * tiles of bf16_tile.h, registers moved between warpgroups, overlap with the kernel before.
 */
#ifndef KERNELS_CUDA_HOPPER_CUH
#define KERNELS_CUDA_HOPPER_CUH

#include "kernels/cuda/tensor.cuh"

static __device__ __forceinline__ void hopper_barrier_open(uint32_t barrier, uint32_t arrivals) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals)
                 : "memory");
}

/* Barriers just opened are seen by the copy engine and by the other blocks of the cluster. */
static __device__ __forceinline__ void hopper_barriers_opened(void) {
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

static __device__ __forceinline__ void hopper_expect(uint32_t barrier, uint32_t bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes)
                 : "memory");
}

static __device__ __forceinline__ void hopper_arrive(uint32_t barrier) {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}

/* Arrives at the barrier of the same place in block `rank` of the cluster. */
static __device__ __forceinline__ void hopper_arrive_at(uint32_t barrier, uint32_t rank) {
    asm volatile("{\n\t.reg .b32 there;\n\t"
                 "mapa.shared::cluster.u32 there, %0, %1;\n\t"
                 "mbarrier.arrive.shared::cluster.b64 _, [there];\n\t}" ::"r"(barrier),
                 "r"(rank)
                 : "memory");
}

/* Waits until the phase of that parity is over. Arrivals order what was read; memory that another
 * block wrote would need more. */
static __device__ __forceinline__ void hopper_wait(uint32_t barrier, uint32_t parity) {
    asm volatile("{\n\t.reg .pred over;\n\t"
                 "again:\n\t"
                 "mbarrier.try_wait.parity.shared::cta.b64 over, [%0], %1;\n\t"
                 "@over bra.uni done;\n\t"
                 "bra.uni again;\n\t"
                 "done:\n\t}" ::"r"(barrier),
                 "r"(parity)
                 : "memory");
}

/* Neighbouring bytes (a multiple of 16) into shared memory, counted at the barrier. */
static __device__ __forceinline__ void hopper_copy(uint32_t to, const void *from, uint32_t bytes,
                                                   uint32_t barrier) {
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes "
                 "[%0], [%1], %2, [%3];" ::"r"(to),
                 "l"(__cvta_generic_to_global(from)), "r"(bytes), "r"(barrier)
                 : "memory");
}

/* The same into every block of the cluster whose bit is set, at the same place. */
static __device__ __forceinline__ void hopper_copy_to(uint32_t to, const void *from, uint32_t bytes,
                                                      uint32_t barrier, uint16_t blocks) {
    asm volatile(
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster "
        "[%0], [%1], %2, [%3], %4;" ::"r"(to),
        "l"(__cvta_generic_to_global(from)), "r"(bytes), "r"(barrier), "h"(blocks)
        : "memory");
}

static __device__ __forceinline__ uint32_t hopper_cluster_rank(void) {
    uint32_t rank;
    asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    return rank;
}

static __device__ __forceinline__ void hopper_cluster_sync(void) {
    asm volatile("barrier.cluster.arrive.aligned;\n\tbarrier.cluster.wait.aligned;" ::: "memory");
}

/* The kernel before has ended and its writes are seen. */
static __device__ __forceinline__ void hopper_wait_before(void) {
    asm volatile("griddepcontrol.wait;" ::: "memory");
}

/* The kernel behind may begin as far as it does not need this one. */
static __device__ __forceinline__ void hopper_let_next(void) {
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
}

template <int N> static __device__ __forceinline__ void hopper_registers_less(void) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(N));
}

template <int N> static __device__ __forceinline__ void hopper_registers_more(void) {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(N));
}

/* Describes rows of 128 swizzled bytes from `at` on, K innermost; K-step ks adds 2 * ks. */
static __device__ __forceinline__ uint64_t hopper_matrix(uint32_t at) {
    return (uint64_t)(at >> 4 & 0x3fff) | (uint64_t)1 << 16 |
           (uint64_t)(KRN_BF16_ATOM_BYTES >> 4) << 32 | (uint64_t)1 << 62;
}

/* Describes the same rows as K: columns are the other side, 64 of them a panel, panels panel_bytes
 * apart; `at` is the first of the step's sixteen rows. */
static __device__ __forceinline__ uint64_t hopper_matrix_across(uint32_t at, uint32_t panel_bytes) {
    return (uint64_t)(at >> 4 & 0x3fff) | (uint64_t)(panel_bytes >> 4) << 16 |
           (uint64_t)(KRN_BF16_ATOM_BYTES >> 4) << 32 | (uint64_t)1 << 62;
}

static __device__ __forceinline__ void hopper_multiply_begin(void) {
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}

static __device__ __forceinline__ void hopper_multiply_end(void) {
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}

template <int N> static __device__ __forceinline__ void hopper_multiply_wait(void) {
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(N) : "memory");
}

#endif
