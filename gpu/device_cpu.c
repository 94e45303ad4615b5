/* SPDX-License-Identifier: Apache-2.0
 * The CPU device: opens weights, pages and buffers, then computes each step before step returns.
 * Streams and events are real in the sense of the port: everything happens in one order, so an
 * event is reached when it is recorded.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "actors/check.h"
#include "actors/port.h"
#include "gpu/cpu.h"

/* Notes the rows' tokens and positions, and cuts seqs into spans of at most KRN_SPAN_ROWS rows. A
 * long piece is cut where the position is a multiple of that, so that no two threads write to one
 * cache line of transposed keys. */
static enum status step_rows(struct cpu *c, const struct gpu_plan *p, struct gpu_result *r) {
    const struct gpu_seq *seqs = gpu_plan_seqs(p);
    const struct gpu_row *rows = gpu_plan_rows(p);
    c->n_spans = c->n_rows = 0;
    c->one_span_a_seq = true;
    for (uint32_t q = 0; q < p->n_seqs; q++) {
        const struct gpu_seq *s = &seqs[q];
        uint64_t end = (uint64_t)s->first_pos + s->n_rows;
        CHECK(s->first_row == c->n_rows && end <= c->model.context);
        CHECK((uint64_t)s->n_pages * c->config.page_tokens >= end);
        for (uint32_t i = 0; i < s->n_rows; i++) {
            c->token[s->first_row + i] = rows[s->first_row + i].token;
            c->position[s->first_row + i] = s->first_pos + i;
        }
        if (rows[s->first_row].flags & GPU_ROW_FROM_DRAW) {
            const struct cpu_last *last = &c->last[s->slot];
            if (last->number + 1 != p->number || c->failed_number + 1 == p->number)
                return status_say(
                    &r->note, STATUS_DESYNC, "plan %llu: slot %u drew last in plan %llu",
                    (unsigned long long)p->number, s->slot, (unsigned long long)last->number);
            c->token[s->first_row] = last->token;
        }
        for (uint32_t i = 0, n; i < s->n_rows; i += n) {
            uint32_t left = s->n_rows - i, pos = s->first_pos + i;
            n = s->n_rows <= KRN_SPAN_ROWS ? left : KRN_SPAN_ROWS - pos % KRN_SPAN_ROWS;
            n = n < left ? n : left;
            c->spans[c->n_spans++] = (struct krn_span){.first_row = s->first_row + i,
                                                       .rows = n,
                                                       .first_pos = pos,
                                                       .pages = gpu_plan_pages(p) + s->first_page};
            c->one_span_a_seq = c->one_span_a_seq && n == s->n_rows;
        }
        c->n_rows += s->n_rows;
        if (c->device.faults.nan_row && c->device.faults.nan_slot == s->slot)
            c->nan_row =
                s->first_row +
                (c->device.faults.nan_at < s->n_rows ? c->device.faults.nan_at : s->n_rows - 1);
    }
    CHECK(c->n_rows <= p->n_rows); /* rows behind them are padding: this device needs none */
    return STATUS_OK;
}

static void step_draws(struct cpu *c, const struct gpu_plan *p, struct gpu_result *r) {
    const struct gpu_draw *draws = gpu_plan_draws(p);
    for (uint32_t i = 0; i < p->n_draws; i++) {
        c->kept[i] = GPU_ROW_FINE;
        if (draws[i].sampling.flags & KRN_DRAW_KEEP_LOGITS) {
            CHECK(r->n_logits < c->limits.kept_logits);
            c->kept[i] = r->n_logits;
            r->logits_draw[r->n_logits++] = i;
        }
    }
}

/* Bad rows, and that no draw at or behind one counts; then what each slot drew last. */
static void step_finish(struct cpu *c, const struct gpu_plan *p, struct gpu_result *r) {
    const struct gpu_seq *seqs = gpu_plan_seqs(p);
    const struct gpu_draw *draws = gpu_plan_draws(p);
    for (uint32_t q = 0; q < p->n_seqs; q++) {
        const struct gpu_seq *s = &seqs[q];
        for (uint32_t i = s->first_row; i < s->first_row + s->n_rows; i++)
            if (c->bad[i]) {
                r->bad_row[q] = i;
                break;
            }
        for (uint32_t i = s->first_draw; i < s->first_draw + s->n_draws; i++) {
            /* A row that is not finite has no token, logprob or hash that means anything. */
            if (r->bad_row[q] <= draws[i].row || !r->drawn[i].finite)
                r->drawn[i] = (struct krn_drawn){0};
            c->last[s->slot] = (struct cpu_last){p->number, r->drawn[i].token};
        }
    }
}

