/* SPDX-License-Identifier: Apache-2.0
 * Row functions over a launcher.
 */
#include "tests/cuda/rowfn_cuda.h"

#include <stdlib.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "actors/check.h"
#include "kernels/cuda/attend.h"
#include "kernels/cuda/draw.h"
#include "kernels/cuda/embed.h"
#include "kernels/cuda/fill.h"
#include "kernels/cuda/final.h"
#include "kernels/cuda/gate.h"
#include "kernels/cuda/norm.h"
#include "kernels/cuda/pages.h"
#include "kernels/cuda/product.h"
#include "kernels/cuda/sum.h"
#include "tests/cuda/emulate.h"

enum { OPERANDS_MAX = 16 };

static const struct gpu_driver *driver;
static struct gpu_launcher *launcher;
static struct gpu_cu_stream *stream;
static gpu_cu_ptr_t operands[OPERANDS_MAX]; /* each an allocation: a checker sees its ends */
static uint32_t used;
static char name[128];

static void well(gpu_cu_t result) {
    struct status_note note;
    if (gpu_fault_say(&note, driver, result, NULL, "a row function's test") != STATUS_OK)
        check_failed(__FILE__, __LINE__, note.text);
}

/* Operands live until the next row function. */
static void begin(void) {
    while (used > 0)
        well(driver->memory_free(operands[--used]));
}
static gpu_cu_ptr_t room(uint64_t bytes) {
    CHECK(used < OPERANDS_MAX);
    well(driver->memory_alloc(&operands[used], bytes > 0 ? bytes : 4));
    return operands[used++];
}
static gpu_cu_ptr_t put(const void *from, uint64_t bytes) {
    gpu_cu_ptr_t p = room(bytes);
    if (bytes > 0)
        well(driver->copy_in(p, from, bytes, stream));
    return p;
}
static void get(void *to, gpu_cu_ptr_t from, uint64_t bytes) {
    well(driver->copy_out(to, from, bytes, stream));
    well(driver->stream_synchronize(stream));
}
static void launch(const struct krn_cuda_call *call) {
    struct status_note note;
    if (gpu_launch(launcher, stream, call, &note) != STATUS_OK)
        check_failed(__FILE__, __LINE__, note.text);
}

/* An image of one or several rows at consecutive positions, one seq, one draw. */
struct image {
    struct krn_cuda_step head;
    struct krn_cuda_row rows[KRN_SPAN_ROWS];
    struct krn_cuda_drawing draw;
    uint32_t pages[64];
};

static struct image image_of(uint32_t n_rows, uint32_t token, uint32_t pos) {
    struct image m = {.head = {.n_rows = n_rows,
                               .n_draws = 1,
                               .n_seqs = 1,
                               .nan_row = KRN_CUDA_NONE,
                               .off_rows = offsetof(struct image, rows),
                               .off_draws = offsetof(struct image, draw),
                               .off_pages = offsetof(struct image, pages)}};
    for (uint32_t i = 0; i < n_rows; i++)
        m.rows[i] = (struct krn_cuda_row){.token = token, .pos = pos + i};
    return m;
}

/* A blocked format as the device packs it: its exact f32 values, in the caller's memory. */
static struct krn_packed plain(const struct krn_packed *w, float **memory) {
    *memory = NULL;
    if (w->dtype < KRN_DTYPES)
        return *w;
    struct krn_packed p = *w;
    p.dtype = KRN_F32;
    p.bytes = krn_packed_bytes(KRN_F32, w->n, w->k);
    float *out = calloc(1, p.bytes), *row = malloc(w->k * sizeof *row);
    CHECK(out != NULL && row != NULL);
    for (uint32_t n = 0; n < w->n; n++) {
        krn_rowfn_pick("scalar")->embed(w, n, row);
        for (uint32_t i = 0; i < w->k; i++)
            out[((size_t)(n / KRN_BLOCK) * w->k + i) * KRN_BLOCK + n % KRN_BLOCK] = row[i];
    }
    free(row);
    p.data = *memory = out;
    return p;
}

