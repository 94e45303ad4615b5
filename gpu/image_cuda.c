/* SPDX-License-Identifier: Apache-2.0
 * A plan as kernels read it (kernels/cuda/step.h): one image, uploaded at once. It is as long as
 * the plan's shape and lengths ask for, so short plans are short uploads.
 */
#include <string.h>

#include "actors/check.h"
#include "gpu/pages_cuda.h"

/* The next array of the image; its offset. */
static uint32_t place(uint32_t *at, uint64_t n, uint64_t size) {
    uint32_t from = (*at + 15) / 16 * 16;
    uint64_t end = from + n * size;
    CHECK(end <= UINT32_MAX);
    *at = (uint32_t)end;
    return from;
}

/* What launches have addresses of comes first and takes the shape's room, so that these addresses
 * depend on the shape alone; the rest is as long as the plan. spans: attention's tables, a bit
 * each. */
static uint32_t lay_out(struct krn_cuda_step *h, struct cuda_places *places, uint32_t spans,
                        const struct cuda_shape *shape, const struct gpu_limits *n) {
    uint32_t at = sizeof *h;
    h->off_rows = place(&at, shape->rows, sizeof(struct krn_cuda_row));
    h->off_seqs = place(&at, shape->seqs, sizeof(struct krn_cuda_seq));
    h->off_draws = place(&at, shape->draws, sizeof(struct krn_cuda_drawing));
    for (uint32_t i = 0; i < CUDA_TABLES; i++) {
        places->table[i] = place(&at, spans >> i & 1, sizeof(struct krn_cuda_attend_table));
        at += (spans >> i & 1) * (shape->rows + shape->seqs) *
              (uint32_t)sizeof(struct krn_cuda_attend_span);
    }
    h->off_pages = places->pages = place(&at, n->pages, sizeof(uint32_t));
    h->off_copies = place(&at, n->copies, sizeof(struct krn_cuda_page_copy));
    h->off_counts = place(&at, n->counts, sizeof(struct krn_count));
    h->off_bias = place(&at, n->bias, sizeof(struct krn_bias));
    h->off_masks = place(&at, n->mask_words, sizeof(uint32_t));
    h->off_changed = place(&at, n->draws, 1);
    return (at + 15) / 16 * 16;
}

/* The tables that this model's attention reads. */
static uint32_t spans_of(const struct cuda *c) {
    uint32_t spans = 0;
    for (uint32_t i = 0; i < CUDA_TABLES; i++)
        spans |= (uint32_t)(c->table_of[i].table != 0) << i;
    return spans;
}

uint32_t gpu_cuda_image_bytes(const struct gpu_limits *limits, bool bf16) {
    struct cuda_shape shape = {gpu_cuda_round_up(limits->rows), gpu_cuda_round_up(limits->draws),
                               gpu_cuda_round_up(limits->seqs)};
    struct krn_cuda_step head;
    struct cuda_places places;
    return lay_out(&head, &places, bf16 ? (1U << CUDA_TABLES) - 1 : 0, &shape, limits);
}

struct cuda_places gpu_cuda_places(const struct cuda *c, const struct cuda_shape *shape) {
    const struct gpu_limits none = {0};
    struct krn_cuda_step head;
    struct cuda_places places;
    lay_out(&head, &places, spans_of(c), shape, &none);
    return places;
}

/* One seq and its rows. A row whose token only the device knows must follow the plan in which its
 * slot drew. */
static enum status fill_seq(struct cuda *c, const struct gpu_plan *p, uint32_t q,
                            struct krn_cuda_seq *seq, struct krn_cuda_row *rows,
                            struct gpu_result *r) {
    const struct gpu_seq *s = &gpu_plan_seqs(p)[q];
    const struct gpu_row *from = gpu_plan_rows(p);
    uint64_t end = (uint64_t)s->first_pos + s->n_rows;
    CHECK(end <= c->model.context);
    CHECK((uint64_t)s->n_pages * c->config.page_tokens >= end);
    *seq = (struct krn_cuda_seq){.slot = s->slot,
                                 .first_row = s->first_row,
                                 .n_rows = s->n_rows,
                                 .first_draw = s->first_draw,
                                 .n_draws = s->n_draws};
    for (uint32_t i = 0; i < s->n_rows; i++)
        rows[s->first_row + i] = (struct krn_cuda_row){.token = from[s->first_row + i].token,
                                                       .slot = s->slot,
                                                       .pos = s->first_pos + i,
                                                       .first_page = s->first_page};
    if ((from[s->first_row].flags & GPU_ROW_FROM_DRAW) == 0)
        return STATUS_OK;
    if (c->drew[s->slot] + 1 != p->number || c->failed_number + 1 == p->number)
        return status_say(&r->note, STATUS_DESYNC, "plan %llu: slot %u drew last in plan %llu",
                          (unsigned long long)p->number, s->slot,
                          (unsigned long long)c->drew[s->slot]);
    rows[s->first_row].token = KRN_CUDA_NONE;
    return STATUS_OK;
}

