/* SPDX-License-Identifier: Apache-2.0
 * The CUDA device's life: what it can run, its driver objects, its memory, and all of it given
 * back. Memory is counted first, so that a device that is too small says what was needed and what
 * was free.
 */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "actors/check.h"
#include "actors/port.h"
#include "gpu/blocks_cuda.h"
#include "gpu/exchange_cuda.h"
#include "gpu/experts_cuda.h"
#include "gpu/graphs_cuda.h"
#include "gpu/pages_cuda.h"
#include "gpu/selftest_cuda.h"
#include "kernels/cuda/product_blocks.h"

static const uint64_t CLOSE_NS = 10000000000; /* no step takes as long */
enum { CLOSE_AGAIN_NS = 100000 };

/* Machine code runs on drivers of its toolkit's major version and later. */
static uint32_t driver_least(void) {
    return krn_cuda_toolkit / 1000 * 1000;
}

/* What this device computes; anything else is refused with what it is. */
static enum status check_model(const struct krn_config *m, const struct krn_profile *p,
                               struct status_note *note) {
    bool portable = strncmp(p->name, "portable", 8) == 0 && p->act == KRN_F32 && p->kv == KRN_F32;
    bool bf16 = strncmp(p->name, "cuda-bf16-sm90", 14) == 0 && p->act == KRN_BF16;
    if (!portable && !bf16)
        return status_say(note, STATUS_UNSUPPORTED,
                          "the CUDA device runs the profiles portable and cuda-bf16-sm90, not %s",
                          p->name);
    if (m->head_dim % KRN_LANES != 0 || m->head_dim > KRN_HEAD_MAX)
        return status_say(note, STATUS_UNSUPPORTED,
                          "heads of %u: the CUDA device runs multiples of %d up to %d", m->head_dim,
                          KRN_LANES, KRN_HEAD_MAX);
    if (m->vocab < KRN_CUDA_VOCAB_MIN)
        return status_say(note, STATUS_UNSUPPORTED,
                          "a vocabulary of %u: the CUDA device needs %d or more", m->vocab,
                          KRN_CUDA_VOCAB_MIN);
    return STATUS_OK;
}

/* What the tensor cores' kernels must know, and whether the profile is this GPU's. */
static enum status open_machine(struct cuda *c, struct status_note *note) {
    static const int attributes[] = {GPU_CU_ATTR_MULTIPROCESSORS, GPU_CU_ATTR_MAJOR,
                                     GPU_CU_ATTR_MINOR, GPU_CU_ATTR_SHARED_OPTIN};
    int value[4] = {0};
    for (int i = 0; i < 4; i++)
        TRY(gpu_cuda_said(c, c->driver->device_attribute(&value[i], attributes[i], c->ordinal),
                          "asking what the GPU has", note));
    c->machine = (struct krn_cuda_machine){.sms = (uint32_t)value[0],
                                           .major = (uint32_t)value[1],
                                           .minor = (uint32_t)value[2],
                                           .shared_max = (uint32_t)value[3]};
    if (c->bf16 && (value[1] != 9 || value[2] != 0))
        return status_say(note, STATUS_UNSUPPORTED,
                          "profile %s is of GPUs of compute capability 9.0; %s has %d.%d",
                          c->config.profile.name, c->name, value[1], value[2]);
    return STATUS_OK;
}

