/* SPDX-License-Identifier: Apache-2.0
 * Plans as bytes: layout, chained digest, validation of foreign bytes.
 */
#include "gpu/plan.h"

#include <math.h>
#include <string.h>
#include <xxhash.h>

#include "actors/check.h"

_Static_assert(sizeof(struct gpu_plan) == 112, "the header crosses a wire");
_Static_assert(sizeof(struct gpu_copy) == 16, "copies cross a wire");
_Static_assert(sizeof(struct gpu_seq) == 48, "seqs cross a wire");
_Static_assert(sizeof(struct gpu_row) == 8, "rows cross a wire");
_Static_assert(sizeof(struct gpu_draw) == 80, "draws cross a wire");
_Static_assert(sizeof(struct krn_count) == 12, "counts cross a wire");
_Static_assert(sizeof(struct krn_bias) == 8, "biases cross a wire");

enum { PLAN_ARRAYS = 8, PLAN_ALIGN = 16 };
_Static_assert(offsetof(struct gpu_plan, off_copies) - offsetof(struct gpu_plan, n_copies) == 32 &&
                   sizeof(struct gpu_plan) - offsetof(struct gpu_plan, off_copies) == 32,
               "eight lengths, then eight offsets");

/* The element sizes in the order of the header's n_ and off_ fields. */
static const uint32_t plan_sizes[PLAN_ARRAYS] = {
    sizeof(struct gpu_copy), sizeof(struct gpu_seq), sizeof(struct gpu_row),
    sizeof(struct gpu_draw), sizeof(uint32_t),       sizeof(struct krn_count),
    sizeof(struct krn_bias), sizeof(uint32_t),
};

static uint64_t plan_up(uint64_t n, uint64_t to) {
    return (n + to - 1) / to * to;
}

/* The one layout of these array lengths. Lengths are 32 bits wide, so 64-bit sums cannot wrap. */
static uint64_t plan_layout(const uint32_t n[PLAN_ARRAYS], uint64_t off[PLAN_ARRAYS]) {
    uint64_t at = plan_up(sizeof(struct gpu_plan), PLAN_ALIGN);
    for (int i = 0; i < PLAN_ARRAYS; i++) {
        off[i] = at;
        at = plan_up(at + (uint64_t)n[i] * plan_sizes[i], PLAN_ALIGN);
    }
    return at;
}

uint32_t gpu_plan_bytes_max(const struct gpu_limits *l) {
    const uint32_t n[PLAN_ARRAYS] = {l->copies, l->seqs,   l->rows, l->draws,
                                     l->pages,  l->counts, l->bias, l->mask_words};
    uint64_t off[PLAN_ARRAYS];
    uint64_t bytes = plan_layout(n, off);
    CHECK(bytes <= UINT32_MAX);
    return (uint32_t)bytes;
}

void gpu_plan_begin(struct gpu_plan *p, uint32_t copies, uint32_t seqs, uint32_t rows,
                    uint32_t draws, uint32_t pages, uint32_t counts, uint32_t bias,
                    uint32_t mask_words) {
    const uint32_t n[PLAN_ARRAYS] = {copies, seqs, rows, draws, pages, counts, bias, mask_words};
    uint64_t off[PLAN_ARRAYS];
    uint64_t bytes = plan_layout(n, off);
    CHECK(bytes <= UINT32_MAX);
    /* The gaps between arrays are part of the digest. */
    memset(p, 0, bytes);
    p->magic = GPU_PLAN_MAGIC;
    p->version = GPU_PLAN_VERSION;
    p->bytes = (uint32_t)bytes;
    p->world = 1;
    uint32_t offset[PLAN_ARRAYS];
    for (int i = 0; i < PLAN_ARRAYS; i++)
        offset[i] = (uint32_t)off[i];
    memcpy((unsigned char *)p + offsetof(struct gpu_plan, n_copies), n, sizeof n);
    memcpy((unsigned char *)p + offsetof(struct gpu_plan, off_copies), offset, sizeof offset);
}