static void fill_draws(struct cuda *c, const struct gpu_plan *p, struct krn_cuda_drawing *out,
                       struct gpu_result *r) {
    const struct gpu_draw *draws = gpu_plan_draws(p);
    for (uint32_t i = 0; i < p->n_draws; i++) {
        const struct gpu_draw *d = &draws[i];
        out[i] = (struct krn_cuda_drawing){.row = d->row,
                                           .extra_row = d->extra_row,
                                           .first_count = d->first_count,
                                           .n_counts = d->n_counts,
                                           .first_bias = d->first_bias,
                                           .n_bias = d->n_bias,
                                           .mask = d->mask == GPU_NO_MASK ? KRN_CUDA_NONE : d->mask,
                                           .kept = KRN_CUDA_NONE,
                                           .sampling = d->sampling};
        if (d->sampling.flags & KRN_DRAW_KEEP_LOGITS) {
            CHECK(r->n_logits < c->limits.kept_logits);
            out[i].kept = r->n_logits;
            r->logits_draw[r->n_logits++] = i;
        }
    }
}

/* Which draws the hook changes. */
static void fill_changed(struct cuda *c, const struct gpu_plan *p, unsigned char *changed) {
    c->any_changed = false;
    memset(changed, 0, p->n_draws);
    if (c->perturb == GPU_PERTURB_NONE)
        return;
    gpu_perturb_mark((enum gpu_perturb)c->perturb, &c->perturb_memory, p, c->failed_number, true,
                     changed);
    for (uint32_t i = 0; i < p->n_draws; i++)
        c->any_changed = c->any_changed || changed[i] != 0;
}

/* Attention's spans of full and windowed layers. */
static void fill_tables(struct cuda *c, const struct gpu_plan *p, const struct cuda_places *places,
                        unsigned char *image) {
    struct krn_cuda_attend_seq seqs[CUDA_SEQS_MAX];
    CHECK(p->n_seqs <= CUDA_SEQS_MAX);
    for (uint32_t q = 0; q < p->n_seqs; q++) {
        const struct gpu_seq *from = &gpu_plan_seqs(p)[q];
        seqs[q] = (struct krn_cuda_attend_seq){from->first_row, from->n_rows, from->first_pos,
                                               from->first_page};
    }
    for (int i = 0; i < CUDA_TABLES; i++) {
        if (c->table_of[i].table == 0)
            continue;
        struct krn_cuda_attend_table *table =
            (struct krn_cuda_attend_table *)(void *)(image + places->table[i]);
        krn_cuda_attend_cut(&c->table_of[i], &c->machine, seqs, p->n_seqs, table);
        CHECK(table->n_wide + table->n_narrow <= p->n_rows + p->n_seqs);
    }
}

enum status gpu_cuda_upload(struct cuda *c, const struct cuda_step *s, uint32_t bytes,
                            struct status_note *note) {
    gpu_cu_t r = c->driver->copy_in(c->image, s->image, bytes, c->streams[GPU_STREAM_COMPUTE]);
    return gpu_cuda_said(c, r, "uploading a plan", note);
}

enum status gpu_cuda_image(struct cuda *c, const struct gpu_plan *p, struct gpu_result *r,
                           unsigned char *image, uint32_t *bytes) {
    struct gpu_limits n = {.rows = p->n_rows,
                           .seqs = p->n_seqs,
                           .draws = p->n_draws,
                           .copies = p->n_copies,
                           .pages = p->n_pages,
                           .counts = p->n_counts,
                           .bias = p->n_bias,
                           .mask_words = p->n_mask_words};
    struct krn_cuda_step *h = (struct krn_cuda_step *)(void *)image;
    *h = (struct krn_cuda_step){.n_draws = p->n_draws,
                                .n_seqs = p->n_seqs,
                                .n_copies = p->n_copies,
                                .nan_row = KRN_CUDA_NONE};
    struct cuda_shape shape = gpu_cuda_shape(p);
    struct cuda_places places;
    *bytes = lay_out(h, &places, spans_of(c), &shape, &n);
    CHECK(*bytes <= c->image_bytes);
    const struct gpu_faults *f = &c->device.faults;
    for (uint32_t q = 0; q < p->n_seqs; q++) {
        const struct gpu_seq *s = &gpu_plan_seqs(p)[q];
        CHECK(s->first_row == h->n_rows); /* rows behind the last seq are padding */
        TRY(fill_seq(c, p, q, (struct krn_cuda_seq *)(void *)(image + h->off_seqs) + q,
                     (struct krn_cuda_row *)(void *)(image + h->off_rows), r));
        h->n_rows += s->n_rows;
        if (f->nan_row && f->nan_slot == s->slot)
            h->nan_row = s->first_row + (f->nan_at < s->n_rows ? f->nan_at : s->n_rows - 1);
    }
    CHECK(h->n_rows <= p->n_rows);
    fill_draws(c, p, (struct krn_cuda_drawing *)(void *)(image + h->off_draws), r);
    fill_changed(c, p, image + h->off_changed);
    fill_tables(c, p, &places, image);
    struct krn_cuda_page_copy *copies =
        (struct krn_cuda_page_copy *)(void *)(image + h->off_copies);
    for (uint32_t i = 0; i < p->n_copies; i++) {
        const struct gpu_copy *copy = &gpu_plan_copies(p)[i];
        copies[i] = (struct krn_cuda_page_copy){copy->src, copy->dst, copy->tokens};
    }
    memcpy(image + h->off_pages, gpu_plan_pages(p), p->n_pages * sizeof(uint32_t));
    memcpy(image + h->off_counts, gpu_plan_counts(p), p->n_counts * sizeof(struct krn_count));
    memcpy(image + h->off_bias, gpu_plan_bias(p), p->n_bias * sizeof(struct krn_bias));
    memcpy(image + h->off_masks, gpu_plan_masks(p), p->n_mask_words * sizeof(uint32_t));
    return STATUS_OK;
}