/* Ranks of one process take the machine's GPUs in turn. */
static enum status open_driver(struct cuda *c, const struct gpu_device_cuda_over *over,
                               struct status_note *note) {
    const struct gpu_driver *d = over->driver;
    int n = 0, device = 0;
    TRY(gpu_cuda_said(c, d->device_count(&n), "counting GPUs", note));
    if (n < 1)
        return status_say(note, STATUS_UNSUPPORTED, "the driver sees no GPU");
    gpu_cu_t r = d->device_get(&device, (int)(c->config.rank % (uint32_t)n));
    if (r == GPU_CUDA_SUCCESS)
        r = d->device_name(c->name, (int)sizeof c->name, device);
    if (r == GPU_CUDA_SUCCESS)
        r = d->context_retain(&c->context, device);
    TRY(gpu_cuda_said(c, r, "taking the GPU", note));
    c->ordinal = device;
    c->retained = true;
    gpu_cuda_here(c);
    struct gpu_launcher_config launcher = {.driver = d,
                                           .device = device,
                                           .images = over->images,
                                           .n_images = over->n_images,
                                           .work = &c->work,
                                           .each = over->each};
    TRY(gpu_launcher_open(&launcher, &c->launcher, note));
    for (int i = 0; i < GPU_STREAMS && r == GPU_CUDA_SUCCESS; i++)
        r = d->stream_create(&c->streams[i], GPU_CU_STREAM_OWN, 0);
    for (int i = 0; i < CUDA_EVENTS && r == GPU_CUDA_SUCCESS; i++)
        r = d->event_create(&c->marks[i], GPU_CU_EVENT_UNTIMED);
    for (int i = 0; i < CUDA_STEPS && r == GPU_CUDA_SUCCESS; i++)
        r = d->event_create(&c->steps[i].done, GPU_CU_EVENT_UNTIMED);
    return gpu_cuda_said(c, r, "making streams and events", note);
}

/* The next part of the buffers; with base 0 only counts. */
static gpu_cu_ptr_t cut(gpu_cu_ptr_t base, uint64_t *at, uint64_t n, uint64_t size) {
    uint64_t from = (*at + 255) / 256 * 256;
    *at = from + n * size;
    return base + from;
}

static void place_answer(struct cuda *c) {
    const struct gpu_limits *l = &c->limits;
    uint64_t at = 0;
    c->at.times = cut(0, &at, 2, sizeof(uint64_t));
    c->at.bad_row = cut(0, &at, l->seqs, sizeof(uint32_t));
    c->at.drawn = cut(0, &at, l->draws, sizeof(struct krn_drawn));
    c->at.top = cut(0, &at, l->draws * (uint64_t)KRN_TOP_MAX, sizeof(struct krn_top));
    c->at.kept = cut(0, &at, (uint64_t)l->kept_logits * c->model.vocab, sizeof(float));
    c->at.bytes = at;
}

