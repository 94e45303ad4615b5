/* SPDX-License-Identifier: Apache-2.0
 * The device of the simulation. A page slot holds a hash of its token, its position and the slot
 * before it, read through the plan's page table; a draw is a hash of every slot that its row may
 * see. So a wrong, stale, freed or never written page is a wrong token. Steps take virtual time and
 * run when that time is over.
 */
#include <stdlib.h>
#include <string.h>

#include "actors/check.h"
#include "gpu/device.h"

enum { FAKE_STEPS = 2 };

static const uint64_t FAKE_NEVER = 0x6e65766572000000;  /* a slot that nobody wrote */
static const uint64_t FAKE_POISON = 0x706f69736f6e0000; /* a slot of a freed page */
static const uint64_t FAKE_ROOT = 0x9e3779b97f4a7c15;

struct fake_step {
    const struct gpu_plan *plan;
    struct gpu_result *result;
    struct gpu_faults faults;
    uint64_t end_ns; /* 0: not seen by poll yet */
};

struct fake_last {
    uint64_t number;
    uint32_t token;
};

/* What a graph cache would hold: keys with a slot, reserved or captured; words not yet fetched. */
enum { FAKE_SAID = 8 };
struct fake_graphs {
    struct fake_graph {
        uint64_t key; /* 0: free */
        bool captured, lost;
    } slots[GPU_GRAPHS_MAX];
    struct gpu_graph_said said[FAKE_SAID];
    uint32_t n_said;
    uint64_t replays;
};

struct fake {
    struct gpu_device device;
    struct gpu_device_config config;
    uint64_t *slots; /* [n_pages][page_tokens] */
    struct fake_step steps[FAKE_STEPS];
    uint32_t n_steps;
    uint64_t busy_until_ns;
    uint64_t begun, done;   /* steps, for events */
    uint64_t failed_number; /* the last plan that was not OK */
    struct fake_last last[GPU_SLOTS_MAX];
    struct fake_graphs graphs;
};

static uint64_t mix(uint64_t a, uint64_t b) {
    uint64_t h = (a ^ (b + FAKE_ROOT + (a << 6) + (a >> 2))) * 0xff51afd7ed558ccd;
    return h ^ (h >> 29);
}

/* A slot's value. */
static uint64_t slot_of(uint64_t before, uint32_t token, uint32_t pos) {
    return mix(before, ((uint64_t)pos << 32) | token);
}

/* The draw after n slots have been folded into seen. */
static uint64_t draw_of(uint64_t seen, uint64_t seed, uint32_t n) {
    return mix(mix(seen, seed), n);
}

uint32_t gpu_fake_draw(const uint32_t *ids, uint32_t n, uint64_t seed, uint32_t vocab) {
    uint64_t slot = FAKE_ROOT, seen = 0;
    for (uint32_t i = 0; i < n; i++) {
        slot = slot_of(slot, ids[i], i);
        seen = mix(seen, slot);
    }
    return (uint32_t)(draw_of(seen, seed, n) % vocab);
}

static uint64_t *fake_slot(struct fake *f, const uint32_t *pages, uint32_t pos) {
    uint32_t page = pages[pos / f->config.page_tokens];
    return &f->slots[(size_t)page * f->config.page_tokens + pos % f->config.page_tokens];
}

static bool mask_allows(const uint32_t *mask, uint32_t token) {
    return (mask[token / 32] >> (token % 32) & 1) != 0;
}

/* Fills one draw from what its row has seen. */
static void fake_draw(struct fake *f, const struct gpu_plan *p, uint32_t i, uint32_t pos,
                      uint64_t seen, bool finite, struct gpu_result *r) {
    const struct gpu_draw *d = &gpu_plan_draws(p)[i];
    uint32_t vocab = f->config.vocab, token;
    uint64_t h = draw_of(seen, d->sampling.seed, pos + 1);
    struct krn_drawn *drawn = &r->drawn[i];
    memset(drawn, 0, sizeof *drawn);
    if (!finite)
        return;
    token = (uint32_t)(h % vocab);
    if (d->mask != GPU_NO_MASK) {
        const uint32_t *mask = gpu_plan_masks(p) + d->mask;
        for (uint32_t n = 0; n < vocab && !mask_allows(mask, token); n++)
            token = (token + 1) % vocab;
    }
    drawn->token = token;
    drawn->finite = 1;
    if (d->sampling.flags & KRN_DRAW_HASH_LOGITS)
        drawn->logits_hash = mix(seen, pos);
    if (d->sampling.flags & KRN_DRAW_LOGPROB) {
        drawn->logprob = -(float)(h % 1024) / 1024;
        drawn->n_top = d->sampling.n_top < vocab ? d->sampling.n_top : vocab;
        for (uint32_t t = 0; t < drawn->n_top; t++)
            r->top[(size_t)i * KRN_TOP_MAX + t] =
                (struct krn_top){(token + t) % vocab, drawn->logprob - (float)t};
    }
    if (d->sampling.flags & KRN_DRAW_KEEP_LOGITS) {
        float *row = r->logits + (size_t)r->n_logits * vocab;
        for (uint32_t t = 0; t < vocab; t++)
            row[t] = (float)(mix(seen, t) % 4096) / 4096;
        row[token] = 2;
        r->logits_draw[r->n_logits++] = i;
    }
}

