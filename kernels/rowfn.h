/* SPDX-License-Identifier: Apache-2.0
 * The row functions of kernels/numerics.md, one table an instruction set; every table gives the
 * same bits.
 *
 * A call computes some rows and some outputs of one op; how the caller cuts rows, outputs, blocks
 * or units over threads or calls can not move a bit, because each output element has its own fixed
 * order of operations. Nothing here allocates, blocks or keeps state; scratch is the caller's, one
 * a thread.
 */
#ifndef KERNELS_ROWFN_H
#define KERNELS_ROWFN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/model.h"
#include "kernels/profile.h"

enum {
    KRN_BLOCK = 16,             /* outputs side by side in a packed weight */
    KRN_LANES = 16,             /* virtual lanes of a row sum */
    KRN_TILE = 64,              /* keys in a tile of a KV page */
    KRN_V_MAX = 8,              /* virtual ranks */
    KRN_SPAN_ROWS = 32,         /* rows of one attention span at most */
    KRN_HEAD_MAX = 256,         /* head_dim at most, a multiple of 16 */
    KRN_SCRATCH_BYTES = 1 << 20 /* per thread, 64-byte aligned; holds a widened weight panel */
};

/* A weight in the order in which the kernels read it (the repack hook): for each block of 16
 * outputs all k inputs, 16 outputs side by side: data[block][k][16]. The tail block is padded with
 * zeros. Shards keep whole blocks. A blocked format is packed in cells of 32 inputs
 * (kernels/quant/cell.h) and widened where it is read; where k is no multiple of 32, as its exact
 * f32 values. */
struct krn_packed {
    enum krn_dtype dtype;
    uint32_t n, k, n_blocks;
    const void *data; /* 64-byte aligned */
    uint64_t bytes;
};

/* Bytes of the packed form of outputs n by inputs k. */
uint64_t krn_packed_bytes(enum krn_dtype dtype, uint32_t n, uint32_t k);
/* Packs rows [row0, row0 + n) and columns [col0, col0 + k) of the matrix w into out
 * (krn_packed_bytes, 64-byte aligned). Cells begin and end with those of the matrix. */
void krn_pack(const struct krn_tensor *w, uint32_t row0, uint32_t n, uint32_t col0, uint32_t k,
              void *out, struct krn_packed *p);

/* y[r][n] (+)= tree over segments s of (chain over k in segment s of fma(x[r][k], w[n][k])) +
 * bias[n]; numerics.md 3. k is cut in `segments` equal parts (a power of two; 1 for column-split
 * products). bias and add apply once, at the end, and must be left out where several ranks' sums
 * are still to be added. */
struct krn_product {
    const float *x;
    size_t ldx; /* floats from row to row */
    /* the rows as krn_matmul.round left them, and bytes from row to row; unused where the profile
     * does not round rows for such a weight */
    const void *q;
    size_t ldq;
    uint32_t rows;
    const struct krn_packed *w;
    uint32_t segments;
    const float *bias; /* NULL: none */
    bool add;
    float *y;
    size_t ldy; /* columns up to n only are written */
};

/* Where the keys and values of one layer lie in a page: page p begins at pool + p * page_bytes;
 * tile t of KV head h at + layer_off + (h * tiles + t) * 2 * head_dim * 64 floats: K transposed
 * [head_dim][64], then V [64][head_dim]. Of bf16 keys and values: kernels/cpu/bf16.h. */
struct krn_kv {
    unsigned char *pool;
    uint64_t page_bytes, layer_off;
    uint32_t page_tokens; /* a multiple of 64 */
    uint32_t kv_heads;    /* of this rank */
    uint32_t head_dim;
};

/* Rows of one sequence at consecutive positions first_pos ... first_pos + rows - 1, sharing one
 * page table. */
struct krn_span {
    uint32_t first_row, rows; /* rows <= KRN_SPAN_ROWS */
    uint32_t first_pos;
    const uint32_t *pages; /* page ids from position 0 on */
};

struct krn_attend {
    const float *q;
    size_t ldq;
    float *out;
    size_t ldo;
    const struct krn_span *spans;
    uint32_t n_spans;
    struct krn_kv kv;
    uint32_t heads; /* query heads of this rank, a multiple of kv.kv_heads */
    float scale;
    uint32_t window;  /* keys visible to a row, itself included; 0: all */
    uint32_t segment; /* keys in an absolute segment */
};

struct krn_sampling {
    float temperature; /* 0: greedy */
    uint32_t top_k;    /* 0: off */
    float top_p;       /* 1: off */
    float min_p;       /* 0: off */
    /* 1: off; over prompt and reply ids (CTRL: divide positive, multiply negative logits) */
    float repetition;
    float presence;  /* 0: off; over reply ids */
    float frequency; /* 0: off; over reply ids */
    uint32_t n_top;  /* logprobs of this many best tokens, at most KRN_TOP_MAX */
    uint64_t seed;
    uint32_t flags; /* KRN_DRAW_* */
    uint32_t reserved;
};
enum { KRN_TOP_MAX = 20 };
enum {
    KRN_DRAW_LOGPROB = 1, /* fill logprob and the n_top best */
    /* fill logits_hash (XXH3-64 of the fp32 row as little-endian bytes, before penalties) */
    KRN_DRAW_HASH_LOGITS = 2,
    KRN_DRAW_KEEP_LOGITS = 4 /* the device copies the fp32 row into its result */
};

