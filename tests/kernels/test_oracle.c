/* SPDX-License-Identifier: Apache-2.0
 * The oracle: op lists of synthetic models against the same lists run over the tables (many rows
 * at a time, paged, packed), and fable-5m against the published implementation's float32 outputs.
 */
#include "tests/harness.h"

#include "kernels/oracle.h"
#include "tests/kernels/kit.h"
#include "tests/kernels/reference.h"

static const struct krn_rowfn *table[4];
static unsigned n_tables;
static void *scratch;

/* A net over packed weights and pages, executed row-parallel by one table. */
struct runner {
    const struct krn_rowfn *fn;
    const struct krn_net *net;
    const struct krn_config *c;
    struct krn_profile profile;
    struct krn_packed *w; /* one an op */
    float *rope[2], *buf[KRN_BUFS];
    size_t width[KRN_BUFS];
    struct krn_kv kv;
    uint32_t pages[64];
    uint64_t layer_bytes;
};

static float *widened(const struct krn_tensor *w) {
    if (w == NULL)
        return NULL;
    size_t n = w->bytes / (w->dtype == KRN_F32 ? 4 : 2);
    float *out = kit_floats(n);
    for (size_t i = 0; i < n; i++)
        out[i] = w->dtype == KRN_F32    ? ((const float *)w->data)[i]
                 : w->dtype == KRN_BF16 ? krn_widen_bf16(((const uint16_t *)w->data)[i])
                                        : krn_widen_f16(((const uint16_t *)w->data)[i]);
    return out;
}

static void runner_open(struct runner *u, const struct krn_rowfn *fn, const struct krn_net *net,
                        const struct krn_profile *profile, uint32_t context) {
    const struct krn_config *c = &net->model->config;
    *u = (struct runner){.fn = fn, .net = net, .c = c, .profile = *profile};
    size_t q = (size_t)c->heads * c->head_dim, kv = (size_t)c->kv_heads * c->head_dim;
    const size_t width[KRN_BUFS] = {
        [KRN_BUF_X] = c->hidden, [KRN_BUF_H] = c->hidden, [KRN_BUF_Q] = q,
        [KRN_BUF_K] = kv,        [KRN_BUF_V] = kv,        [KRN_BUF_A] = q,
        [KRN_BUF_G] = c->ffn,    [KRN_BUF_U] = c->ffn,    [KRN_BUF_L] = c->vocab};
    memcpy(u->width, width, sizeof width);
    for (int b = 0; b < KRN_BUFS; b++)
        u->buf[b] = kit_floats(width[b] * context);
    u->w = kit_alloc(net->n_ops * sizeof *u->w);
    for (uint32_t i = 0; i < net->n_ops; i++)
        if (net->ops[i].w != NULL && net->ops[i].w->n_dims == 2)
            u->w[i] = kit_pack(net->ops[i].w);
    for (int i = 0; i < 2; i++)
        u->rope[i] = kit_floats((size_t)context * c->head_dim);
    krn_rope_table(&c->rope, c->head_dim, context, u->rope[0]);
    if (c->has_local_rope)
        krn_rope_table(&c->local_rope, c->head_dim, context, u->rope[1]);
    u->layer_bytes = 64 * kv * 2 * sizeof(float);
    u->kv = (struct krn_kv){.page_bytes = u->layer_bytes * c->layers,
                            .page_tokens = 64,
                            .kv_heads = c->kv_heads,
                            .head_dim = c->head_dim};
    uint32_t n_pages = (context + 63) / 64;
    u->kv.pool = kit_alloc(n_pages * u->kv.page_bytes);
    memset(u->kv.pool, 0xff, n_pages * u->kv.page_bytes); /* NaN */
    for (uint32_t i = 0; i < n_pages; i++)
        u->pages[i] = n_pages - 1 - i;
}

static void runner_close(struct runner *u) {
    for (uint32_t i = 0; i < u->net->n_ops; i++)
        if (u->net->ops[i].w != NULL && u->net->ops[i].w->n_dims == 2)
            free((void *)u->w[i].data);
    for (int b = 0; b < KRN_BUFS; b++)
        free(u->buf[b]);
    free(u->w);
    free(u->rope[0]);
    free(u->rope[1]);
    free(u->kv.pool);
}

