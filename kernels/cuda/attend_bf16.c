/* SPDX-License-Identifier: Apache-2.0
 * How attention's rows are cut into spans and items, and the shapes of its launches.
 */
#include "kernels/cuda/attend_bf16.h"

enum {
    NARROW_THREADS = 128,
    NARROW_BLOCKS_AN_SM = 2,
    NARROW_SUMS_BYTES = (16 * 68 + 4 * 16) * 4,
    WIDE_THREADS = 256,
    STAGES = 3, /* one more in wide on Hopper */
    BARRIERS_BYTES = 1024,
    SPLIT_BELOW_BLOCKS_AN_SM = 4 /* more (span, head) pairs than that fill the machine unsplit */
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

/* On Hopper wide reads whole panels by wgmma; other heads go narrow there. */
static int hopper(const struct krn_cuda_machine *m) {
    return m->major == 9 && m->minor == 0;
}

static int wide_possible(const struct krn_cuda_attend_bf16 *a, const struct krn_cuda_machine *m) {
    return a->head_dim <= KRN_ATTEND_HEAD_WIDE && (!hopper(m) || a->head_dim % KRN_BF16_SIDE == 0);
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
            if ((wide_possible(a, m) && seqs[i].rows >= wide_from) != wide)
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
    int few = table->n_narrow * a_segment < m->sms * SPLIT_BELOW_BLOCKS_AN_SM;
    for (struct krn_cuda_attend_span *s = spans + table->n_wide; s < spans + n; s++) {
        uint32_t items = segments_of(a, s) * a_segment;
        /* An item's place in the workspace is its number. */
        s->split = few && items > a_segment && table->n_items + items <= a->items_max;
        s->first_item = table->n_items;
        table->n_items += s->split ? items : a_segment;
    }
}

/* On Hopper a warp more brings the tiles, through a ring with barriers. */
int krn_cuda_attend_bf16_calls(const struct krn_cuda_attend_bf16 *a,
                               const struct krn_cuda_machine *m, struct krn_cuda_call calls[2]) {
    static const char *const narrow[2][3] = {
        {"krn_attend_bf16_narrow_64", "krn_attend_bf16_narrow_128", "krn_attend_bf16_narrow_256"},
        {"krn_attend_bf16_narrow90_64", "krn_attend_bf16_narrow90_128",
         "krn_attend_bf16_narrow90_256"}};
    static const char *const wide[2][2] = {
        {"krn_attend_bf16_wide_64", "krn_attend_bf16_wide_128"},
        {"krn_attend_bf16_wide90_64", "krn_attend_bf16_wide90_128"}};
    uint32_t panels = krn_bf16_panels(a->head_dim), which = panels <= 2 ? panels - 1 : 2;
    uint32_t tile = krn_bf16_kv_bytes(a->head_dim), on = (uint32_t)hopper(m);
    calls[0] =
        (struct krn_cuda_call){.kernel = narrow[on][which],
                               .grid = {m->sms * NARROW_BLOCKS_AN_SM, 1, 1},
                               .block = {NARROW_THREADS + 32 * on, 1, 1},
                               .shared = STAGES * tile + NARROW_SUMS_BYTES + on * BARRIERS_BYTES,
                               .args = a,
                               .args_bytes = sizeof *a};
    if (!wide_possible(a, m))
        return 1;
    calls[1] = (struct krn_cuda_call){
        .kernel = wide[on][which],
        .grid = {m->sms, 1, 1},
        .block = {WIDE_THREADS + 128 * on, 1, 1},
        .shared = (STAGES + on) * tile + WIDE_THREADS * panels * 32 * 4 + on * BARRIERS_BYTES,
        .args = a,
        .args_bytes = sizeof *a};
    return 2;
}