/* Lays out all buffers behind base; returns their bytes. */
static uint64_t place_buffers(struct cuda *c, gpu_cu_ptr_t base) {
    const struct gpu_limits *l = &c->limits;
    uint32_t d = c->model.head_dim, world = c->config.world;
    uint64_t at = 0, rows = l->rows, both = rows > l->draws ? rows : l->draws;
    uint32_t q = c->heads * d, kv = c->kv_heads * d, ffn = krn_dense_width(&c->model) / world;
    uint64_t logits = gpu_cuda_round_up(l->draws); /* ranks exchange all rows of a shape */
    logits = logits < CUDA_LOGITS_ROWS ? logits : CUDA_LOGITS_ROWS;
    if (c->bf16) { /* products write all rows of a shape */
        rows = both = (gpu_cuda_round_up((uint32_t)both) + 63) / 64 * 64;
        logits = CUDA_LOGITS_ROWS;
    }
    uint32_t width[KRN_BUFS] = {[KRN_BUF_X] = c->model.hidden,
                                [KRN_BUF_H] = c->model.hidden,
                                [KRN_BUF_Q] = q,
                                [KRN_BUF_K] = kv,
                                [KRN_BUF_V] = kv,
                                [KRN_BUF_A] = q,
                                [KRN_BUF_G] = ffn,
                                [KRN_BUF_U] = ffn,
                                [KRN_BUF_R] = c->model.experts,
                                [KRN_BUF_L] = c->logits_stride * world};
    if (c->bf16) { /* one product leaves queries, keys and values side by side */
        width[KRN_BUF_Q] = q + 2 * kv;
        width[KRN_BUF_K] = width[KRN_BUF_V] = 0;
    }
    for (int b = KRN_BUF_X; b < KRN_BUFS; b++) {
        c->ld[b] = (width[b] + KRN_BLOCK - 1) / KRN_BLOCK * KRN_BLOCK;
        uint64_t n = b == KRN_BUF_L ? logits : b == KRN_BUF_H ? both : rows;
        c->buf[b] = cut(base, &at, n * c->ld[b], sizeof(float));
    }
    if (c->bf16) {
        c->buf[KRN_BUF_K] = c->buf[KRN_BUF_Q] + q * sizeof(float);
        c->buf[KRN_BUF_V] = c->buf[KRN_BUF_K] + kv * sizeof(float);
        c->ld[KRN_BUF_K] = c->ld[KRN_BUF_V] = c->ld[KRN_BUF_Q];
    }
    c->edited = cut(base, &at, logits * c->ld[KRN_BUF_L], sizeof(float));
    c->scaled = cut(base, &at, logits * c->ld[KRN_BUF_L], sizeof(float));
    c->best = cut(base, &at, logits * KRN_CUDA_DRAW_PARTS, sizeof(uint64_t));
    if (c->config.exchange != NULL) {
        at = gpu_cuda_exchange_place(c, base, at, rows, logits);
    } else if (world > 1) {
        c->partial = cut(base, &at, rows * c->ld[KRN_BUF_X], sizeof(float));
        c->logits_part = cut(base, &at, logits * c->logits_stride, sizeof(float));
    }
    c->tokens = cut(base, &at, rows, sizeof(uint32_t));
    c->bad = cut(base, &at, rows, sizeof(uint32_t));
    c->last = cut(base, &at, GPU_SLOTS_MAX, sizeof(uint32_t));
    c->secret = cut(base, &at, KRN_CUDA_SECRET, 1);
    c->image = cut(base, &at, c->image_bytes, 1);
    c->answer = cut(base, &at, c->at.bytes, 1);
    for (int i = 0; i < (c->model.has_local_rope ? 2 : 1); i++)
        c->rope[i] = cut(base, &at, (uint64_t)c->model.context * d, sizeof(float));
    at = gpu_cuda_place_experts(c, base, at);
    return c->bf16 ? gpu_cuda_place_bf16(c, base, at) : at;
}

/* What the host carries between ranks at a time, in floats; 0 where it carries nothing. */
static uint64_t exchange_floats(const struct cuda *c) {
    uint64_t rows = (uint64_t)c->limits.rows * c->ld[KRN_BUF_X];
    uint64_t logits = (uint64_t)CUDA_LOGITS_ROWS * c->logits_stride * (1 + c->config.world);
    return c->config.world == 1 || c->config.exchange != NULL ? 0 : rows > logits ? rows : logits;
}

static enum status open_memory(struct cuda *c, struct status_note *note) {
    const struct gpu_driver *d = c->driver;
    size_t free_bytes = 0, total = 0;
    c->weights_bytes = gpu_cuda_weights_bytes(c, note);
    if (c->weights_bytes == 0)
        return STATUS_UNSUPPORTED;
    TRY(gpu_cuda_weights_settle(c, note));
    c->buffers_bytes = place_buffers(c, 0);
    c->pool_bytes = c->config.n_pages * c->device.page_bytes;
    uint64_t needed = c->weights_bytes + c->buffers_bytes + c->pool_bytes;
    TRY(gpu_cuda_said(c, d->memory_info(&free_bytes, &total), "asking for free memory", note));
    const struct gpu_arena_config arena = {
        .driver = d, .device = c->ordinal, .ranges_max = 64, .chunks_max = 16};
    TRY(gpu_arena_open(&arena, &c->arena, note));
    const uint64_t bytes[CUDA_MEMORIES] = {c->weights_bytes, c->buffers_bytes, c->pool_bytes};
    static const char *const what[CUDA_MEMORIES] = {"weights", "buffers", "KV pages"};
    enum status status = needed > free_bytes ? STATUS_NO_MEMORY : STATUS_OK;
    for (int i = 0; i < CUDA_MEMORIES && status == STATUS_OK; i++)
        status = gpu_arena_alloc(c->arena, bytes[i], what[i], &c->memory[i], note);
    if (status == STATUS_NO_MEMORY)
        return status_say(
            note, STATUS_NO_MEMORY,
            "%s: weights need %llu MiB, %u KV pages %llu and buffers %llu; %llu of "
            "%llu MiB are free: take a smaller --kv-bytes, --context or --lanes%s",
            c->name, (unsigned long long)(c->weights_bytes >> 20), c->config.n_pages,
            (unsigned long long)(c->pool_bytes >> 20), (unsigned long long)(c->buffers_bytes >> 20),
            (unsigned long long)(free_bytes >> 20), (unsigned long long)(total >> 20),
            c->config.weights == GPU_WEIGHTS_WIDE ? ", or leave --weights wide out" : "");
    if (status != STATUS_OK)
        return status;
    c->weights = gpu_arena_at(c->arena, c->memory[CUDA_WEIGHTS]);
    c->buffers = gpu_arena_at(c->arena, c->memory[CUDA_BUFFERS]);
    c->pool = gpu_arena_at(c->arena, c->memory[CUDA_POOL]);
    place_buffers(c, c->buffers);
    c->kv = (struct krn_cuda_kv){.pool = c->pool,
                                 .page_bytes = c->device.page_bytes,
                                 .page_tokens = c->config.page_tokens,
                                 .kv_heads = c->kv_heads,
                                 .head_dim = c->model.head_dim};
    return STATUS_OK;
}