/* One seq: its slots in order, then its draws. DESYNC when a row's draw was not made by the plan
 * before. */
static enum status fake_seq(struct fake *f, const struct gpu_plan *p, uint32_t q,
                            const struct gpu_faults *faults, struct gpu_result *r) {
    const struct gpu_seq *s = &gpu_plan_seqs(p)[q];
    const struct gpu_row *rows = gpu_plan_rows(p) + s->first_row;
    const struct gpu_draw *draws = gpu_plan_draws(p);
    const uint32_t *pages = gpu_plan_pages(p) + s->first_page;
    struct fake_last *last = &f->last[s->slot];
    bool finite = true;
    uint32_t nan_at = faults->nan_at < s->n_rows ? faults->nan_at : s->n_rows - 1;
    if (!faults->nan_row || faults->nan_slot != s->slot)
        nan_at = s->n_rows;
    CHECK((uint64_t)s->n_pages * f->config.page_tokens >= (uint64_t)s->first_pos + s->n_rows);
    if (nan_at < s->n_rows)
        r->bad_row[q] = s->first_row + nan_at;
    uint64_t seen = 0;
    for (uint32_t pos = 0; pos < s->first_pos && s->n_draws > 0; pos++)
        seen = mix(seen, *fake_slot(f, pages, pos));
    uint64_t before = s->first_pos == 0 ? FAKE_ROOT : *fake_slot(f, pages, s->first_pos - 1);
    uint32_t next = s->first_draw;
    for (uint32_t i = 0; i < s->n_rows; i++) {
        uint32_t pos = s->first_pos + i, token = rows[i].token;
        finite = finite && i != nan_at;
        if (rows[i].flags & GPU_ROW_FROM_DRAW) {
            if (last->number + 1 != p->number || f->failed_number + 1 == p->number)
                return status_say(
                    &r->note, STATUS_DESYNC, "plan %llu: slot %u drew last in plan %llu",
                    (unsigned long long)p->number, s->slot, (unsigned long long)last->number);
            token = last->token;
        }
        before = slot_of(before, token, pos) ^ (finite ? 0 : FAKE_POISON);
        *fake_slot(f, pages, pos) = before;
        seen = mix(seen, before);
        if (next < s->first_draw + s->n_draws && draws[next].row == s->first_row + i) {
            fake_draw(f, p, next, pos, seen, finite, r);
            *last = (struct fake_last){p->number, r->drawn[next].token};
            next++;
        }
    }
    return STATUS_OK;
}

static void fake_copy(struct fake *f, const struct gpu_copy *c) {
    size_t n = f->config.page_tokens;
    CHECK(c->src < f->config.n_pages && c->dst < f->config.n_pages && c->tokens <= n);
    /* A device may copy more than it must; what follows must not be relied upon. */
    memcpy(&f->slots[c->dst * n], &f->slots[c->src * n], c->tokens * sizeof f->slots[0]);
    for (size_t i = c->tokens; i < n; i++)
        f->slots[c->dst * n + i] = FAKE_NEVER;
}

static void fake_run(struct fake *f, struct fake_step *step) {
    const struct gpu_plan *p = step->plan;
    struct gpu_result *r = step->result;
    gpu_result_begin(r, p);
    r->step_ns = f->config.fake_step_ns + step->faults.slow_ns;
    r->kernel_ns = r->step_ns;
    if (step->faults.voided || ((p->flags & GPU_PLAN_AHEAD) && f->failed_number + 1 == p->number)) {
        r->status = status_say(&r->note, STATUS_AGAIN,
                               "plan %llu is void: it was closed ahead of a failed one",
                               (unsigned long long)p->number);
    } else {
        for (uint32_t i = 0; i < p->n_copies; i++)
            fake_copy(f, &gpu_plan_copies(p)[i]);
        for (uint32_t q = 0; q < p->n_seqs && r->status == STATUS_OK; q++)
            r->status = fake_seq(f, p, q, &step->faults, r);
        if (step->faults.step_fails)
            r->status =
                status_say(&r->note, STATUS_ROUND_FAILED, "plan %llu failed by a test's wish",
                           (unsigned long long)p->number);
    }
    if (r->status != STATUS_OK) {
        f->failed_number = p->number;
        r->n_draws = 0;
        r->n_logits = 0;
    }
    r->drawn_digest = gpu_result_drawn_digest(r);
}