static void cuda_embed(const struct krn_packed *stored, uint32_t token, float *y) {
    float *memory;
    const struct krn_packed copy = plain(stored, &memory), *w = &copy;
    struct image m = image_of(1, token, 0);
    begin();
    struct krn_cuda_embed a = {.step = put(&m, sizeof m),
                               .tokens = room(4),
                               .w = put(w->data, w->bytes),
                               .y = room(4 * (uint64_t)w->k),
                               .dtype = w->dtype,
                               .k = w->k,
                               .ldy = w->k,
                               .scale = 1};
    struct krn_cuda_call call;
    krn_cuda_embed_call(&a, 2, &call); /* a row more than there is */
    launch(&call);
    get(y, a.y, 4 * (uint64_t)w->k);
    free(memory);
}

/* By way of an embedding: the row as a packed table's first output. */
static void cuda_scale(float *x, float s, uint32_t n) {
    struct image m = image_of(1, 0, 0);
    float table[512 * KRN_BLOCK] = {0};
    CHECK(n <= 512);
    for (uint32_t i = 0; i < n; i++)
        table[i * KRN_BLOCK] = x[i];
    begin();
    struct krn_cuda_embed a = {.step = put(&m, sizeof m),
                               .tokens = room(4),
                               .w = put(table, sizeof table),
                               .y = room(4 * (uint64_t)n),
                               .dtype = KRN_F32,
                               .k = n,
                               .ldy = n,
                               .scale = s};
    struct krn_cuda_call call;
    krn_cuda_embed_call(&a, 1, &call);
    launch(&call);
    get(x, a.y, 4 * (uint64_t)n);
}

static void cuda_norm(const float *x, const float *w, float *y, uint32_t n, float eps) {
    struct image m = image_of(1, 0, 0);
    begin();
    struct krn_cuda_norm a = {.step = put(&m, sizeof m),
                              .x = put(x, 4 * (uint64_t)n),
                              .w = put(w, 4 * (uint64_t)n),
                              .y = room(4 * (uint64_t)n),
                              .n = n,
                              .ldx = n,
                              .ldy = n,
                              .eps = eps};
    struct krn_cuda_call call;
    krn_cuda_norm_call(&a, 1, &call);
    launch(&call);
    get(y, a.y, 4 * (uint64_t)n);
}

static void cuda_add(const float *a, const float *b, float *y, uint32_t n) {
    struct image m = image_of(1, 0, 0);
    begin();
    struct krn_cuda_sum s = {.step = put(&m, sizeof m),
                             .part = put(b, 4 * (uint64_t)n),
                             .y = put(a, 4 * (uint64_t)n),
                             .n = n,
                             .ldp = n,
                             .ldy = n,
                             .add = 1};
    struct krn_cuda_call call;
    krn_cuda_sum_call(&s, 1, &call);
    launch(&call);
    get(y, s.y, 4 * (uint64_t)n);
}

/* All blocks at once; the cut is the kernel's own. */
static void cuda_product(const struct krn_product *p, uint32_t block0, uint32_t block1,
                         void *scratch) {
    (void)scratch;
    float *memory;
    const struct krn_packed copy = plain(p->w, &memory), *w = &copy;
    CHECK(block0 < block1 && block1 <= w->n_blocks);
    uint32_t n0 = block0 * KRN_BLOCK, n1 = block1 * KRN_BLOCK < w->n ? block1 * KRN_BLOCK : w->n;
    uint64_t block_bytes = w->bytes / w->n_blocks;
    begin();
    struct krn_cuda_product a = {
        .count = put(&p->rows, 4),
        .rows = p->rows,
        .x = put(p->x, ((p->rows - 1) * p->ldx + w->k) * sizeof(float)),
        .w = put((const char *)w->data + block0 * block_bytes, (block1 - block0) * block_bytes),
        .y = put(p->y + n0, ((p->rows - 1) * p->ldy + n1 - n0) * sizeof(float)),
        .ldx = (uint32_t)p->ldx,
        .ldy = (uint32_t)p->ldy,
        .n = n1 - n0,
        .k = w->k,
        .segments = p->segments,
        .dtype = w->dtype,
        .add = p->add};
    if (p->bias != NULL)
        a.bias = put(p->bias + n0, (n1 - n0) * sizeof(float));
    struct krn_cuda_call call;
    krn_cuda_product_call(&a, &call);
    launch(&call);
    get(p->y + n0, a.y, ((p->rows - 1) * p->ldy + n1 - n0) * sizeof(float));
    free(memory);
}