static void run_rope_kv(struct runner *u, const struct krn_op *op, uint32_t pos, uint32_t rows) {
    const struct krn_config *c = u->c;
    for (uint32_t r = 0; r < rows; r++) {
        const float *cs = u->rope[op->local_rope] + (size_t)(pos + r) * c->head_dim;
        float *q = u->buf[KRN_BUF_Q] + r * u->width[KRN_BUF_Q];
        float *k = u->buf[KRN_BUF_K] + r * u->width[KRN_BUF_K];
        float *v = u->buf[KRN_BUF_V] + r * u->width[KRN_BUF_V];
        for (uint32_t h = 0; h < c->heads; h++)
            u->fn->rope(q + h * c->head_dim, cs, c->head_dim);
        for (uint32_t h = 0; h < c->kv_heads; h++) {
            u->fn->rope(k + h * c->head_dim, cs, c->head_dim);
            u->fn->kv_write(&u->kv, u->pages, pos + r, h, k + h * c->head_dim, v + h * c->head_dim);
        }
    }
}

static void run_attend(struct runner *u, const struct krn_op *op, uint32_t pos, uint32_t rows) {
    struct krn_span spans[16];
    uint32_t n = 0;
    for (uint32_t r = 0; r < rows; r += KRN_SPAN_ROWS)
        spans[n++] = (struct krn_span){r, rows - r < KRN_SPAN_ROWS ? rows - r : KRN_SPAN_ROWS,
                                       pos + r, u->pages};
    struct krn_attend a = {.q = u->buf[KRN_BUF_Q],
                           .ldq = u->width[KRN_BUF_Q],
                           .out = u->buf[KRN_BUF_A],
                           .ldo = u->width[KRN_BUF_A],
                           .spans = spans,
                           .n_spans = n,
                           .kv = u->kv,
                           .heads = u->c->heads,
                           .scale = op->scale,
                           .window = op->window,
                           .segment = u->profile.attn_segment};
    u->fn->attend(&a, 0, n * u->c->kv_heads, scratch);
}

/* Of a norm: w, or 1 + w. */
static float *factors(const struct krn_op *op) {
    float *w = widened(op->w);
    for (uint64_t i = 0; op->one_more && i < op->w->dims[0]; i++)
        w[i] = 1.0f + w[i];
    return w;
}

static void run_op(struct runner *u, uint32_t i, const uint32_t *ids, uint32_t pos, uint32_t rows) {
    const struct krn_op *op = u->net->ops + i;
    float *src = u->buf[op->src], *dst = u->buf[op->dst];
    size_t ws = u->width[op->src], wd = u->width[op->dst];
    float *w = NULL, *bias = NULL;
    switch (op->kind) {
    case KRN_OP_EMBED:
        for (uint32_t r = 0; r < rows; r++) {
            u->fn->embed(&u->w[i], ids[pos + r], dst + r * wd);
            u->fn->scale(dst + r * wd, op->scale, u->c->hidden);
        }
        break;
    case KRN_OP_NORM:
    case KRN_OP_FINAL:
        w = factors(op);
        for (uint32_t r = 0; r < rows; r++) {
            float *x = src + r * ws, *y = dst + r * wd;
            u->fn->norm(x, w, op->add ? x : y, u->c->hidden, op->eps);
            if (op->add)
                u->fn->add(y, x, y, u->c->hidden);
        }
        break;
    case KRN_OP_PRODUCT: {
        bias = widened(op->bias);
        struct krn_product p = {.x = src,
                                .ldx = ws,
                                .rows = rows,
                                .w = &u->w[i],
                                .segments =
                                    op->split == KRN_SPLIT_ROWS ? u->profile.virtual_ranks : 1,
                                .bias = bias,
                                .add = op->add,
                                .y = dst,
                                .ldy = wd};
        u->fn->product(&p, 0, u->w[i].n_blocks, scratch);
        break;
    }
    case KRN_OP_HEAD_NORM:
        w = factors(op);
        for (uint32_t r = 0; r < rows; r++)
            for (uint32_t h = 0; h < op->n; h += op->k)
                u->fn->norm(src + r * ws + h, w, dst + r * wd + h, op->k, op->eps);
        break;
    case KRN_OP_ROPE_KV:
        u->kv.layer_off = op->layer * u->layer_bytes;
        run_rope_kv(u, op, pos, rows);
        break;
    case KRN_OP_ATTEND:
        run_attend(u, op, pos, rows);
        break;
    default:
        for (uint32_t r = 0; r < rows; r++)
            (op->gelu ? u->fn->gate_gelu : u->fn->gate)(
                dst + r * wd, u->buf[KRN_BUF_U] + r * u->width[KRN_BUF_U], u->c->ffn);
    }
    free(w);
    free(bias);
}

/* Rows [pos, pos + rows) in one pass; logits of all rows are left in KRN_BUF_L. */
static void run_rows(struct runner *u, const uint32_t *ids, uint32_t pos, uint32_t rows) {
    for (uint32_t i = 0; i < u->net->n_ops; i++)
        run_op(u, i, ids, pos, rows);
}

