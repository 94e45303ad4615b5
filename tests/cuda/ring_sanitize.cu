/* SPDX-License-Identifier: Apache-2.0
 * What racecheck makes of the ring that the Hopper kernels use (kernels/cuda/ring.cuh): one thread
 * brings tiles by bulk copies, warps read them and hand the place back at a barrier. By its own:
 *
 *     nvcc -gencode arch=compute_90a,code=sm_90a -I. -o ring tests/cuda/ring_sanitize.cu
 *     compute-sanitizer --tool racecheck ./ring FORM
 *
 * FORM 0: every reading thread arrives (attention). 1: lane 0 arrives for its warp behind
 * __syncwarp (products of few rows). 2: as 0 by cuda::barrier and cuda::device::memcpy_async_tx.
 * 3: as 0, but a place is given back before it is read, a true race, which the tool must report.
 * 4: as 1, and readers meet at a named barrier before lane 0 arrives. 5: as 1, read by ldmatrix.
 * And of a table that two warps write and a third reads, without a ring (attention of few rows), a
 * fourth being idle: 6: all meet at named barriers. 7: those that need not wait only arrive. 8: as
 * 6, but nobody waits until the table has been read, a true race.
 * Each prints whether the sums are right.
 */
#include <cstdio>
#include <cstdlib>
#include <cuda/barrier>

#include "kernels/cuda/ring.cuh"

enum { STAGES = 2, READERS = 64, TILES = 16, TILE_BYTES = 4096, WORDS = TILE_BYTES / 4 };

template <int FORM> static __device__ uint32_t ring_read(struct ring &r) {
    uint32_t sum = 0;
    for (uint32_t n = 0; n < TILES; n++, r.next()) {
        hopper_wait(r.full + 8 * r.stage, r.parity);
        if (FORM == 3)
            hopper_arrive(r.empty + 8 * r.stage);
        for (uint32_t i = threadIdx.x; FORM != 5 && i < WORDS; i += READERS) {
            uint32_t v;
            asm volatile("ld.shared.u32 %0, [%1];" : "=r"(v) : "r"(r.at() + 4 * i) : "memory");
            sum += v;
        }
        for (uint32_t i = threadIdx.x; FORM == 5 && i < WORDS / 4; i += READERS) {
            uint32_t v[4];
            tensor_load(v, r.at() + 16 * i);
            sum += v[0] + v[1] + v[2] + v[3];
        }
        if (FORM == 4)
            asm volatile("bar.sync 1, 64;" ::: "memory");
        __syncwarp();
        if (FORM == 0 || (FORM != 3 && threadIdx.x % 32 == 0))
            hopper_arrive(r.empty + 8 * r.stage);
    }
    return sum;
}

template <int FORM>
static __global__ void __launch_bounds__(96) ring_form(const uint32_t *from, uint32_t *sums) {
    extern __shared__ __align__(1024) unsigned char shared[];
    struct ring r = ring_at(shared, STAGES, TILE_BYTES, 1);
    if (threadIdx.x == 0)
        ring_open(r, FORM == 0 || FORM == 3 ? READERS : READERS / 32);
    __syncthreads();
    if (threadIdx.x < READERS) {
        sums[threadIdx.x] = ring_read<FORM>(r);
    } else if (threadIdx.x == READERS) {
        r.parity = 1;
        for (uint32_t n = 0; n < TILES; n++, r.next()) {
            hopper_wait(r.empty + 8 * r.stage, r.parity);
            hopper_expect(r.full + 8 * r.stage, TILE_BYTES);
            hopper_copy(r.at(), from + n * WORDS, TILE_BYTES, r.full + 8 * r.stage);
        }
    }
}

