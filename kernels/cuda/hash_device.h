/* SPDX-License-Identifier: Apache-2.0
 * XXH3-64 of a row of more than 240 bytes by one block of threads. Within a kilobyte all sixteen
 * stripes only add to the eight sums, so they are added in any order; the scrambling between
 * kilobytes is a short chain of eight threads. For .cu files.
 */
#ifndef KERNELS_CUDA_HASH_DEVICE_H
#define KERNELS_CUDA_HASH_DEVICE_H

#include "kernels/cuda/device.h"
#include "kernels/draw.h"

enum {
    HASH_SECRET = 192,
    HASH_WORDS = 256,    /* 32-bit words of a kilobyte */
    HASH_STRIPE = 16,    /* words of a stripe */
    HASH_SCRAMBLE = 128, /* where in the secret the scrambling reads */
    HASH_LAST = 121,     /* the last stripe */
    HASH_MERGE = 11      /* the end */
};

#define HASH_P32_1 0x9E3779B1u
#define HASH_P32_2 0x85EBCA77u
#define HASH_P32_3 0xC2B2AE3Du
#define HASH_P64_1 0x9E3779B185EBCA87u
#define HASH_P64_2 0xC2B2AE3D27D4EB4Fu
#define HASH_P64_3 0x165667B19E3779F9u
#define HASH_P64_4 0x85EBCA77C2B2AE63u
#define HASH_P64_5 0x27D4EB2F165667C5u

struct hash_shared {
    unsigned char secret[HASH_SECRET];
    unsigned long long add[8], acc[8];
};

CUDA_FN uint64_t krn_hash_secret(const unsigned char *secret, uint32_t at) {
    uint64_t u = 0;
    for (uint32_t i = 0; i < 8; i++)
        u |= (uint64_t)secret[at + i] << (8 * i);
    return u;
}

/* Eight bytes of the row as one number. */
CUDA_FN uint64_t krn_hash_word(const float *row, size_t word) {
    return krn_bits(row[word]) | (uint64_t)krn_bits(row[word + 1]) << 32;
}

/* What lane `lane` of the stripe that begins at `word` adds to its sum. */
CUDA_FN uint64_t krn_hash_lane(const float *row, size_t word, const unsigned char *secret,
                               uint32_t at, uint32_t lane) {
    uint64_t key = krn_hash_word(row, word + 2 * lane) ^ krn_hash_secret(secret, at + 8 * lane);
    uint64_t neighbour = krn_hash_word(row, word + 2 * (lane ^ 1));
    return neighbour + (key & 0xffffffffu) * (key >> 32);
}

CUDA_FN uint64_t krn_hash_fold(uint64_t a, uint64_t b) {
    return (a * b) ^ krn_mul_high(a, b);
}

/* Adds stripes [0, stripes) from `word` on to the sums; all threads of the block. */
CUDA_FN void krn_hash_stripes(struct hash_shared *t, const float *row, size_t word,
                              uint32_t stripes) {
    for (uint32_t i = threadIdx.x; i < 8 * stripes; i += blockDim.x) {
        uint32_t stripe = i / 8, lane = i % 8;
        uint64_t add = krn_hash_lane(row, word + stripe * HASH_STRIPE, t->secret, 8 * stripe, lane);
        atomicAdd(&t->add[lane], (unsigned long long)add);
    }
}

/* The hash of row[0..n); the result is thread 0's. */
CUDA_FN uint64_t krn_hash_row(struct hash_shared *t, const float *row, uint32_t n,
                              const unsigned char *secret) {
    uint32_t lane = threadIdx.x;
    uint32_t blocks = (n * 4 - 1) / 1024, rest = (n * 4 - 1) % 1024 / 64;
    for (uint32_t i = threadIdx.x; i < HASH_SECRET; i += blockDim.x)
        t->secret[i] = secret[i];
    if (lane < 8) {
        const uint64_t start[8] = {HASH_P32_3, HASH_P64_1, HASH_P64_2, HASH_P64_3,
                                   HASH_P64_4, HASH_P32_2, HASH_P64_5, HASH_P32_1};
        t->acc[lane] = start[lane];
        t->add[lane] = 0;
    }
    __syncthreads();
    for (uint32_t b = 0; b < blocks; b++) {
        krn_hash_stripes(t, row, (size_t)b * HASH_WORDS, 16);
        __syncthreads();
        if (lane < 8) {
            uint64_t acc = t->acc[lane] + t->add[lane];
            acc = acc ^ acc >> 47 ^ krn_hash_secret(t->secret, HASH_SCRAMBLE + 8 * lane);
            t->acc[lane] = acc * HASH_P32_1;
            t->add[lane] = 0;
        }
        __syncthreads();
    }
    krn_hash_stripes(t, row, (size_t)blocks * HASH_WORDS, rest);
    __syncthreads();
    if (lane < 8)
        t->acc[lane] +=
            t->add[lane] + krn_hash_lane(row, n - HASH_STRIPE, t->secret, HASH_LAST, lane);
    __syncthreads();
    uint64_t h = (uint64_t)n * 4 * HASH_P64_1;
    for (uint32_t i = 0; i < 4; i++)
        h += krn_hash_fold(t->acc[2 * i] ^ krn_hash_secret(t->secret, HASH_MERGE + 16 * i),
                           t->acc[2 * i + 1] ^ krn_hash_secret(t->secret, HASH_MERGE + 16 * i + 8));
    h ^= h >> 37;
    h *= 0x165667919E3779F9u;
    return h ^ h >> 32;
}

#endif
