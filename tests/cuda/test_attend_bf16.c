/* SPDX-License-Identifier: Apache-2.0
 * Attention of cuda-bf16 on a GPU against the oracle, bit for bit: decode, verify and prompt rows,
 * alone and beside others, split by segments and not, windows, odd heads, shuffled pages, NaN in
 * every slot not yet written, keys and values that are not finite.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/cuda/oracle_bf16.h"
#include "kernels/rowfn.h"
#include "tests/cuda/attend_rig.h"

enum { POISON = 0x7fdecade };

struct shape {
    uint32_t heads, kv_heads, head_dim, window, segment, page_tokens, keys;
    bool hostile;
};

struct rig {
    struct kit kit;
    struct shape s;
    struct attend_rig at;
    uint16_t *k, *v; /* host, [keys][kv_heads][head_dim] */
    unsigned char *pool;
    uint32_t *pages, n_pages;
    uint64_t page_bytes, row; /* row: floats of a row of q or out */
    krn_cuda_ptr_t q, truth, poison, dev_k, dev_v, dev_pool;
    uint64_t checked;
};

static int failures;
static bool quick; /* few keys and lengths, for compute-sanitizer */

static void rig_values(struct rig *r, uint64_t seed) {
    static const uint16_t hostile[] = {0x7fc0, 0x7f80, 0xff80, 0x7f7f, 0x0001};
    size_t n = (size_t)r->s.keys * r->s.kv_heads * r->s.head_dim, a_key = n / r->s.keys;
    float *q = malloc((size_t)r->s.keys * r->row * 4);
    for (size_t i = 0; i < n; i++) {
        r->k[i] = kit_bf16(kit_float(&seed, 2));
        r->v[i] = kit_bf16(kit_float(&seed, 3));
        if (r->s.hostile && i / a_key % 97 == 41 && kit_random(&seed) % 5 == 0) {
            r->v[i] = hostile[kit_random(&seed) % 5];
            if (i / a_key > r->s.keys / 2)
                r->k[i] = hostile[kit_random(&seed) % 5];
        }
    }
    for (size_t i = 0; i < r->s.keys * r->row; i++)
        q[i] = kit_float(&seed, i / r->row % 3 == 0 ? 4 : 1);
    kit_put(&r->kit, r->q, q, r->s.keys * r->row * 4);
    kit_put(&r->kit, r->dev_k, r->k, n * 2);
    kit_put(&r->kit, r->dev_v, r->v, n * 2);
    free(q);
}

/* Keys below `end` in pages; every other slot is NaN. */
static void rig_pages(struct rig *r, uint32_t end) {
    uint32_t d = r->s.head_dim, a_page = r->s.page_tokens / 64;
    memset(r->pool, 0xff, (r->n_pages + 1) * r->page_bytes);
    for (uint32_t j = 0; j < end; j++)
        for (uint32_t h = 0; h < r->s.kv_heads; h++) {
            unsigned char *tile = r->pool + r->pages[j / r->s.page_tokens] * r->page_bytes +
                                  (h * a_page + j % r->s.page_tokens / 64) * krn_bf16_kv_bytes(d);
            size_t from = ((size_t)j * r->s.kv_heads + h) * d;
            for (uint32_t i = 0; i < d; i++) {
                memcpy(tile + krn_bf16_kv_at(d, 0, j % 64, i), &r->k[from + i], 2);
                memcpy(tile + krn_bf16_kv_at(d, 1, j % 64, i), &r->v[from + i], 2);
            }
        }
    kit_put(&r->kit, r->dev_pool, r->pool, (r->n_pages + 1) * r->page_bytes);
}