/* Few classes: rows and draws rounded up to powers of two, as a device of fixed shapes does. */
static uint64_t fake_graph_key(const struct gpu_device *d, const struct gpu_plan *plan) {
    uint32_t rows = 1, draws = 1;
    if (((const struct fake *)d)->config.graphs.max == 0)
        return 0;
    while (rows < plan->n_rows)
        rows *= 2;
    while (draws < plan->n_draws)
        draws *= 2;
    return (uint64_t)rows << 32 | draws;
}

static struct fake_graph *fake_graph_of(struct fake *f, uint64_t key) {
    for (uint32_t i = 0; i < f->config.graphs.max; i++)
        if (f->graphs.slots[i].key == key)
            return &f->graphs.slots[i];
    return NULL;
}

static void fake_say(struct fake *f, uint64_t key, enum gpu_graph_word word) {
    CHECK(f->graphs.n_said < FAKE_SAID); /* the rank fetches after each step */
    f->graphs.said[f->graphs.n_said++] = (struct gpu_graph_said){key, word};
}

/* Follows the plan's order, and says what came of it; what it draws is the same either way. */
static void fake_graph(struct fake *f, const struct gpu_plan *p, bool fails) {
    uint64_t key = p->graph_key;
    struct fake_graph *g = fake_graph_of(f, key);
    switch ((enum gpu_graph_order)p->graph_order) {
    case GPU_GRAPH_NONE:
        break;
    case GPU_GRAPH_LIVE:
        if (g != NULL && g->captured && !g->lost && !fails) {
            f->graphs.replays++;
            break;
        }
        if (g == NULL || !g->lost)
            fake_say(f, key, GPU_GRAPH_LOST);
        if (g != NULL)
            g->lost = true;
        break;
    case GPU_GRAPH_ASK:
        if (g == NULL && !fails)
            g = fake_graph_of(f, 0);
        if (g != NULL && !fails)
            g->key = key;
        fake_say(f, key, g != NULL && !fails ? GPU_GRAPH_ROOM : GPU_GRAPH_NO_ROOM);
        break;
    case GPU_GRAPH_CAPTURE:
        if (g != NULL && fails)
            *g = (struct fake_graph){0};
        else if (g != NULL)
            g->captured = true;
        fake_say(f, key, g != NULL && !fails ? GPU_GRAPH_CAPTURED : GPU_GRAPH_NOT_CAPTURED);
        break;
    }
}

static bool fake_graph_vote(struct gpu_device *d, struct gpu_graph_said *said) {
    struct fake_graphs *g = &((struct fake *)d)->graphs;
    if (g->n_said == 0)
        return false;
    *said = g->said[0];
    g->n_said--;
    memmove(&g->said[0], &g->said[1], g->n_said * sizeof g->said[0]);
    return true;
}

static void fake_graph_drop(struct gpu_device *d, uint64_t key) {
    struct fake_graph *g = key == 0 ? NULL : fake_graph_of((struct fake *)d, key);
    if (g != NULL)
        *g = (struct fake_graph){0};
}

uint32_t gpu_device_fake_graphs(const struct gpu_device *d) {
    const struct fake *f = (const struct fake *)d;
    uint32_t n = 0;
    for (uint32_t i = 0; i < GPU_GRAPHS_MAX; i++)
        n += f->graphs.slots[i].key != 0;
    return n;
}

bool gpu_device_fake_captured(const struct gpu_device *d, uint64_t key) {
    const struct fake *f = (const struct fake *)d;
    for (uint32_t i = 0; i < GPU_GRAPHS_MAX; i++)
        if (f->graphs.slots[i].key == key && f->graphs.slots[i].captured)
            return true;
    return false;
}

uint64_t gpu_device_fake_replays(const struct gpu_device *d) {
    return ((const struct fake *)d)->graphs.replays;
}

static void fake_step(struct gpu_device *d, const struct gpu_plan *plan,
                      struct gpu_result *result) {
    struct fake *f = (struct fake *)d;
    CHECK(f->n_steps < FAKE_STEPS);
    f->steps[f->n_steps++] = (struct fake_step){plan, result, d->faults, 0};
    if (!d->faults.voided) /* a plan that is void does nothing, and so says nothing */
        fake_graph(f, plan, d->faults.graph_fails);
    d->faults = (struct gpu_faults){0};
    f->begun++;
}