static void check_model(struct kit_rand *r, const struct krn_config *config, enum krn_dtype dtype,
                        uint32_t v) {
    enum { CONTEXT = 150 };
    struct status_note note;
    struct krn_model *model;
    struct krn_net net;
    struct krn_profile profile;
    struct krn_oracle *o;
    ck_assert_msg(krn_model_synthetic(config, dtype, 7, &model, &note) == STATUS_OK, "%s",
                  note.text);
    ck_assert_int_eq(krn_net_build(model, &net, &note), STATUS_OK);
    ck_assert_int_eq(krn_profile_portable(&model->config, v, &profile, &note), STATUS_OK);
    profile.attn_segment = 64; /* several segments in a short context */
    ck_assert_int_eq(krn_oracle_open(&net, &profile, CONTEXT, &o, &note), STATUS_OK);
    uint32_t ids[CONTEXT], vocab = model->config.vocab;
    float *want = kit_floats((size_t)CONTEXT * vocab);
    for (uint32_t i = 0; i < CONTEXT; i++) {
        ids[i] = kit_below(r, vocab);
        ck_assert(krn_oracle_feed(o, ids[i], want + (size_t)i * vocab));
    }
    for (unsigned t = 0; t < n_tables; t++) {
        struct runner u;
        runner_open(&u, table[t], &net, &profile, CONTEXT);
        for (uint32_t pos = 0, rows; pos < CONTEXT; pos += rows) {
            rows = 1 + kit_below(r, 70);
            if (rows > CONTEXT - pos)
                rows = CONTEXT - pos;
            run_rows(&u, ids, pos, rows);
            kit_equal(u.buf[KRN_BUF_L], want + (size_t)pos * vocab, (size_t)rows * vocab,
                      "%s at %u, %u rows, V %u", table[t]->isa, pos, rows, v);
        }
        runner_close(&u);
    }
    /* forgetting works */
    float *again = kit_floats(vocab);
    krn_oracle_reset(o);
    ck_assert(krn_oracle_feed(o, ids[0], again));
    kit_equal(again, want, vocab, "after reset");
    free(again);
    free(want);
    krn_oracle_close(o);
    krn_net_free(&net);
    krn_model_close(model);
}

static struct krn_config shape(uint32_t heads, uint32_t kv, uint32_t d, uint32_t hidden,
                               uint32_t ffn) {
    return (struct krn_config){.family = "llama",
                               .vocab = 101,
                               .hidden = hidden,
                               .layers = 2,
                               .heads = heads,
                               .kv_heads = kv,
                               .head_dim = d,
                               .ffn = ffn,
                               .context = 256,
                               .norm_eps = 1e-5f,
                               .rope = {.kind = KRN_ROPE_PLAIN, .theta = 10000.0, .factor = 1.0},
                               .bos = -1};
}

START_TEST(synthetic_models) {
    struct kit_rand r = {51, 0};
    struct krn_config c = shape(8, 8, 16, 64, 128);
    for (uint32_t v = 1; v <= 8; v *= 2)
        check_model(&r, &c, KRN_BF16, v);
    c = shape(8, 2, 32, 96, 128);
    c.tied = true;
    check_model(&r, &c, KRN_F32, 0);
    c.attn_bias = c.attn_out_bias = c.mlp_bias = true;
    c.rope = (struct krn_rope){.kind = KRN_ROPE_LLAMA3,
                               .theta = 500000.0,
                               .factor = 8.0,
                               .low_freq_factor = 1.0,
                               .high_freq_factor = 4.0,
                               .original_context = 64};
    check_model(&r, &c, KRN_F16, 0);
    c = shape(3, 1, 48, 50, 48);
    check_model(&r, &c, KRN_BF16, 0);
}
END_TEST

START_TEST(synthetic_families) {
    static const char *const names[] = {"qwen2", "mistral", "qwen3", "gemma3"};
    struct kit_rand r = {52, 0};
    for (unsigned i = 0; i < sizeof names / sizeof names[0]; i++) {
        struct krn_config c = shape(4, 2, 32, 48, 64);
        snprintf(c.family, sizeof c.family, "%s", names[i]);
        c.attn_bias = i == 0;
        if (i == 3) {
            c.has_local_rope = true;
            c.local_rope = (struct krn_rope){.kind = KRN_ROPE_PLAIN, .theta = 400.0};
            c.score_scalar = 9;
        }
        check_model(&r, &c, KRN_BF16, 0);
        c.window = 5 + 30 * i;
        c.windowed[0] = i == 1 ? 3 : 1;
        check_model(&r, &c, KRN_F16, 2);
    }
}
END_TEST