static const char *exchange_text(const struct cpu *c, enum status status) {
    const struct status_note *note = c->config.collective->note;
    return note != NULL && note->text[0] != '\0' ? note->text : status_text(status);
}

/* Ranks agree whether the step is good, so that none runs ahead of what failed on another. */
static void step_agree(struct cpu *c, const struct gpu_plan *p, struct gpu_result *r) {
    const struct gpu_collective *all = c->config.collective;
    float mine = (float)r->status, each[GPU_WORLD_MAX];
    enum status status = all->gather(all->self, &mine, each, 1, 1);
    if (r->status != STATUS_OK)
        return;
    if (status != STATUS_OK) {
        r->status = status_say(&r->note, status, "plan %llu: %s", (unsigned long long)p->number,
                               exchange_text(c, status));
        return;
    }
    for (uint32_t i = 0; i < c->config.world && r->status == STATUS_OK; i++)
        if (each[i] != (float)STATUS_OK)
            r->status = status_say(&r->note, STATUS_ROUND_FAILED, "plan %llu failed on rank %u",
                                   (unsigned long long)p->number, i);
}

static void step_run(struct cpu *c, const struct gpu_plan *p, struct gpu_result *r) {
    c->plan = p;
    c->result = r;
    c->nan_row = GPU_ROW_FINE;
    c->status = STATUS_OK;
    r->status = step_rows(c, p, r);
    if (r->status != STATUS_OK)
        return; /* equal on all ranks */
    if (c->perturb != 0)
        gpu_perturb_mark((enum gpu_perturb)c->perturb, &c->seen, p, c->failed_number,
                         gpu_team_size(c->team) > 1, c->changed);
    step_draws(c, p, r);
    uint64_t begin = act_port_now_ns();
    gpu_team_run(c->team, gpu_cpu_forward, c);
    r->kernel_ns = act_port_now_ns() - begin;
    r->status = c->status;
    if (r->status != STATUS_OK)
        status_say(&r->note, r->status, "plan %llu: %s", (unsigned long long)p->number,
                   exchange_text(c, r->status));
    else if (c->device.faults.step_fails)
        r->status = status_say(&r->note, STATUS_ROUND_FAILED, "plan %llu failed by a test's wish",
                               (unsigned long long)p->number);
    if (c->config.world > 1)
        step_agree(c, p, r);
    if (r->status == STATUS_OK)
        step_finish(c, p, r);
}

static void cpu_step(struct gpu_device *d, const struct gpu_plan *p, struct gpu_result *r) {
    struct cpu *c = (struct cpu *)d;
    uint64_t begin = act_port_now_ns();
    CHECK(c->undone < 2);
    CHECK(p->n_rows <= c->limits.rows && p->n_draws <= c->limits.draws &&
          p->n_seqs <= c->limits.seqs);
    CHECK(p->n_counts <= c->limits.counts);
    gpu_result_begin(r, p);
    if (d->faults.voided || ((p->flags & GPU_PLAN_AHEAD) && c->failed_number + 1 == p->number))
        r->status = status_say(&r->note, STATUS_AGAIN,
                               "plan %llu is void: it was closed ahead of a failed one",
                               (unsigned long long)p->number);
    else
        step_run(c, p, r);
    d->faults = (struct gpu_faults){0};
    if (r->status != STATUS_OK) {
        c->failed_number = p->number;
        r->n_draws = r->n_logits = 0;
    }
    r->drawn_digest = gpu_result_drawn_digest(r);
    r->step_ns = act_port_now_ns() - begin;
    c->undone++;
}

static enum gpu_poll cpu_poll(struct gpu_device *d, uint64_t now_ns, uint64_t *again_ns) {
    struct cpu *c = (struct cpu *)d;
    (void)now_ns;
    *again_ns = 0;
    CHECK(c->undone > 0);
    c->undone--;
    return GPU_DONE;
}