/* The chain: the fields before the digest, then everything after it. */
static uint64_t plan_digest(const struct gpu_plan *p, uint64_t before) {
    const unsigned char *bytes = (const unsigned char *)p;
    size_t head = offsetof(struct gpu_plan, digest);
    size_t tail = head + sizeof p->digest;
    uint64_t seed = XXH3_64bits_withSeed(bytes, head, before);
    return XXH3_64bits_withSeed(bytes + tail, p->bytes - tail, seed);
}

void gpu_plan_seal(struct gpu_plan *p, uint64_t number, uint64_t before) {
    CHECK(number > 0);
    p->number = number;
    p->digest = plan_digest(p, before);
}

bool gpu_plan_sealed(const struct gpu_plan *p, uint64_t before) {
    return p->digest == plan_digest(p, before);
}

/* Header and layout: after this every view may be read. */
static enum status check_header(const struct gpu_plan *p, size_t n, uint64_t number,
                                uint64_t before, const struct gpu_limits *l,
                                struct status_note *note) {
    if (p->magic != GPU_PLAN_MAGIC || p->version != GPU_PLAN_VERSION)
        return status_say(note, STATUS_DESYNC, "plan: magic %08x version %u is not of this build",
                          p->magic, p->version);
    if (p->number != number)
        return status_say(note, STATUS_DESYNC, "plan: number %llu where %llu was due",
                          (unsigned long long)p->number, (unsigned long long)number);
    if (p->bytes != n)
        return status_say(note, STATUS_DESYNC, "plan %llu: says %u bytes, %zu came",
                          (unsigned long long)number, p->bytes, n);
    const uint32_t most[PLAN_ARRAYS] = {l->copies, l->seqs,   l->rows, l->draws,
                                        l->pages,  l->counts, l->bias, l->mask_words};
    static const char *const names[PLAN_ARRAYS] = {"copies", "seqs",   "rows",   "draws",
                                                   "pages",  "counts", "biases", "mask words"};
    uint32_t count[PLAN_ARRAYS], offset[PLAN_ARRAYS];
    memcpy(count, (const unsigned char *)p + offsetof(struct gpu_plan, n_copies), sizeof count);
    memcpy(offset, (const unsigned char *)p + offsetof(struct gpu_plan, off_copies), sizeof offset);
    uint64_t off[PLAN_ARRAYS];
    uint64_t bytes = plan_layout(count, off);
    for (int i = 0; i < PLAN_ARRAYS; i++) {
        if (count[i] > most[i])
            return status_say(note, STATUS_DESYNC, "plan %llu: %u %s, at most %u",
                              (unsigned long long)number, count[i], names[i], most[i]);
        if (offset[i] != off[i])
            return status_say(note, STATUS_DESYNC, "plan %llu: %s lie at %u, not at %llu",
                              (unsigned long long)number, names[i], offset[i],
                              (unsigned long long)off[i]);
    }
    if (bytes != n)
        return status_say(note, STATUS_DESYNC, "plan %llu: its arrays need %llu bytes, it has %zu",
                          (unsigned long long)number, (unsigned long long)bytes, n);
    if (p->world < 1 || p->world > GPU_WORLD_MAX)
        return status_say(note, STATUS_DESYNC, "plan %llu: a world of %u ranks",
                          (unsigned long long)number, p->world);
    if ((p->flags & ~(uint32_t)(GPU_PLAN_AHEAD | GPU_PLAN_ALONE)) != 0 ||
        p->graph_order > GPU_GRAPH_CAPTURE)
        return status_say(note, STATUS_DESYNC, "plan %llu: unknown flags %x",
                          (unsigned long long)number, p->flags);
    if (p->digest != plan_digest(p, before))
        return status_say(
            note, STATUS_DESYNC,
            "plan %llu: its digest does not follow from its bytes and the plan before",
            (unsigned long long)number);
    return STATUS_OK;
}

static bool range_in(uint32_t first, uint32_t n, uint32_t end) {
    return n <= end && first <= end - n;
}

static bool page_is(uint32_t page, uint32_t n_device_pages) {
    return page != GPU_PAGE_SINK && page < n_device_pages;
}