/* Images, answers, staging and exchange: one pinned allocation. */
static enum status open_pinned(struct cuda *c, struct status_note *note) {
    uint64_t image = (c->image_bytes + 4095ULL) / 4096 * 4096;
    uint64_t answer = (c->at.bytes + 4095) / 4096 * 4096;
    uint64_t steps = CUDA_STEPS * (image + answer), floats = exchange_floats(c);
    void *p = NULL;
    gpu_cu_t r = c->driver->host_alloc(&p, steps + CUDA_STAGING + floats * sizeof(float), 0);
    if (r == GPU_CUDA_ERROR_OUT_OF_MEMORY)
        return status_say(note, STATUS_NO_MEMORY, "no %llu MiB of pinned memory for the GPU",
                          (unsigned long long)((steps + CUDA_STAGING) >> 20));
    TRY(gpu_cuda_said(c, r, "pinning memory", note));
    c->pinned = p;
    for (int i = 0; i < CUDA_STEPS; i++) {
        c->steps[i].image = c->pinned + (uint64_t)i * (image + answer);
        c->steps[i].answer = c->steps[i].image + image;
    }
    c->staging = c->pinned + steps;
    c->exchange = (float *)(void *)(c->staging + CUDA_STAGING);
    return STATUS_OK;
}

static enum status fill_table(struct cuda *c, const struct krn_rope *rope, gpu_cu_ptr_t to,
                              struct status_note *note) {
    uint64_t n = (uint64_t)c->model.context * c->model.head_dim * sizeof(float);
    float *table = malloc(n);
    if (table == NULL)
        return status_say(note, STATUS_NO_MEMORY, "no memory for a rotation table");
    krn_rope_table(rope, c->model.head_dim, c->model.context, table);
    gpu_cu_t r = c->driver->copy_in(to, table, n, c->streams[GPU_STREAM_IN]);
    if (r == GPU_CUDA_SUCCESS)
        r = c->driver->stream_synchronize(c->streams[GPU_STREAM_IN]);
    free(table);
    return gpu_cuda_said(c, r, "carrying a rotation table", note);
}

/* What kernels read that no step writes; pages and slots begin as zeros. */
static enum status fill_memory(struct cuda *c, struct status_note *note) {
    struct gpu_cu_stream *in = c->streams[GPU_STREAM_IN];
    TRY(fill_table(c, &c->model.rope, c->rope[0], note));
    if (c->model.has_local_rope)
        TRY(fill_table(c, &c->model.local_rope, c->rope[1], note));
    memcpy(c->staging, XXH3_kSecret, KRN_CUDA_SECRET);
    gpu_cu_t r = c->driver->copy_in(c->secret, c->staging, KRN_CUDA_SECRET, in);
    if (r == GPU_CUDA_SUCCESS)
        r = c->driver->fill8(c->last, 0, GPU_SLOTS_MAX * sizeof(uint32_t), in);
    if (r == GPU_CUDA_SUCCESS)
        r = c->driver->fill8(c->pool, 0, c->pool_bytes, in);
    /* Packed rows behind K, and attention's counters, begin as zeros. */
    if (r == GPU_CUDA_SUCCESS && c->bf16)
        r = c->driver->fill8(c->packed[KRN_BUF_H], 0,
                             c->buffers + c->buffers_bytes - c->packed[KRN_BUF_H], in);
    if (r == GPU_CUDA_SUCCESS)
        r = c->driver->stream_synchronize(in);
    return gpu_cuda_said(c, r, "filling the GPU's memory", note);
}

