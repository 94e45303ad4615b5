/* SPDX-License-Identifier: Apache-2.0
 * How attention's rows are cut into spans and items, and the shapes of its launches.
 */
#include "kernels/cuda/attend_bf16.h"

enum {
    NARROW_WARPS = 4,
    NARROW_BLOCKS_AN_SM = 2,
    NARROW90_WARPS = 8, /* and a warpgroup that loads; a block fills a multiprocessor */
    WIDE_THREADS = 256,
    STAGES = 3, /* one more in wide on Hopper */
    BARRIERS_BYTES = 1024,
    /* More (span, head) pairs than so many an SM fill the machine unsplit. */
    SPLIT_BELOW = 4,
    SPLIT_BELOW_90 = 1
};

/* Heads of one KV head that share a block, and how many such chunks there are. */
static uint32_t heads_a_block(const struct krn_cuda_attend_bf16 *a, uint32_t lines) {
    uint32_t group = a->heads / a->kv_heads;
    return group < lines ? group : lines;
}

static uint32_t chunks(const struct krn_cuda_attend_bf16 *a, uint32_t lines) {
    uint32_t each = heads_a_block(a, lines);
    return (a->heads / a->kv_heads + each - 1) / each;
}

static int hopper(const struct krn_cuda_machine *m) {
    return m->major == 9 && m->minor == 0;
}

static int wide_possible(const struct krn_cuda_attend_bf16 *a) {
    return a->head_dim <= KRN_ATTEND_HEAD_WIDE;
}

uint64_t krn_cuda_attend_work(uint32_t head_dim, uint32_t items_max) {
    /* A counter, then for each item max and sum of its lines, and their values. */
    return (uint64_t)items_max * (4 + KRN_ATTEND_LINES * (2 + (uint64_t)head_dim) * 4);
}

uint32_t krn_cuda_attend_spans_max(const struct krn_cuda_attend_bf16 *a, uint32_t seqs,
                                   uint32_t rows) {
    (void)seqs;
    (void)a;
    return rows; /* a span has a row at least */
}

static uint32_t segments_of(const struct krn_cuda_attend_bf16 *a,
                            const struct krn_cuda_attend_span *s) {
    uint32_t hi = s->first_pos + s->rows;
    uint32_t lo = a->window != 0 && s->first_pos + 1 > a->window ? s->first_pos + 1 - a->window : 0;
    return (hi - 1) / a->segment - lo / a->segment + 1;
}

/* A few narrow spans, cut by segments too, end before one wide one does. */
uint32_t krn_cuda_attend_wide_from(const struct krn_cuda_attend_bf16 *a) {
    return 8 * (KRN_ATTEND_LINES / heads_a_block(a, KRN_ATTEND_LINES)) + 1;
}

void krn_cuda_attend_cut(const struct krn_cuda_attend_bf16 *a, const struct krn_cuda_machine *m,
                         const struct krn_cuda_attend_seq *seqs, uint32_t n_seqs,
                         struct krn_cuda_attend_table *table) {
    struct krn_cuda_attend_span *spans = (struct krn_cuda_attend_span *)(table + 1);
    uint32_t narrow_rows = KRN_ATTEND_LINES / heads_a_block(a, KRN_ATTEND_LINES);
    uint32_t wide_rows = KRN_ATTEND_LINES_WIDE / heads_a_block(a, KRN_ATTEND_LINES_WIDE);
    uint32_t a_segment = a->kv_heads * chunks(a, KRN_ATTEND_LINES), n = 0;
    uint32_t wide_from = krn_cuda_attend_wide_from(a);
    *table = (struct krn_cuda_attend_table){0};
    for (int wide = 1; wide >= 0; wide--)
        for (uint32_t i = 0; i < n_seqs; i++) {
            uint32_t each = wide ? wide_rows : narrow_rows;
            if ((wide_possible(a) && seqs[i].rows >= wide_from) != wide)
                continue;
            for (uint32_t r = 0; r < seqs[i].rows; r += each)
                spans[n++] = (struct krn_cuda_attend_span){
                    .first_row = seqs[i].first_row + r,
                    .rows = seqs[i].rows - r < each ? seqs[i].rows - r : each,
                    .first_pos = seqs[i].first_pos + r,
                    .first_page = seqs[i].first_page};
            if (wide)
                table->n_wide = n;
        }
    table->n_narrow = n - table->n_wide;
    int few = table->n_narrow * a_segment < m->sms * (hopper(m) ? SPLIT_BELOW_90 : SPLIT_BELOW);
    for (struct krn_cuda_attend_span *s = spans + table->n_wide; s < spans + n; s++) {
        uint32_t items = segments_of(a, s) * a_segment;
        /* An item's place in the workspace is its number. */
        s->split = few && items > a_segment && table->n_items + items <= a->items_max;
        s->first_item = table->n_items;
        table->n_items += s->split ? items : a_segment;
    }
}