static unsigned char *cpu_page(struct cpu *c, uint32_t page) {
    CHECK(page < c->config.n_pages);
    return c->pool + page * c->device.page_bytes;
}

static enum status cpu_page_read(struct gpu_device *d, uint32_t page, void *host) {
    memcpy(host, cpu_page((struct cpu *)d, page), d->page_bytes);
    return STATUS_OK;
}

static enum status cpu_page_write(struct gpu_device *d, uint32_t page, const void *host) {
    memcpy(cpu_page((struct cpu *)d, page), host, d->page_bytes);
    return STATUS_OK;
}

static void cpu_page_freed(struct gpu_device *d, uint32_t page) {
    struct cpu *c = (struct cpu *)d;
    CHECK(page != GPU_PAGE_SINK);
    if (c->poison)
        memset(cpu_page(c, page), 0xff, d->page_bytes);
}

static gpu_event_t cpu_record(struct gpu_device *d, enum gpu_stream stream) {
    CHECK(stream < GPU_STREAMS);
    return ++((struct cpu *)d)->events;
}

static void cpu_wait(struct gpu_device *d, enum gpu_stream stream, gpu_event_t event) {
    CHECK(stream < GPU_STREAMS && event <= ((struct cpu *)d)->events);
}

static bool cpu_reached(struct gpu_device *d, gpu_event_t event) {
    CHECK(event <= ((struct cpu *)d)->events);
    return true;
}

static void unmap(void *map, uint64_t bytes) {
    if (map != NULL)
        munmap(map, bytes);
}

static void cpu_close(struct gpu_device *d) {
    struct cpu *c = (struct cpu *)d;
    gpu_team_close(c->team);
    unmap(c->weights, c->weights_bytes);
    unmap(c->buffers, c->buffers_bytes);
    unmap(c->pool, c->pool_bytes);
    free(c->stages);
    free(c->perturb_row);
    free(c);
}

static const struct gpu_device_ops cpu_ops = {
    .name = "cpu",
    .step = cpu_step,
    .poll = cpu_poll,
    .page_read = cpu_page_read,
    .page_write = cpu_page_write,
    .page_freed = cpu_page_freed,
    .record = cpu_record,
    .wait = cpu_wait,
    .reached = cpu_reached,
    .perturb = gpu_device_cpu_perturb,
    .poison = gpu_device_cpu_poison,
    .close = cpu_close,
};

static void *map_memory(uint64_t bytes) {
    void *map = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return map == MAP_FAILED ? NULL : map;
}

/* The next part of the buffers; base NULL only counts. */
static void *cut(unsigned char *base, uint64_t *at, uint64_t n, uint64_t size) {
    uint64_t from = (*at + 127) / 128 * 128;
    *at = from + n * size;
    return base == NULL ? NULL : base + from;
}

static uint64_t larger(uint64_t a, uint64_t b) {
    return a > b ? a : b;
}

static void place_mixture(struct cpu *c, unsigned char *base, uint64_t *at) {
    const struct krn_config *m = &c->model;
    struct cpu_mixture *mix = &c->mix;
    uint64_t rows = c->limits.rows, slots = rows * m->experts_used, wide = rows * c->ld[KRN_BUF_X];
    mix->chosen = cut(base, at, slots, sizeof *mix->chosen);
    mix->weight = cut(base, at, slots, sizeof *mix->weight);
    mix->first = cut(base, at, m->experts + 1, sizeof *mix->first);
    mix->active = cut(base, at, m->experts, sizeof *mix->active);
    mix->n_active = cut(base, at, 1, sizeof *mix->n_active);
    mix->row = cut(base, at, slots, sizeof *mix->row);
    mix->slot_weight = cut(base, at, slots, sizeof *mix->slot_weight);
    mix->input = cut(base, at, slots * c->ld[KRN_BUF_H], sizeof *mix->input);
    uint32_t segments = c->config.profile.virtual_ranks / c->config.world;
    mix->inner_bytes = c->matmul.row_bytes(m->ffn / c->config.profile.virtual_ranks);
    mix->rounded = cut(base, at, slots, c->ld_rounded);
    mix->inner = cut(base, at, slots * segments, mix->inner_bytes);
    mix->one = cut(base, at, wide, sizeof *mix->one);
    for (uint32_t s = 1, i = 0; s <= segments; s *= 2, i++)
        mix->sums[i] =
            i == 0 && c->partial != NULL ? c->partial : cut(base, at, wide, sizeof(float));
}