static enum status check_copies(const struct gpu_plan *p, const struct gpu_limits *l,
                                uint32_t n_device_pages, struct status_note *note) {
    const struct gpu_copy *copies = gpu_plan_copies(p);
    for (uint32_t i = 0; i < p->n_copies; i++) {
        const struct gpu_copy *c = &copies[i];
        if (!page_is(c->src, n_device_pages) || !page_is(c->dst, n_device_pages) ||
            c->src == c->dst || c->tokens == 0 || c->reserved != 0 ||
            (l->page_tokens != 0 && c->tokens > l->page_tokens))
            return status_say(note, STATUS_DESYNC,
                              "plan %llu: copy %u of %u tokens from page %u to %u",
                              (unsigned long long)p->number, i, c->tokens, c->src, c->dst);
    }
    return STATUS_OK;
}

static enum status check_pages(const struct gpu_plan *p, uint32_t n_device_pages,
                               struct status_note *note) {
    const uint32_t *pages = gpu_plan_pages(p);
    for (uint32_t i = 0; i < p->n_pages; i++)
        if (!page_is(pages[i], n_device_pages))
            return status_say(note, STATUS_DESYNC, "plan %llu: page %u of %u in a page table",
                              (unsigned long long)p->number, pages[i], n_device_pages);
    return STATUS_OK;
}

/* Seqs take the rows and draws in order and without gap; rows after the last seq are padding. */
static enum status check_seqs(const struct gpu_plan *p, const struct gpu_limits *l,
                              struct status_note *note) {
    const struct gpu_seq *seqs = gpu_plan_seqs(p);
    uint64_t slots[GPU_SLOTS_MAX / 64] = {0};
    uint64_t row = 0, draw = 0;
    for (uint32_t i = 0; i < p->n_seqs; i++) {
        const struct gpu_seq *s = &seqs[i];
        const char *wrong = NULL;
        uint64_t end = (uint64_t)s->first_pos + s->n_rows;
        if (s->slot >= GPU_SLOTS_MAX || (slots[s->slot / 64] >> (s->slot % 64) & 1) != 0)
            wrong = "slot";
        else if (s->first_row != row || s->n_rows == 0 || row + s->n_rows > p->n_rows)
            wrong = "rows";
        else if (s->first_draw != draw || s->n_draws > s->n_rows || draw + s->n_draws > p->n_draws)
            wrong = "draws";
        else if (!range_in(s->first_page, s->n_pages, p->n_pages) || s->n_pages == 0 ||
                 (l->page_tokens != 0 && (uint64_t)s->n_pages * l->page_tokens < end))
            wrong = "page table";
        else if (end > KRN_CONTEXT_MAX || s->reserved != 0)
            wrong = "position";
        if (wrong != NULL)
            return status_say(note, STATUS_DESYNC, "plan %llu: the %s of seq %u cannot be",
                              (unsigned long long)p->number, wrong, i);
        slots[s->slot / 64] |= (uint64_t)1 << (s->slot % 64);
        row += s->n_rows;
        draw += s->n_draws;
    }
    if (draw != p->n_draws)
        return status_say(note, STATUS_DESYNC, "plan %llu: %u draws, its seqs have %llu",
                          (unsigned long long)p->number, p->n_draws, (unsigned long long)draw);
    return STATUS_OK;
}

static enum status check_rows(const struct gpu_plan *p, const struct gpu_limits *l,
                              struct status_note *note) {
    const struct gpu_row *rows = gpu_plan_rows(p);
    const struct gpu_seq *seqs = gpu_plan_seqs(p);
    uint32_t from_draw = 0;
    for (uint32_t i = 0; i < p->n_rows; i++) {
        if ((rows[i].flags & ~(uint32_t)GPU_ROW_FROM_DRAW) != 0 || rows[i].token >= l->vocab)
            return status_say(note, STATUS_DESYNC, "plan %llu: row %u has token %u, flags %x",
                              (unsigned long long)p->number, i, rows[i].token, rows[i].flags);
        from_draw += rows[i].flags & GPU_ROW_FROM_DRAW;
    }
    /* Only the first row of a seq can be what its slot drew last. */
    for (uint32_t i = 0; i < p->n_seqs; i++)
        from_draw -= rows[seqs[i].first_row].flags & GPU_ROW_FROM_DRAW;
    if (from_draw != 0)
        return status_say(note, STATUS_DESYNC, "plan %llu: a drawn token in the middle of a seq",
                          (unsigned long long)p->number);
    return STATUS_OK;
}