/* The same by the library's barriers. */
static __global__ void __launch_bounds__(96) ring_library(const uint32_t *from, uint32_t *sums) {
    using barrier = cuda::barrier<cuda::thread_scope_block>;
    __shared__ __align__(128) uint32_t tile[STAGES][WORDS];
#pragma nv_diag_suppress static_var_with_dynamic_init
    __shared__ barrier full[STAGES], empty[STAGES];
    if (threadIdx.x == 0)
        for (uint32_t s = 0; s < STAGES; s++) {
            init(&full[s], READERS + 1);
            init(&empty[s], READERS + 1);
        }
    __syncthreads();
    uint32_t sum = 0;
    if (threadIdx.x < READERS) {
        for (uint32_t s = 0; s < STAGES; s++)
            (void)empty[s].arrive();
        for (uint32_t n = 0; n < TILES; n++) {
            full[n % STAGES].arrive_and_wait();
            for (uint32_t i = threadIdx.x; i < WORDS; i += READERS)
                sum += tile[n % STAGES][i];
            (void)empty[n % STAGES].arrive();
        }
        sums[threadIdx.x] = sum;
    } else if (threadIdx.x == READERS) {
        for (uint32_t n = 0; n < TILES; n++) {
            empty[n % STAGES].arrive_and_wait();
            cuda::device::memcpy_async_tx(tile[n % STAGES], from + n * WORDS,
                                          cuda::aligned_size_t<16>(TILE_BYTES), full[n % STAGES]);
            (void)cuda::device::barrier_arrive_tx(full[n % STAGES], 1, TILE_BYTES);
        }
    }
}

enum { STEPS = 8, WRITERS = 64 };

/* Before the table is written (barrier 1) and before it is read (barrier 2). */
template <int BARRIER> static __device__ void hand_over_meet(bool waits) {
    if (waits)
        asm volatile("bar.sync %0, 96;" ::"n"(BARRIER) : "memory");
    else
        asm volatile("bar.arrive %0, 96;" ::"n"(BARRIER) : "memory");
}

template <int FORM>
static __global__ void __launch_bounds__(128) hand_over(const uint32_t *from, uint32_t *sums) {
    __shared__ uint32_t table[WRITERS];
    if (threadIdx.x >= WRITERS + 32)
        return;
    bool writes = threadIdx.x < WRITERS;
    uint32_t sum = 0, n = 0;
    if (writes)
        for (; n < STEPS; n++) {
            if (FORM != 8)
                hand_over_meet<1>(true);
            table[threadIdx.x] = from[n * WRITERS + threadIdx.x];
            hand_over_meet<2>(FORM != 7);
        }
    for (; n < STEPS; n++) {
        if (FORM != 8)
            hand_over_meet<1>(FORM != 7);
        hand_over_meet<2>(true);
        sum += table[threadIdx.x - WRITERS] + table[threadIdx.x - WRITERS + 32];
    }
    if (!writes)
        sums[threadIdx.x - WRITERS] = sum;
}

int main(int argc, char **argv) {
    static uint32_t host[TILES * WORDS], got[READERS]; /* 6 to 8: half of them stay 0 */
    uint32_t *from = NULL, *sums = NULL, want = 0, sum = 0, form = argc > 1 ? atoi(argv[1]) : 1;
    for (uint32_t i = 0; i < TILES * WORDS; i++)
        want += (host[i] = i * 2654435761u) * (form < 6 || i < STEPS * WRITERS);
    const uint32_t shared = RING_BARRIERS_BYTES + STAGES * TILE_BYTES;
    if (cudaMalloc(&from, sizeof host) != cudaSuccess ||
        cudaMalloc(&sums, sizeof got) != cudaSuccess ||
        cudaMemset(sums, 0, sizeof got) != cudaSuccess ||
        cudaMemcpy(from, host, sizeof host, cudaMemcpyHostToDevice) != cudaSuccess) {
        fprintf(stderr, "no GPU answers\n");
        return 77;
    }
    if (form == 0)
        ring_form<0><<<1, 96, shared>>>(from, sums);
    else if (form == 1)
        ring_form<1><<<1, 96, shared>>>(from, sums);
    else if (form == 2)
        ring_library<<<1, 96>>>(from, sums);
    else if (form == 3)
        ring_form<3><<<1, 96, shared>>>(from, sums);
    else if (form == 4)
        ring_form<4><<<1, 96, shared>>>(from, sums);
    else if (form == 5)
        ring_form<5><<<1, 96, shared>>>(from, sums);
    else if (form == 6)
        hand_over<6><<<1, 128>>>(from, sums);
    else if (form == 7)
        hand_over<7><<<1, 128>>>(from, sums);
    else
        hand_over<8><<<1, 128>>>(from, sums);
    if (cudaMemcpy(got, sums, sizeof got, cudaMemcpyDeviceToHost) != cudaSuccess) {
        fprintf(stderr, "form %u: %s\n", form, cudaGetErrorString(cudaGetLastError()));
        return 1;
    }
    for (uint32_t i = 0; i < READERS; i++)
        sum += got[i];
    printf("form %u: sums are %s\n", form, sum == want ? "right" : "wrong");
    return sum != want && form != 3 && form != 8;
}