static void cuda_rope(float *x, const float *cs, uint32_t head_dim) {
    struct image m = image_of(1, 0, 0);
    begin();
    struct krn_cuda_rope a = {.step = put(&m, sizeof m),
                              .q = put(x, 4 * (uint64_t)head_dim),
                              .angles = put(cs, 4 * (uint64_t)head_dim),
                              .kv = {.head_dim = head_dim},
                              .heads = 1,
                              .ldq = head_dim};
    struct krn_cuda_call call;
    krn_cuda_rope_call(&a, 1, &call);
    launch(&call);
    get(x, a.q, 4 * (uint64_t)head_dim);
}

static struct krn_cuda_kv kv_of(const struct krn_kv *kv, const uint32_t *pages, uint32_t n_pages,
                                uint64_t *bytes) {
    uint32_t most = 0;
    for (uint32_t i = 0; i < n_pages; i++)
        most = pages[i] > most ? pages[i] : most;
    *bytes = (most + (uint64_t)1) * kv->page_bytes;
    return (struct krn_cuda_kv){.pool = put(kv->pool, *bytes),
                                .page_bytes = kv->page_bytes,
                                .layer_off = kv->layer_off,
                                .page_tokens = kv->page_tokens,
                                .kv_heads = kv->kv_heads,
                                .head_dim = kv->head_dim};
}

/* Without rotation; only the one head, so the others' rows are what stands there. */
static void cuda_kv_write(const struct krn_kv *kv, const uint32_t *pages, uint32_t pos,
                          uint32_t head, const float *k, const float *v) {
    struct image m = image_of(1, 0, pos);
    uint32_t n = pos / kv->page_tokens + 1, d = kv->head_dim;
    uint64_t bytes;
    memcpy(m.pages, pages, n * sizeof *pages);
    begin();
    struct krn_cuda_rope a = {.step = put(&m, sizeof m),
                              .k = put(k, 4 * (uint64_t)d),
                              .v = put(v, 4 * (uint64_t)d),
                              .kv = kv_of(kv, pages, n, &bytes),
                              .ldk = d,
                              .ldv = d};
    /* The one head becomes the only one: it begins where it lies. */
    a.kv.kv_heads = 1;
    a.kv.layer_off += (uint64_t)head * kv->page_tokens * 2 * d * sizeof(float);
    struct krn_cuda_call call;
    krn_cuda_rope_call(&a, 1, &call);
    launch(&call);
    get(kv->pool, a.kv.pool, bytes);
}

