/* SPDX-License-Identifier: Apache-2.0
 * The memory of a round, and the common parts of a device's answer.
 */
#include "gpu/round.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "actors/check.h"
#include "gpu/plan.h"

static uint64_t round_up(uint64_t n, uint64_t to) {
    return (n + to - 1) / to * to;
}

/* Cuts the next array of n elements out of a result's one allocation; with base NULL only counts.
 */
static void *result_cut(unsigned char *base, size_t *at, size_t n, size_t size) {
    size_t from = round_up(*at, 64);
    *at = from + n * size;
    return base == NULL ? NULL : base + from;
}

static size_t result_place(struct gpu_result *r, unsigned char *base, const struct gpu_limits *l) {
    size_t at = sizeof *r;
    struct gpu_result places = {0};
    places.drawn = result_cut(base, &at, l->draws, sizeof *r->drawn);
    places.top = result_cut(base, &at, (size_t)l->draws * KRN_TOP_MAX, sizeof *r->top);
    places.bad_row = result_cut(base, &at, l->seqs, sizeof *r->bad_row);
    places.logits_draw = result_cut(base, &at, l->kept_logits, sizeof *r->logits_draw);
    places.logits = result_cut(base, &at, (size_t)l->kept_logits * l->vocab, sizeof *r->logits);
    if (r != NULL)
        *r = places;
    return at;
}

enum status gpu_round_new(const struct gpu_limits *limits, uint32_t world, struct gpu_round **out) {
    CHECK(world >= 1 && world <= GPU_WORLD_MAX);
    struct gpu_round *round = calloc(1, sizeof *round);
    if (round == NULL)
        return STATUS_NO_MEMORY;
    round->world = world;
    round->plan_capacity = gpu_plan_bytes_max(limits);
    /* Zeroed by the system: what no plan ever reaches takes no memory and no time at start. */
    round->plan_memory = calloc(1, round->plan_capacity + 64);
    bool whole = round->plan_memory != NULL;
    if (whole)
        round->plan = (struct gpu_plan *)(void *)((unsigned char *)round->plan_memory +
                                                  -(uintptr_t)round->plan_memory % 64);
    size_t bytes = result_place(NULL, NULL, limits);
    for (uint32_t i = 0; i < world; i++) {
        unsigned char *memory = calloc(1, bytes);
        round->results[i] = (struct gpu_result *)memory;
        whole = whole && memory != NULL;
        if (memory != NULL)
            result_place(round->results[i], memory, limits);
    }
    if (!whole) {
        gpu_round_free(round);
        return STATUS_NO_MEMORY;
    }
    *out = round;
    return STATUS_OK;
}

void gpu_round_free(struct gpu_round *round) {
    if (round == NULL)
        return;
    for (uint32_t i = 0; i < round->world; i++)
        free(round->results[i]);
    free(round->plan_memory);
    free(round);
}

void gpu_result_begin(struct gpu_result *r, const struct gpu_plan *p) {
    r->number = p->number;
    r->digest = p->digest;
    r->drawn_digest = 0;
    r->status = STATUS_OK;
    r->n_draws = p->n_draws;
    r->n_seqs = p->n_seqs;
    r->n_logits = 0;
    r->step_ns = 0;
    r->kernel_ns = 0;
    r->host_ns = 0;
    r->note.text[0] = '\0';
    for (uint32_t i = 0; i < p->n_seqs; i++)
        r->bad_row[i] = GPU_ROW_FINE;
}

uint64_t gpu_result_drawn_digest(const struct gpu_result *r) {
    uint64_t digest = r->number;
    for (uint32_t i = 0; i < r->n_draws; i++) {
        const uint32_t drawn[2] = {r->drawn[i].token, r->drawn[i].finite};
        digest = XXH3_64bits_withSeed(drawn, sizeof drawn, digest);
    }
    return XXH3_64bits_withSeed(r->bad_row, r->n_seqs * sizeof r->bad_row[0], digest);
}