/* Lays out all row buffers and tables behind base; returns their bytes. */
static uint64_t place_buffers(struct cpu *c, unsigned char *base) {
    const struct gpu_limits *l = &c->limits;
    uint32_t d = c->model.head_dim, world = c->config.world;
    uint64_t at = 0, rows = l->rows, both = rows > l->draws ? rows : l->draws;
    uint32_t q = c->heads * d, kv = c->kv_heads * d, ffn = krn_dense_width(&c->model) / world;
    uint32_t width[KRN_BUFS] = {[KRN_BUF_X] = c->model.hidden,
                                [KRN_BUF_H] = c->model.hidden,
                                [KRN_BUF_Q] = q,
                                [KRN_BUF_K] = kv,
                                [KRN_BUF_V] = kv,
                                [KRN_BUF_A] = q,
                                [KRN_BUF_G] = ffn,
                                [KRN_BUF_U] = ffn,
                                [KRN_BUF_R] = c->model.experts,
                                [KRN_BUF_L] = (uint32_t)c->logits_stride * world};
    c->mix.ld_inner = (c->model.ffn / world + KRN_BLOCK - 1) / KRN_BLOCK * KRN_BLOCK;
    for (int b = KRN_BUF_X; b < KRN_BUFS; b++) {
        c->ld[b] = (width[b] + KRN_BLOCK - 1) / KRN_BLOCK * KRN_BLOCK;
        uint64_t n = b == KRN_BUF_L ? CPU_LOGITS_ROWS : b == KRN_BUF_H ? both : rows;
        uint64_t floats = n * c->ld[b];
        if (c->model.experts != 0 && (b == KRN_BUF_G || b == KRN_BUF_U))
            floats = larger(floats, rows * c->model.experts_used * c->mix.ld_inner);
        c->buf[b] = cut(base, &at, floats, sizeof(float));
    }
    uint64_t widest = larger(larger(c->model.hidden, q), larger(ffn, c->model.ffn / world));
    c->ld_rounded = c->matmul.row_bytes((uint32_t)widest);
    c->rounded = cut(base, &at, both, c->ld_rounded);
    if (world > 1) {
        c->partial = cut(base, &at, rows * c->ld[KRN_BUF_X], sizeof(float));
        c->logits_part = cut(base, &at, CPU_LOGITS_ROWS * c->logits_stride, sizeof(float));
    }
    if (c->model.experts != 0)
        place_mixture(c, base, &at);
    c->token = cut(base, &at, rows, sizeof *c->token);
    c->position = cut(base, &at, rows, sizeof *c->position);
    c->spans = cut(base, &at, rows, sizeof *c->spans);
    c->bad = cut(base, &at, rows, 1);
    c->kept = cut(base, &at, l->draws, sizeof *c->kept);
    c->changed = cut(base, &at, l->draws, 1);
    for (int i = 0; i < (c->model.has_local_rope ? 2 : 1); i++)
        c->rope[i] = cut(base, &at, (uint64_t)c->model.context * d, sizeof(float));
    return at;
}

static enum status open_memory(struct cpu *c, struct status_note *note) {
    c->buffers_bytes = place_buffers(c, NULL);
    c->buffers = map_memory(c->buffers_bytes);
    c->pool_bytes = c->config.n_pages * c->device.page_bytes;
    c->pool = map_memory(c->pool_bytes);
    if (c->buffers == NULL || c->pool == NULL)
        return status_say(note, STATUS_NO_MEMORY, "no memory for %u KV pages of %llu bytes",
                          c->config.n_pages, (unsigned long long)c->device.page_bytes);
    place_buffers(c, c->buffers);
    krn_rope_table(&c->model.rope, c->model.head_dim, c->model.context,
                   (float *)(uintptr_t)c->rope[0]);
    if (c->model.has_local_rope)
        krn_rope_table(&c->model.local_rope, c->model.head_dim, c->model.context,
                       (float *)(uintptr_t)c->rope[1]);
    c->kv = (struct krn_kv){.pool = c->pool,
                            .page_bytes = c->device.page_bytes,
                            .page_tokens = c->config.page_tokens,
                            .kv_heads = c->kv_heads,
                            .head_dim = c->model.head_dim};
    return STATUS_OK;
}