static void cuda_attend(const struct krn_attend *at, uint32_t unit0, uint32_t unit1,
                        void *scratch) {
    (void)scratch;
    for (uint32_t u = unit0; u < unit1; u++) {
        const struct krn_span *span = &at->spans[u / at->kv.kv_heads];
        uint32_t head = u % at->kv.kv_heads, group = at->heads / at->kv.kv_heads;
        uint32_t width = group * at->kv.head_dim, last = span->first_pos + span->rows - 1;
        struct image m = image_of(span->rows, 0, span->first_pos);
        uint32_t n = last / at->kv.page_tokens + 1;
        uint64_t bytes, all = (span->rows - 1) * at->ldo + width;
        CHECK(n <= 64);
        memcpy(m.pages, span->pages, n * sizeof *m.pages);
        const float *q = at->q + span->first_row * at->ldq + (size_t)head * width;
        float *out = at->out + span->first_row * at->ldo + (size_t)head * width;
        begin();
        struct krn_cuda_attend a = {
            .step = put(&m, sizeof m),
            .q = put(q, ((span->rows - 1) * at->ldq + width) * sizeof(float)),
            .out = put(out, all * sizeof(float)),
            .kv = kv_of(&at->kv, span->pages, n, &bytes),
            .heads = group,
            .ldq = (uint32_t)at->ldq,
            .ldo = (uint32_t)at->ldo,
            .scale = at->scale,
            .window = at->window,
            .segment = at->segment};
        a.kv.kv_heads = 1;
        a.kv.layer_off += (uint64_t)head * at->kv.page_tokens * 2 * at->kv.head_dim * sizeof(float);
        struct krn_cuda_call call;
        krn_cuda_attend_call(&a, span->rows, &call);
        launch(&call);
        get(out, a.out, all * sizeof(float));
    }
}

static void gate(float *g, const float *u, uint32_t n, uint32_t gelu) {
    struct image m = image_of(1, 0, 0);
    begin();
    struct krn_cuda_gate a = {.step = put(&m, sizeof m),
                              .g = put(g, 4 * (uint64_t)n),
                              .u = put(u, 4 * (uint64_t)n),
                              .n = n,
                              .ld = n,
                              .gelu = gelu};
    struct krn_cuda_call call;
    krn_cuda_gate_call(&a, 1, &call);
    launch(&call);
    get(g, a.g, 4 * (uint64_t)n);
}
static void cuda_gate(float *g, const float *u, uint32_t n) {
    gate(g, u, n, 0);
}
static void cuda_gate_gelu(float *g, const float *u, uint32_t n) {
    gate(g, u, n, 1);
}

static bool cuda_finite(const float *x, uint32_t n) {
    struct image m = image_of(1, 0, 0);
    uint32_t bad = 2;
    begin();
    struct krn_cuda_finite a = {.step = put(&m, sizeof m),
                                .x = put(x, 4 * (uint64_t)n),
                                .bad = put(&bad, 4),
                                .n = n,
                                .ldx = n};
    struct krn_cuda_call call;
    krn_cuda_finite_call(&a, 1, &call);
    launch(&call);
    get(&bad, a.bad, 4);
    CHECK(bad < 2);
    return bad == 0;
}

/* The draw's arrays lie behind the image. */
static void cuda_draw(const struct krn_draw *d, struct krn_drawn *out) {
    static unsigned char bytes[1 << 20];
    struct image *m = (struct image *)(void *)bytes;
    uint32_t words = (d->vocab + 31) / 32, at = sizeof *m;
    CHECK(d->pos > 0 && d->pos <= UINT32_MAX);
    *m = image_of(1, 0, (uint32_t)d->pos - 1);
    m->draw = (struct krn_cuda_drawing){.extra_row = 1,
                                        .n_counts = d->n_counts,
                                        .n_bias = d->n_bias,
                                        .mask = d->mask != NULL ? 0 : KRN_CUDA_NONE,
                                        .kept = 0,
                                        .sampling = *d->sampling};
    CHECK(at + d->n_counts * sizeof *d->counts + d->n_bias * sizeof *d->bias + words * 4 <
          sizeof bytes);
    m->head.off_counts = at;
    if (d->n_counts > 0)
        memcpy(bytes + at, d->counts, d->n_counts * sizeof *d->counts);
    m->head.off_bias = at += d->n_counts * (uint32_t)sizeof *d->counts;
    if (d->n_bias > 0)
        memcpy(bytes + at, d->bias, d->n_bias * sizeof *d->bias);
    m->head.off_masks = at += d->n_bias * (uint32_t)sizeof *d->bias;
    if (d->mask != NULL)
        memcpy(bytes + at, d->mask, words * 4);
    at += words * 4;
    uint64_t row = 4 * (uint64_t)d->vocab;
    begin();
    struct krn_cuda_draw a = {.step = put(bytes, at),
                              .tokens = room(4),
                              .logits = put(d->logits, row),
                              .edited = room(row),
                              .scaled = room(row),
                              .best = room(KRN_CUDA_DRAW_PARTS * sizeof(uint64_t)),
                              .drawn = room(sizeof *out),
                              .top = room(KRN_TOP_MAX * sizeof *d->top),
                              .kept = room(row),
                              .secret = put(XXH3_kSecret, KRN_CUDA_SECRET),
                              .vocab = d->vocab,
                              .ld = d->vocab};
    struct krn_cuda_call calls[2];
    krn_cuda_draw_calls(&a, 1, calls);
    launch(&calls[0]);
    launch(&calls[1]);
    get(out, a.drawn, sizeof *out);
    if (d->top != NULL && out->n_top > 0)
        get(d->top, a.top, out->n_top * sizeof *d->top);
    static float kept[1 << 18];
    CHECK(d->vocab <= sizeof kept / sizeof *kept);
    get(kept, a.kept, row);
    CHECK(memcmp(kept, d->logits, row) == 0);
}