/* |a - b| relative to the size of b as a whole. */
static double relative(const float *a, const float *b, size_t n) {
    double off = 0.0, size = 0.0;
    for (size_t i = 0; i < n; i++) {
        off += ((double)a[i] - b[i]) * ((double)a[i] - b[i]);
        size += (double)b[i] * b[i];
    }
    return sqrt(off / size);
}

struct fable {
    struct krn_model *model;
    struct krn_net net;
    struct krn_profile profile;
    struct krn_oracle *o;
    struct reference *ref;
};

static void fable_open(struct fable *f) {
    struct status_note note;
    f->ref = reference_open();
    ck_assert_msg(krn_model_open(f->ref->model_path, &f->model, &note) == STATUS_OK, "%s",
                  note.text);
    ck_assert_int_eq(krn_net_build(f->model, &f->net, &note), STATUS_OK);
    ck_assert_int_eq(krn_profile_portable(&f->model->config, 0, &f->profile, &note), STATUS_OK);
    ck_assert_int_eq(krn_oracle_open(&f->net, &f->profile, 4096, &f->o, &note), STATUS_OK);
}

static void fable_close(struct fable *f) {
    krn_oracle_close(f->o);
    krn_net_free(&f->net);
    krn_model_close(f->model);
    reference_close(f->ref);
}

START_TEST(hidden_states_of_the_reference) {
    struct fable f;
    fable_open(&f);
    float logits[REFERENCE_VOCAB];
    for (unsigned t = 0; t < 2; t++) {
        const struct reference_trace *trace = &f.ref->traces[t];
        uint32_t n = trace->prompt->n_ids;
        double worst = 0.0;
        krn_oracle_reset(f.o);
        for (uint32_t i = 0; i < n; i++) {
            ck_assert(krn_oracle_feed(f.o, trace->prompt->ids[i], logits));
            for (uint32_t l = 0; l + 1 < REFERENCE_BOUNDARIES; l++) {
                const float *want = trace->hidden + ((size_t)l * n + i) * REFERENCE_HIDDEN;
                double off = relative(krn_oracle_hidden(f.o, l), want, REFERENCE_HIDDEN);
                worst = off > worst ? off : worst;
            }
            double off =
                relative(logits, trace->logits + (size_t)i * REFERENCE_VOCAB, REFERENCE_VOCAB);
            worst = off > worst ? off : worst;
        }
        printf("prompt %s: relative error at most %.2e\n", trace->prompt->name, worst);
        ck_assert_double_lt(worst, 2e-5);
    }
    fable_close(&f);
}
END_TEST

/* Greedy tokens equal the reference's except after its own best two were nearer than the stated
 * margin. */
START_TEST(greedy_tokens_of_the_reference) {
    struct fable f;
    fable_open(&f);
    float logits[REFERENCE_VOCAB];
    unsigned same = 0;
    for (unsigned p = 0; p < REFERENCE_PROMPTS; p++) {
        const struct reference_prompt *prompt = &f.ref->prompts[p];
        if (prompt->n_ids > 200) /* the long ones belong to the device's tests */
            continue;
        krn_oracle_reset(f.o);
        for (uint32_t i = 0; i < prompt->n_ids; i++)
            ck_assert(krn_oracle_feed(f.o, prompt->ids[i], i + 1 == prompt->n_ids ? logits : NULL));
        ck_assert_double_lt(relative(logits, prompt->first_logits, REFERENCE_VOCAB), 2e-5);
        for (uint32_t i = 0; i < REFERENCE_STEPS; i++) {
            struct krn_sampling greedy = {.top_p = 1.0f, .repetition = 1.0f};
            struct krn_drawn d;
            krn_oracle_draw(logits, REFERENCE_VOCAB, &greedy, NULL, 0, 0, NULL, 0, NULL, &d);
            if (prompt->f32.margin[i] < REFERENCE_MARGIN && d.token != prompt->f32.ids[i])
                break;
            ck_assert_msg(d.token == prompt->f32.ids[i], "prompt %s, step %u", prompt->name, i);
            same++;
            ck_assert(krn_oracle_feed(f.o, d.token, logits));
        }
    }
    printf("greedy: %u tokens equal\n", same);
    ck_assert_uint_gt(same, 300);
    fable_close(&f);
}
END_TEST

int main(void) {
    n_tables = kit_tables(table);
    scratch = kit_alloc(KRN_SCRATCH_BYTES);
    Suite *suite = suite_create("oracle");
    TCase *tc = tcase_create("oracle");
    tcase_add_test(tc, synthetic_models);
    tcase_add_test(tc, synthetic_families);
    tcase_add_test(tc, hidden_states_of_the_reference);
    tcase_add_test(tc, greedy_tokens_of_the_reference);
    suite_add_tcase(suite, tc);
    int rc = test_run(suite);
    free(scratch);
    return rc;
}