/* Until all streams are over, or have failed; false when one still runs at the deadline. */
static bool wait_for_streams(const struct cuda *c) {
    const struct timespec pause = {.tv_nsec = CLOSE_AGAIN_NS};
    uint64_t begin_ns = act_port_now_ns();
    for (int i = 0; i < GPU_STREAMS; i++)
        while (c->streams[i] != NULL &&
               gpu_result_kind(c->driver->stream_query(c->streams[i])) == GPU_FAULT_LATER) {
            if (act_port_now_ns() - begin_ns > c->close_ns)
                return false;
            nanosleep(&pause, NULL);
        }
    return true;
}

/* A GPU that hangs keeps what it may still write to: nothing is given back, and the process ends
 * with it. */
void gpu_cuda_close(struct gpu_device *device) {
    struct cuda *c = (struct cuda *)device;
    const struct gpu_driver *d = c->driver;
    if (c->retained) {
        gpu_cuda_here(c);
        gpu_cuda_leave(c);
        if (!wait_for_streams(c))
            return;
        gpu_cuda_graphs_close(c);
        for (int i = 0; i < GPU_STREAMS; i++)
            if (c->streams[i] != NULL)
                d->stream_destroy(c->streams[i]);
        for (int i = 0; i < CUDA_EVENTS; i++)
            if (c->marks[i] != NULL)
                d->event_destroy(c->marks[i]);
        for (int i = 0; i < CUDA_STEPS; i++) {
            if (c->steps[i].done != NULL)
                d->event_destroy(c->steps[i].done);
        }
        if (c->host != NULL)
            d->host_unregister(c->host);
        gpu_launcher_close(c->launcher);
        gpu_arena_close(c->arena);
        if (c->pinned != NULL)
            d->host_free(c->pinned);
        d->context_release(c->ordinal);
    }
    free(c->stages);
    free(c);
}

/* Once for each GPU of a process. Devices open on one thread, at start. */
static enum status test_cores(struct cuda *c, struct status_note *note) {
    static const struct gpu_driver *driver;
    static uint64_t passed; /* a bit a GPU */
    uint64_t bit = 1ull << c->ordinal % 64;
    if (driver != c->driver)
        passed = 0;
    driver = c->driver;
    if (!c->bf16 || (passed & bit) != 0)
        return STATUS_OK;
    TRY(gpu_cuda_selftest(c, note));
    passed |= bit;
    return STATUS_OK;
}

static enum status open_parts(struct cuda *c, const struct gpu_device_cuda_over *over,
                              struct status_note *note) {
    c->stages = calloc(c->config.net->n_ops, sizeof *c->stages);
    if (c->stages == NULL)
        return status_say(note, STATUS_NO_MEMORY, "no memory for the stages of a step");
    place_answer(c);
    TRY(open_driver(c, over, note));
    TRY(open_machine(c, note));
    TRY(open_memory(c, note));
    TRY(open_pinned(c, note));
    TRY(fill_memory(c, note));
    TRY(test_cores(c, note));
    TRY(gpu_cuda_pack(c, note));
    return gpu_cuda_graphs_open(c, over->each, note);
}