static const struct krn_rowfn table = {.isa = "cuda",
                                       .embed = cuda_embed,
                                       .norm = cuda_norm,
                                       .product = cuda_product,
                                       .rope = cuda_rope,
                                       .kv_write = cuda_kv_write,
                                       .attend = cuda_attend,
                                       .gate = cuda_gate,
                                       .gate_gelu = cuda_gate_gelu,
                                       .scale = cuda_scale,
                                       .add = cuda_add,
                                       .finite = cuda_finite,
                                       .draw = cuda_draw};

enum status rowfn_cuda_open(bool emulated, const struct krn_rowfn **out, struct status_note *note) {
    struct gpu_cu_context *context;
    int device;
    driver = emulate_driver();
    if (!emulated)
        TRY(gpu_driver_open(12040, &driver, note));
    well(driver->device_get(&device, 0));
    well(driver->device_name(name, sizeof name, device));
    well(driver->context_retain(&context, device));
    well(driver->context_set(context));
    struct gpu_launcher_config config = {.driver = driver,
                                         .device = device,
                                         .images = emulated ? emulate_images : krn_cuda_images,
                                         .n_images = emulated ? 1 : krn_cuda_images_n,
                                         .each = true};
    TRY(gpu_launcher_open(&config, &launcher, note));
    well(driver->stream_create(&stream, GPU_CU_STREAM_OWN, 0));
    *out = &table;
    return STATUS_OK;
}

void rowfn_cuda_close(void) {
    begin();
    gpu_launcher_close(launcher);
    well(driver->stream_destroy(stream));
    well(driver->context_release(0));
}

const char *rowfn_cuda_device(void) {
    return name;
}

void rowfn_cuda_fill(struct krn_cuda_fill *a, void *out, uint64_t bytes) {
    struct krn_cuda_call call;
    begin();
    a->out = room(bytes);
    krn_cuda_fill_call(a, &call);
    launch(&call);
    get(out, a->out, bytes);
}

void rowfn_cuda_norm(struct krn_cuda_norm *a, const float *x, const float *w, uint32_t rows,
                     uint32_t blocks, float *y, void *packed, uint64_t packed_bytes) {
    struct krn_cuda_call call;
    struct image m = image_of(1, 0, 0);
    begin();
    m.head.n_rows = rows;
    a->step = put(&m, sizeof m);
    a->x = put(x, (uint64_t)rows * a->ldx * sizeof *x);
    a->w = put(w, a->n * sizeof *w);
    a->y = y != NULL ? room((uint64_t)rows * a->ldy * sizeof *y) : 0;
    a->packed = put(packed, packed_bytes);
    krn_cuda_norm_call(a, rows, &call);
    call.grid[0] = blocks;
    launch(&call);
    if (y != NULL)
        get(y, a->y, (uint64_t)rows * a->ldy * sizeof *y);
    get(packed, a->packed, packed_bytes);
}