static void rig_open(struct rig *r, struct shape s, uint64_t seed) {
    struct kit *k = &r->kit;
    size_t n = (size_t)s.keys * s.kv_heads * s.head_dim;
    r->s = s;
    r->row = (uint64_t)s.heads * s.head_dim;
    r->n_pages = (s.keys + s.page_tokens - 1) / s.page_tokens;
    r->page_bytes = (uint64_t)s.kv_heads * (s.page_tokens / 64) * krn_bf16_kv_bytes(s.head_dim);
    r->k = malloc(n * 2);
    r->v = malloc(n * 2);
    r->pool = malloc((r->n_pages + 1) * r->page_bytes);
    r->pages = malloc(r->n_pages * 4);
    for (uint32_t i = 0; i < r->n_pages; i++)
        r->pages[i] = 1 + i;
    for (uint32_t i = r->n_pages; i > 1; i--) {
        uint32_t j = kit_random(&seed) % i, t = r->pages[i - 1];
        r->pages[i - 1] = r->pages[j];
        r->pages[j] = t;
    }
    r->q = kit_alloc(k, s.keys * r->row * 4);
    r->truth = kit_alloc(k, s.keys * r->row * 4);
    r->poison = kit_alloc(k, s.keys * r->row * 4);
    r->dev_k = kit_alloc(k, n * 2);
    r->dev_v = kit_alloc(k, n * 2);
    r->dev_pool = kit_alloc(k, (r->n_pages + 1) * r->page_bytes);
    rig_values(r, seed);
    struct krn_cuda_attend_bf16 a = {.q = r->q,
                                     .out = kit_alloc(k, s.keys * r->row * 4),
                                     .pool = r->dev_pool,
                                     .page_bytes = r->page_bytes,
                                     .page_tokens = s.page_tokens,
                                     .heads = s.heads,
                                     .kv_heads = s.kv_heads,
                                     .head_dim = s.head_dim,
                                     .ldq = (uint32_t)r->row,
                                     .ldo = (uint32_t)r->row,
                                     .window = s.window,
                                     .segment = s.segment,
                                     .items_max = 2048,
                                     .scale = 1.0f / sqrtf((float)s.head_dim)};
    attend_rig_open(&r->at, k, &a, s.keys, r->n_pages);
    kit_put(k, r->at.a.pages, r->pages, r->n_pages * 4);
    kit_fill(k, r->poison, POISON, s.keys * r->row);
    struct krn_cuda_oracle_attend o = {.q = r->q,
                                       .k = r->dev_k,
                                       .v = r->dev_v,
                                       .out = r->truth,
                                       .rows = s.keys,
                                       .heads = s.heads,
                                       .kv_heads = s.kv_heads,
                                       .head_dim = s.head_dim,
                                       .window = s.window,
                                       .segment = s.segment,
                                       .scale = a.scale};
    struct krn_cuda_call call;
    krn_cuda_oracle_attend_call(&o, &call);
    kit_launch(k, &call);
    kit_wait(k);
}

static void rig_close(struct rig *r) {
    const krn_cuda_ptr_t all[] = {r->q,     r->truth,    r->poison,  r->dev_k,
                                  r->dev_v, r->dev_pool, r->at.a.out};
    attend_rig_close(&r->at);
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        kit_free(&r->kit, all[i]);
    free(r->k);
    free(r->v);
    free(r->pool);
    free(r->pages);
}

/* Row index is position: rows of the seqs are the oracle's, all others stay as they were. */
static void rig_check_on(struct rig *r, const struct krn_cuda_attend_seq *seqs, uint32_t n) {
    uint64_t row_bytes = r->row * 4;
    uint32_t at = 0;
    kit_fill(&r->kit, r->at.a.out, POISON, r->s.keys * r->row);
    attend_rig_seqs(&r->at, seqs, n);
    attend_rig_run(&r->at);
    for (uint32_t i = 0; i <= n; i++) {
        uint32_t from = i < n ? seqs[i].first_row : r->s.keys;
        kit_compare(&r->kit, r->at.a.out + at * row_bytes, r->poison, (from - at) * r->row);
        if (i < n)
            kit_compare(&r->kit, r->at.a.out + from * row_bytes, r->truth + from * row_bytes,
                        seqs[i].rows * r->row);
        at = i < n ? from + seqs[i].rows : at;
    }
    r->checked += r->s.keys * r->row;
}

/* With the kernels of this device, and with those that any device from sm_80 on runs. */
static void rig_check(struct rig *r, const struct krn_cuda_attend_seq *seqs, uint32_t n) {
    r->at.machine = r->kit.machine;
    rig_check_on(r, seqs, n);
    if (r->kit.machine.major == 8)
        return;
    r->at.machine.major = 8;
    rig_check_on(r, seqs, n);
}