static struct krn_cuda_call narrow_call(const struct krn_cuda_attend_bf16 *a,
                                        const struct krn_cuda_machine *m) {
    static const char *const names[2][3] = {
        {"krn_attend_bf16_narrow_64", "krn_attend_bf16_narrow_128", "krn_attend_bf16_narrow_256"},
        {"krn_attend_bf16_narrow90_64", "krn_attend_bf16_narrow90_128",
         "krn_attend_bf16_narrow90_256"}};
    uint32_t panels = krn_bf16_panels(a->head_dim), which = panels <= 2 ? panels - 1 : 2;
    uint32_t tile = krn_bf16_kv_bytes(a->head_dim);
    if (hopper(m))
        return (struct krn_cuda_call){.kernel = names[1][which],
                                      .grid = {m->sms, 1, 1},
                                      .block = {32 * NARROW90_WARPS + 128, 1, 1},
                                      .shared = BARRIERS_BYTES +
                                                KRN_ATTEND_RING_BYTES / tile * tile +
                                                KRN_ATTEND_EXCHANGE90(which < 2 ? 4 : 2),
                                      .args = a,
                                      .args_bytes = sizeof *a};
    return (struct krn_cuda_call){.kernel = names[0][which],
                                  .grid = {m->sms * NARROW_BLOCKS_AN_SM, 1, 1},
                                  .block = {32 * NARROW_WARPS, 1, 1},
                                  .shared = STAGES * tile + KRN_ATTEND_EXCHANGE,
                                  .args = a,
                                  .args_bytes = sizeof *a};
}

/* On Hopper whole panels go through wgmma, with a warpgroup more that brings the tiles; other heads
 * take the kernel of any device. */
static struct krn_cuda_call wide_call(const struct krn_cuda_attend_bf16 *a,
                                      const struct krn_cuda_machine *m) {
    static const char *const names[2][2] = {
        {"krn_attend_bf16_wide_64", "krn_attend_bf16_wide_128"},
        {"krn_attend_bf16_wide90_64", "krn_attend_bf16_wide90_128"}};
    uint32_t panels = krn_bf16_panels(a->head_dim), tile = krn_bf16_kv_bytes(a->head_dim);
    uint32_t on = hopper(m) && a->head_dim % KRN_BF16_SIDE == 0;
    return (struct krn_cuda_call){.kernel = names[on][panels - 1],
                                  .grid = {m->sms, 1, 1},
                                  .block = {WIDE_THREADS + 128 * on, 1, 1},
                                  .shared = (STAGES + on) * tile + WIDE_THREADS * panels * 32 * 4 +
                                            on * BARRIERS_BYTES,
                                  .args = a,
                                  .args_bytes = sizeof *a};
}

int krn_cuda_attend_bf16_calls(const struct krn_cuda_attend_bf16 *a,
                               const struct krn_cuda_machine *m, struct krn_cuda_call calls[2]) {
    calls[0] = narrow_call(a, m);
    if (!wide_possible(a))
        return 1;
    calls[1] = wide_call(a, m);
    return 2;
}