struct krn_count {
    uint32_t id, in_prompt, in_reply; /* occurrences so far */
};
struct krn_bias {
    uint32_t id;
    float bias;
};
struct krn_top {
    uint32_t id;
    float logprob;
};
struct krn_drawn {
    uint32_t token;
    uint32_t finite; /* 0: the row is not finite and token means nothing */
    float logprob;   /* of the raw distribution (temperature 1, no penalties) */
    uint32_t n_top;
    uint64_t logits_hash;
    uint64_t reserved;
};

/* The draw at absolute position pos (numerics.md 9). logits: vocab floats, overwritten. counts: ids
 * with their counts, each id once. mask: vocab bits, 1 = allowed, or NULL. scratch: at least
 * krn_draw_scratch(vocab) bytes, 64-byte aligned. */
struct krn_draw {
    float *logits;
    uint32_t vocab;
    uint64_t pos;
    const struct krn_sampling *sampling;
    const struct krn_count *counts;
    uint32_t n_counts;
    const struct krn_bias *bias;
    uint32_t n_bias;
    const uint32_t *mask;
    void *scratch;
    struct krn_top *top; /* n_top entries, or NULL */
};

struct krn_rowfn {
    const char *isa; /* "scalar", "avx2", "avx512", "neon" */
    /* y[i] = embedding row `token`; w is packed (tied with the logits product) or a plain matrix,
     * numerics.md 1. */
    void (*embed)(const struct krn_packed *w, uint32_t token, float *y);
    /* y = x * (1 / sqrt(mean(x^2) + eps)) * w; y may be x. numerics.md 2. */
    void (*norm)(const float *x, const float *w, float *y, uint32_t n, float eps);
    /* Blocks [block0, block1) of 16 outputs, all rows; scratch: KRN_SCRATCH_BYTES. numerics.md
     * 3. */
    void (*product)(const struct krn_product *p, uint32_t block0, uint32_t block1, void *scratch);
    /* Rotates one head (head_dim floats, halves) by table row cs: head_dim/2 cos then head_dim/2
     * sin. numerics.md 4. */
    void (*rope)(float *x, const float *cs, uint32_t head_dim);
    /* Writes the K and V row of KV head h at position pos (page id and slot follow from pages).
     * numerics.md 5. */
    void (*kv_write)(const struct krn_kv *kv, const uint32_t *pages, uint32_t pos, uint32_t head,
                     const float *k, const float *v);
    /* Units [unit0, unit1) of n_spans * kv_heads; unit = span * kv_heads + head. numerics.md 6. */
    void (*attend)(const struct krn_attend *a, uint32_t unit0, uint32_t unit1, void *scratch);
    /* g = silu(g) * u, n floats. numerics.md 7. */
    void (*gate)(float *g, const float *u, uint32_t n);
    /* g = gelu(g) * u by gelu's tanh form. numerics.md 7. */
    void (*gate_gelu)(float *g, const float *u, uint32_t n);
    /* x = x * s. numerics.md 1. */
    void (*scale)(float *x, float s, uint32_t n);
    /* y[i] = a[i] + b[i]: one node of the ranks' tree. y may be a or b. numerics.md 3. */
    void (*add)(const float *a, const float *b, float *y, uint32_t n);
    /* y[i] = fma(w, x[i], y[i]): one expert's part of a sum. numerics.md 13. */
    void (*mix)(float *y, const float *x, float w, uint32_t n);
    /* true when all n values are finite. numerics.md 8. */
    bool (*finite)(const float *x, uint32_t n);
    void (*draw)(const struct krn_draw *d, struct krn_drawn *out);
};

/* The best table of this machine, or the named one ("scalar", "avx2", ...); NULL when the machine
 * cannot run it. ROUNDHOUSE_ISA overrides the default choice. */
const struct krn_rowfn *krn_rowfn_pick(const char *isa);

uint64_t krn_draw_scratch(uint32_t vocab);

/* RoPE table rows for positions [0, context): out[pos][head_dim]: cos then sin. Our own fp64 code.
 * numerics.md 4. */
void krn_rope_table(const struct krn_rope *rope, uint32_t head_dim, uint32_t context, float *out);

/* The `used` experts of a row out of n (KRN_EXPERTS_MAX at most) by its router logits, in ascending
 * order, and their weights; norm: these sum to 1. numerics.md 13. */
void krn_route(const float *logits, uint32_t n, uint32_t used, bool norm, uint32_t *chosen,
               float *weights);

/* 1 / sqrt(head_dim), numerics.md 6. */
float krn_attend_scale(uint32_t head_dim);

/* FTZ and DAZ off, round to nearest; asserted on every thread that runs row functions. */
void krn_fpenv_check(void);

/* Runs every row function of the table on fixed inputs and compares with the golden digests
 * (tests/golden/rowfn.txt holds the same values). UNSUPPORTED names the function that differs. */
enum status krn_selftest(const struct krn_rowfn *fn, struct status_note *note);

#endif