static void report(struct rig *r, const char *what) {
    uint64_t first = 0, differ = kit_differing(&r->kit, &first);
    printf("%-10s %2u heads of %3u, %u KV, window %4u, segment %4u, page %3u%s: %llu of %llu "
           "differ",
           what, r->s.heads, r->s.head_dim, r->s.kv_heads, r->s.window, r->s.segment,
           r->s.page_tokens, r->s.hostile ? ", hostile" : "", (unsigned long long)differ,
           (unsigned long long)r->checked);
    if (differ != 0)
        printf(", first in its row %u of what was compared", (unsigned)(first / r->row));
    printf("\n");
    fflush(stdout);
    failures += differ != 0 || r->checked == 0;
    r->checked = 0;
}

static struct krn_cuda_attend_seq seq(uint32_t pos, uint32_t rows) {
    return (struct krn_cuda_attend_seq){.first_row = pos, .rows = rows, .first_pos = pos};
}

static void test_shape(struct rig *r, struct shape s, uint64_t seed) {
    static const uint32_t lengths[] = {1, 2, 5, 17, 33, 64, 100, 257};
    uint32_t items = 2048;
    rig_open(r, s, seed);
    for (uint32_t end = quick ? 70 : 1; end <= s.keys; /* nothing behind end */
         end += quick      ? 69
                : end < 70 ? 23
                           : 171) {
        rig_pages(r, end);
        for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++)
            if (lengths[i] <= end) {
                struct krn_cuda_attend_seq one = seq(end - lengths[i], lengths[i]);
                for (uint32_t split = 0; split < 2; split++) {
                    r->at.a.items_max = split ? items : 0;
                    rig_check(r, &one, 1);
                }
            }
        r->at.a.items_max = items;
    }
    report(r, "spans");
    rig_pages(r, s.keys);
    struct krn_cuda_attend_seq all = seq(0, s.keys);
    rig_check(r, &all, 1);
    report(r, "prompt");
    struct krn_cuda_attend_seq mix[RIG_SEQS_MAX];
    uint32_t n = 0;
    for (uint32_t pos = 3; pos < s.keys && n < RIG_SEQS_MAX;) {
        uint32_t rows = (uint32_t)(kit_random(&seed) % 4 == 0 ? kit_random(&seed) % 150 + 1 : 1);
        rows = rows < s.keys - pos ? rows : s.keys - pos;
        mix[n++] = seq(pos, rows);
        pos += rows + (uint32_t)(kit_random(&seed) % 9);
    }
    rig_check(r, mix, n);
    rig_check(r, mix, n); /* counters were left as they began */
    report(r, "mixed");
    n = 0;
    for (uint32_t pos = 0; pos < s.keys && n < RIG_SEQS_MAX; pos += 1 + s.keys / RIG_SEQS_MAX)
        mix[n++] = seq(pos, 1);
    rig_check(r, mix, n);
    report(r, "decode");
    for (uint32_t rows = 1; rows <= 512 && s.keys > 512; rows++) {
        struct krn_cuda_attend_seq last = seq(s.keys - rows, rows);
        rig_check(r, &last, 1);
        if (rows == 512)
            report(r, "1 to 512");
    }
    rig_close(r);
}

/* quick [SHAPE]: small, of all shapes or of that one. */
int main(int argc, char **argv) {
    quick = argc > 1 && strcmp(argv[1], "quick") == 0;
    static const struct shape shapes[] = {
        {8, 2, 64, 0, 512, 64, 1500, false},   {4, 1, 128, 0, 128, 64, 900, false},
        {32, 8, 128, 0, 512, 128, 1100, true}, {6, 2, 96, 100, 128, 128, 700, false},
        {4, 2, 80, 0, 256, 64, 600, true},     {2, 1, 256, 0, 256, 64, 700, true},
        {20, 1, 64, 0, 128, 256, 500, false},  {7, 1, 128, 64, 64, 64, 450, true},
        {3, 3, 16, 0, 64, 64, 300, false},     {4, 4, 128, 300, 512, 64, 1300, true},
        {140, 1, 32, 0, 512, 64, 200, false}};
    static struct rig r;
    kit_open(&r.kit);
    printf("%s, sm_%u%u\n", r.kit.name, r.kit.machine.major, r.kit.machine.minor);
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        struct shape s = shapes[i];
        if (argc > 2 && i != strtoul(argv[2], NULL, 10))
            continue;
        s.keys = quick ? 140 : s.keys;
        s.segment = quick ? 64 : s.segment;
        test_shape(&r, s, 900 + i);
    }
    printf(failures == 0 ? "all equal\n" : "%d failures\n", failures);
    return failures != 0;
}
