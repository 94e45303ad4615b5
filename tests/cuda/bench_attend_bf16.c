/* SPDX-License-Identifier: Apache-2.0
 * Attention of cuda-bf16 at the shape of an 8B model, layer after layer of real pages: decode of
 * many lanes, long contexts, prompt pieces. Prints microseconds a layer, bytes of keys and values a
 * second, operations a second.
 */
#include <stdio.h>
#include <stdlib.h>

#include "tests/cuda/attend_rig.h"

enum { LAYERS = 16, HEADS = 32, KV_HEADS = 8, D = 128, PAGE = 64, SEGMENT = 512, PAGES = 4200 };

struct bench {
    struct kit kit;
    struct attend_rig rig;
};

static void run(void *self, struct kit *k, uint32_t i) {
    struct bench *b = self;
    (void)k;
    b->rig.a.layer_off = (uint64_t)(i % LAYERS) * KV_HEADS * krn_bf16_kv_bytes(D);
    attend_rig_run(&b->rig);
}

static void fill(struct bench *b, krn_cuda_ptr_t to, uint64_t bytes, bool floats) {
    enum { BLOCK = 1 << 21 };
    static uint16_t block[BLOCK];
    uint64_t seed = 5;
    for (size_t i = 0; i < BLOCK; i++) {
        block[i] = kit_bf16(kit_float(&seed, 1));
        if (floats && i % 2 == 0)
            block[i] = 0;
    }
    kit_put(&b->kit, to, block, sizeof block < bytes ? sizeof block : bytes);
    for (uint64_t done = sizeof block; done < bytes; done *= 2)
        kit_copy(&b->kit, to + done, to, done < bytes - done ? done : bytes - done);
    kit_wait(&b->kit);
}

static uint32_t seqs_of(struct krn_cuda_attend_seq *seqs, uint32_t lanes, uint32_t rows,
                        uint32_t pos) {
    uint32_t a_lane = (pos + rows + PAGE - 1) / PAGE;
    for (uint32_t i = 0; i < lanes; i++)
        seqs[i] = (struct krn_cuda_attend_seq){
            .first_row = i * rows, .rows = rows, .first_pos = pos, .first_page = i * a_lane};
    return a_lane;
}

/* lanes of `rows` rows behind pos earlier keys each. */
static void measure(struct bench *b, uint32_t lanes, uint32_t rows, uint32_t pos) {
    struct krn_cuda_attend_seq seqs[RIG_SEQS_MAX];
    uint32_t a_lane = seqs_of(seqs, lanes, rows, pos);
    if (lanes * a_lane > PAGES)
        return;
    attend_rig_seqs(&b->rig, seqs, lanes);
    double us = kit_time(&b->kit, run, b, rows * pos > 1 << 22 ? 4 : 32, 5);
    double keys = (double)lanes * (pos + rows), bytes = keys * KV_HEADS * D * 4;
    double pairs = (double)lanes * rows * (pos + (rows + 1) / 2.0), flops = pairs * HEADS * D * 4;
    printf("%4u lanes x %4u rows behind %5u keys: %9.2f us  %5.2f TB/s of KV  %6.1f TFLOP/s  "
           "(%u wide, %u narrow spans, %u items)\n",
           lanes, rows, pos, us, bytes / us / 1e6, flops / us / 1e6, b->rig.host_table->n_wide,
           b->rig.host_table->n_narrow, b->rig.host_table->n_items);
    fflush(stdout);
}

int main(int argc, char **argv) {
    static const struct {
        uint32_t lanes, rows, pos;
    } cases[] = {{1, 1, 1023},   {8, 1, 1023},    {32, 1, 1023}, {64, 1, 1023},   {128, 1, 1023},
                 {1, 1, 8191},   {1, 1, 32767},   {8, 1, 32000}, {1, 5, 1023},    {1, 17, 1023},
                 {1, 512, 0},    {1, 512, 7680},  {1, 2048, 0},  {1, 2048, 6144}, {1, 8192, 0},
                 {4, 512, 1024}, {1, 2048, 30720}};
    static struct bench b;
    kit_open(&b.kit);
    struct krn_cuda_attend_bf16 a = {.page_bytes =
                                         (uint64_t)LAYERS * KV_HEADS * krn_bf16_kv_bytes(D),
                                     .page_tokens = PAGE,
                                     .heads = HEADS,
                                     .kv_heads = KV_HEADS,
                                     .head_dim = D,
                                     .ldq = HEADS * D,
                                     .ldo = HEADS * D,
                                     .segment = SEGMENT,
                                     .items_max = 8192,
                                     .scale = 0.088388348f};
    uint64_t pool = (uint64_t)PAGES * a.page_bytes, rows = (uint64_t)8192 * HEADS * D * 4;
    a.pool = kit_alloc(&b.kit, pool);
    a.q = kit_alloc(&b.kit, rows);
    a.out = kit_alloc(&b.kit, rows);
    fill(&b, a.pool, pool, false);
    fill(&b, a.q, rows, true);
    attend_rig_open(&b.rig, &b.kit, &a, 8192, PAGES);
    uint32_t *pages = malloc(PAGES * sizeof *pages);
    for (uint32_t i = 0; i < PAGES; i++)
        pages[i] = i;
    kit_put(&b.kit, b.rig.a.pages, pages, PAGES * sizeof *pages);
    if (argc > 3) { /* LANES ROWS POS: a few launches, for a profiler */
        struct krn_cuda_attend_seq seqs[RIG_SEQS_MAX];
        uint32_t lanes = (uint32_t)atoi(argv[1]), rows_a_lane = (uint32_t)atoi(argv[2]);
        lanes = lanes < RIG_SEQS_MAX ? lanes : RIG_SEQS_MAX;
        seqs_of(seqs, lanes, rows_a_lane, (uint32_t)atoi(argv[3]));
        attend_rig_seqs(&b.rig, seqs, lanes);
        for (uint32_t i = 0; i < 8; i++)
            run(&b, &b.kit, i);
        kit_wait(&b.kit);
        return 0;
    }
    printf("%s: %d heads of %d, %d KV, a layer:\n", b.kit.name, HEADS, D, KV_HEADS);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        measure(&b, cases[i].lanes, cases[i].rows, cases[i].pos);
    return 0;
}