static enum status open_team(struct cpu *c, struct status_note *note) {
    uint32_t threads = c->config.threads, cores = gpu_team_cores();
    /* Ranks of one host share its cores. */
    if (threads == 0 && c->config.world > 1)
        threads = cores > c->config.world ? cores / c->config.world : 1;
    size_t at = KRN_SCRATCH_BYTES;
    c->scratch_draw = at;
    at += (krn_draw_scratch(c->model.vocab) + 63) / 64 * 64;
    c->scratch_rows = at;
    at += CPU_PRIVATE_FLOATS * sizeof(float);
    c->scratch_rounded = at;
    at += CPU_PRIVATE_BYTES > c->ld_rounded ? CPU_PRIVATE_BYTES : c->ld_rounded;
    c->scratch_counts = at;
    at += ((size_t)c->limits.counts + GPU_WINDOW_MAX) * sizeof(struct krn_count);
    return gpu_team_open(threads, at, &c->team, note);
}

enum status gpu_device_cpu_open(const struct gpu_device_config *config, struct gpu_device **out,
                                struct status_note *note) {
    TRY(gpu_device_check(config, "CPU", note));
    const struct krn_config *m = &config->net->model->config;
    const struct krn_rowfn *fn = krn_rowfn_pick(config->isa);
    if (fn == NULL)
        return status_say(note, STATUS_UNSUPPORTED,
                          "this machine cannot run the instruction set %s",
                          config->isa != NULL ? config->isa : "asked for");
    struct krn_matmul matmul;
    struct krn_attention attention;
    TRY(krn_matmul_open(&config->profile, fn, &matmul, note));
    TRY(krn_attention_open(&config->profile, fn, &attention, note));
    struct cpu *c = calloc(1, sizeof *c);
    if (c == NULL)
        return status_say(note, STATUS_NO_MEMORY, "no memory for the CPU device");
    c->matmul = matmul;
    c->attention = attention;
    c->device.ops = &cpu_ops;
    c->device.inline_step = true;
    c->config = *config;
    c->limits = config->limits;
    c->model = *m;
    c->fn = fn;
    c->failed_number = UINT64_MAX - 1; /* no plan follows it */
    c->heads = m->heads / config->world;
    c->kv_heads = gpu_shard_kv_heads(m, config->world);
    uint32_t blocks = (m->vocab + KRN_BLOCK - 1) / KRN_BLOCK;
    c->logits_stride = (size_t)((blocks + config->world - 1) / config->world) * KRN_BLOCK;
    c->layer_bytes =
        gpu_page_bytes(m, &config->profile, config->page_tokens, config->rank, config->world) /
        m->layers;
    c->device.page_bytes = c->layer_bytes * m->layers;
    enum status status = open_memory(c, note);
    if (status == STATUS_OK)
        status = open_team(c, note);
    if (status == STATUS_OK)
        status = gpu_cpu_pack(c, note);
    if (status != STATUS_OK) {
        cpu_close(&c->device);
        return status;
    }
    c->device.weights_bytes = c->weights_bytes;
    c->device.bytes_used = c->weights_bytes + c->buffers_bytes + c->pool_bytes;
    *out = &c->device;
    return STATUS_OK;
}

void gpu_device_cpu_perturb(struct gpu_device *d, uint32_t kind) {
    struct cpu *c = (struct cpu *)d;
    CHECK(d->ops == &cpu_ops && kind <= GPU_PERTURB_TROUBLE);
    if (c->perturb_row == NULL)
        c->perturb_row = calloc(c->model.hidden + c->logits_stride, sizeof(float));
    CHECK(c->perturb_row != NULL);
    c->perturb = kind;
}

void gpu_device_cpu_poison(struct gpu_device *d, bool on) {
    CHECK(d->ops == &cpu_ops);
    ((struct cpu *)d)->poison = on;
}

uint32_t gpu_device_cpu_threads(const struct gpu_device *d) {
    CHECK(d->ops == &cpu_ops);
    return gpu_team_size(((const struct cpu *)d)->team);
}