static enum gpu_poll fake_poll(struct gpu_device *d, uint64_t now_ns, uint64_t *again_ns) {
    struct fake *f = (struct fake *)d;
    CHECK(f->n_steps > 0);
    for (uint32_t i = 0; i < f->n_steps; i++) {
        struct fake_step *s = &f->steps[i];
        if (s->end_ns != 0)
            continue;
        uint64_t start = now_ns > f->busy_until_ns ? now_ns : f->busy_until_ns;
        s->end_ns = start + f->config.fake_step_ns + s->faults.slow_ns;
        f->busy_until_ns = s->end_ns;
    }
    if (now_ns < f->steps[0].end_ns) {
        *again_ns = f->steps[0].end_ns - now_ns;
        return GPU_BUSY;
    }
    fake_run(f, &f->steps[0]);
    f->steps[0] = f->steps[1];
    f->n_steps--;
    f->done++;
    return GPU_DONE;
}

static enum status fake_page_read(struct gpu_device *d, uint32_t page, void *host) {
    struct fake *f = (struct fake *)d;
    CHECK(page < f->config.n_pages);
    memcpy(host, &f->slots[(size_t)page * f->config.page_tokens], d->page_bytes);
    return STATUS_OK;
}

static enum status fake_page_write(struct gpu_device *d, uint32_t page, const void *host) {
    struct fake *f = (struct fake *)d;
    CHECK(page < f->config.n_pages);
    memcpy(&f->slots[(size_t)page * f->config.page_tokens], host, d->page_bytes);
    return STATUS_OK;
}

static void fake_page_freed(struct gpu_device *d, uint32_t page) {
    struct fake *f = (struct fake *)d;
    CHECK(page != GPU_PAGE_SINK && page < f->config.n_pages);
    uint64_t *slot = &f->slots[(size_t)page * f->config.page_tokens];
    for (uint32_t i = 0; i < f->config.page_tokens; i++)
        slot[i] = FAKE_POISON + page;
}

static gpu_event_t fake_record(struct gpu_device *d, enum gpu_stream stream) {
    (void)stream; /* one order for all three */
    return ((struct fake *)d)->begun;
}

static void fake_wait(struct gpu_device *d, enum gpu_stream stream, gpu_event_t event) {
    (void)stream;
    CHECK(event <= ((struct fake *)d)->begun);
}

static bool fake_reached(struct gpu_device *d, gpu_event_t event) {
    return event <= ((struct fake *)d)->done;
}

static void fake_close(struct gpu_device *d) {
    struct fake *f = (struct fake *)d;
    free(f->slots);
    free(f);
}

static const struct gpu_device_ops fake_ops = {
    .name = "fake",
    .step = fake_step,
    .poll = fake_poll,
    .page_read = fake_page_read,
    .page_write = fake_page_write,
    .page_freed = fake_page_freed,
    .record = fake_record,
    .wait = fake_wait,
    .reached = fake_reached,
    .graph_key = fake_graph_key,
    .graph_vote = fake_graph_vote,
    .graph_drop = fake_graph_drop,
    .close = fake_close,
};

enum status gpu_device_fake_open(const struct gpu_device_config *config, struct gpu_device **out,
                                 struct status_note *note) {
    if (config->vocab == 0 || config->page_tokens == 0 || config->n_pages < 2)
        return status_say(note, STATUS_BAD_REQUEST,
                          "fake device: vocab %u, page tokens %u, %u pages", config->vocab,
                          config->page_tokens, config->n_pages);
    struct fake *f = calloc(1, sizeof *f);
    size_t n = (size_t)config->n_pages * config->page_tokens;
    uint64_t *slots = calloc(n, sizeof *slots);
    if (f == NULL || slots == NULL) {
        free(f);
        free(slots);
        return status_say(note, STATUS_NO_MEMORY, "fake device: no memory for %u pages",
                          config->n_pages);
    }
    for (size_t i = 0; i < n; i++)
        slots[i] = FAKE_NEVER;
    f->config = *config;
    f->slots = slots;
    f->failed_number = UINT64_MAX - 1; /* no plan follows it */
    f->device.ops = &fake_ops;
    f->device.page_bytes = (uint64_t)config->page_tokens * sizeof *slots;
    f->device.bytes_used = n * sizeof *slots;
    f->device.inline_step = false;
    f->device.graphs = config->graphs;
    *out = &f->device;
    return STATUS_OK;
}