enum status gpu_device_cuda_open_over(const struct gpu_device_config *config,
                                      const struct gpu_device_cuda_over *over,
                                      struct gpu_device **out, struct status_note *note) {
    TRY(check_model(&config->net->model->config, &config->profile, note));
    TRY(gpu_device_check(config, "CUDA", note));
    const struct krn_config *m = &config->net->model->config;
    struct cuda *c = calloc(1, sizeof *c);
    if (c == NULL)
        return status_say(note, STATUS_NO_MEMORY, "no memory for the CUDA device");
    c->device.ops = &gpu_cuda_ops;
    c->config = *config;
    c->limits = config->limits;
    c->model = *m;
    c->driver = over->driver;
    c->blocks.rows = over->blocks_rows != 0 ? over->blocks_rows : KRN_BLOCKS_ROWS;
    c->blocks.most = over->widened != 0 ? over->widened : CUDA_WIDENED;
    c->close_ns = over->close_ns != 0 ? over->close_ns : CLOSE_NS;
    c->bf16 = krn_profile_gpu(&config->profile);
    c->failed_number = CUDA_NO_PLAN;
    c->heads = m->heads / config->world;
    c->kv_heads = gpu_shard_kv_heads(m, config->world);
    uint32_t blocks = (m->vocab + KRN_BLOCK - 1) / KRN_BLOCK;
    c->logits_stride = (blocks + config->world - 1) / config->world * KRN_BLOCK;
    c->layer_bytes =
        gpu_page_bytes(m, &config->profile, config->page_tokens, config->rank, config->world) /
        m->layers;
    c->device.page_bytes = c->layer_bytes * m->layers;
    c->image_bytes = gpu_cuda_image_bytes(&c->limits, c->bf16);
    enum status status = open_parts(c, over, note);
    if (status != STATUS_OK) {
        gpu_cuda_close(&c->device);
        return status;
    }
    c->device.bytes_used = c->weights_bytes + c->buffers_bytes + c->pool_bytes;
    *out = &c->device;
    return STATUS_OK;
}

/* The driver, whether this build has kernels, and what the first GPU has. */
enum status gpu_device_cuda_probe(const struct krn_config *model, const struct krn_profile *profile,
                                  struct gpu_cuda_found *out, struct status_note *note) {
    const struct gpu_driver *d;
    struct gpu_cu_context *context;
    size_t free_bytes = 0, total = 0;
    int device = 0, n = 0;
    TRY(check_model(model, profile, note));
    if (krn_cuda_images_n == 0)
        return status_say(note, STATUS_UNSUPPORTED,
                          "this build has no kernels for a GPU: configure it where nvcc is");
    TRY(gpu_driver_open(driver_least(), &d, note));
    gpu_cu_t r = d->device_count(&n);
    if (r == GPU_CUDA_SUCCESS && n < 1)
        return status_say(note, STATUS_UNSUPPORTED, "the driver sees no GPU");
    if (r == GPU_CUDA_SUCCESS)
        r = d->device_get(&device, 0);
    if (r == GPU_CUDA_SUCCESS)
        r = d->device_name(out->name, (int)sizeof out->name, device);
    if (r == GPU_CUDA_SUCCESS)
        r = d->context_retain(&context, device);
    TRY(gpu_fault_say(note, d, r, NULL, "looking at the GPU"));
    r = d->context_set(context);
    if (r == GPU_CUDA_SUCCESS)
        r = d->memory_info(&free_bytes, &total);
    d->context_set(NULL);
    d->context_release(device);
    out->n_gpus = (uint32_t)n;
    out->free_bytes = free_bytes;
    out->total_bytes = total;
    out->driver_version = d->driver_version;
    return gpu_fault_say(note, d, r, NULL, "asking for the GPU's free memory");
}

enum status gpu_device_cuda_open(const struct gpu_device_config *config, struct gpu_device **out,
                                 struct status_note *note) {
    const char *each = getenv("ROUNDHOUSE_CUDA_EACH");
    struct gpu_device_cuda_over over = {.images = krn_cuda_images,
                                        .n_images = krn_cuda_images_n,
                                        .each = each != NULL && strcmp(each, "1") == 0};
    TRY(gpu_driver_open(driver_least(), &over.driver, note));
    return gpu_device_cuda_open_over(config, &over, out, note);
}