static bool sampling_is(const struct krn_sampling *s) {
    const uint32_t known = KRN_DRAW_LOGPROB | KRN_DRAW_HASH_LOGITS | KRN_DRAW_KEEP_LOGITS;
    const float values[] = {s->temperature, s->top_p,    s->min_p,
                            s->repetition,  s->presence, s->frequency};
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++)
        if (!isfinite(values[i]))
            return false;
    return s->n_top <= KRN_TOP_MAX && (s->flags & ~known) == 0 && s->reserved == 0;
}

static enum status check_draws(const struct gpu_plan *p, const struct gpu_limits *l,
                               struct status_note *note) {
    const struct gpu_draw *draws = gpu_plan_draws(p);
    const struct gpu_seq *seqs = gpu_plan_seqs(p);
    uint32_t mask_words = (l->vocab + 31) / 32, kept = 0;
    for (uint32_t q = 0; q < p->n_seqs; q++) {
        uint32_t first = seqs[q].first_row, end = first + seqs[q].n_rows;
        for (uint32_t j = 0; j < seqs[q].n_draws; j++) {
            uint32_t i = seqs[q].first_draw + j;
            const struct gpu_draw *d = &draws[i];
            const char *wrong = NULL;
            if (d->seq != q || d->row < first || d->row >= end || (j > 0 && d->row <= d[-1].row))
                wrong = "row";
            else if (d->extra_row < first || d->extra_row > d->row + 1 ||
                     d->row + 1 - d->extra_row > GPU_WINDOW_MAX)
                wrong = "extra rows";
            else if (!range_in(d->first_count, d->n_counts, p->n_counts))
                wrong = "counts";
            else if (!range_in(d->first_bias, d->n_bias, p->n_bias))
                wrong = "biases";
            else if (d->mask != GPU_NO_MASK && !range_in(d->mask, mask_words, p->n_mask_words))
                wrong = "mask";
            else if (!sampling_is(&d->sampling))
                wrong = "sampling";
            if (wrong != NULL)
                return status_say(note, STATUS_DESYNC, "plan %llu: the %s of draw %u cannot be",
                                  (unsigned long long)p->number, wrong, i);
            kept += (d->sampling.flags & KRN_DRAW_KEEP_LOGITS) != 0;
        }
    }
    if (kept > l->kept_logits)
        return status_say(note, STATUS_DESYNC, "plan %llu: keeps %u logits rows, at most %u",
                          (unsigned long long)p->number, kept, l->kept_logits);
    return STATUS_OK;
}

static enum status check_ids(const struct gpu_plan *p, const struct gpu_limits *l,
                             struct status_note *note) {
    const struct krn_count *counts = gpu_plan_counts(p);
    const struct krn_bias *bias = gpu_plan_bias(p);
    for (uint32_t i = 0; i < p->n_counts; i++)
        if (counts[i].id >= l->vocab)
            return status_say(note, STATUS_DESYNC, "plan %llu: count %u is of token %u",
                              (unsigned long long)p->number, i, counts[i].id);
    for (uint32_t i = 0; i < p->n_bias; i++)
        if (bias[i].id >= l->vocab || isnan(bias[i].bias))
            return status_say(note, STATUS_DESYNC, "plan %llu: bias %u is of token %u",
                              (unsigned long long)p->number, i, bias[i].id);
    return STATUS_OK;
}

enum status gpu_plan_check(const void *bytes, size_t n, uint64_t number, uint64_t before,
                           const struct gpu_limits *limits, uint32_t n_device_pages,
                           struct status_note *note) {
    if (n < sizeof(struct gpu_plan) || n > UINT32_MAX || (uintptr_t)bytes % 8 != 0)
        return status_say(note, STATUS_DESYNC, "plan %llu: %zu bytes are no plan",
                          (unsigned long long)number, n);
    const struct gpu_plan *p = bytes;
    TRY(check_header(p, n, number, before, limits, note));
    TRY(check_copies(p, limits, n_device_pages, note));
    TRY(check_pages(p, n_device_pages, note));
    TRY(check_seqs(p, limits, note));
    TRY(check_rows(p, limits, note));
    TRY(check_draws(p, limits, note));
    return check_ids(p, limits, note);
}
