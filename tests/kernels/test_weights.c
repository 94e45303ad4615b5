/* SPDX-License-Identifier: Apache-2.0
 * Models made, written and read again: the same fingerprint whatever the sharding, the order, the
 * mapping and the alignment; another one for every change.
 */
#include "tests/kernels/model_dir.h"

#include <math.h>

#include "kernels/families/registry.h"
#include "kernels/weights/shapes.h"

static struct krn_model *synthetic(const struct krn_config *c, enum krn_dtype dtype,
                                   uint64_t seed) {
    struct krn_model *m = NULL;
    OK(krn_model_synthetic(c, dtype, seed, &m, &note));
    return m;
}

static bool same_print(const struct krn_model *a, const struct krn_model *b) {
    return memcmp(a->fingerprint, b->fingerprint, sizeof a->fingerprint) == 0;
}

static void check_same(const struct krn_model *a, const struct krn_model *b) {
    ck_assert_uint_eq(a->n_tensors, b->n_tensors);
    ck_assert_uint_eq(a->parameters, b->parameters);
    for (uint32_t i = 0; i < a->n_tensors; i++) {
        const struct krn_tensor *x = &a->tensors[i], *y = &b->tensors[i];
        ck_assert_str_eq(x->name, y->name);
        ck_assert_int_eq(x->dtype, y->dtype);
        ck_assert_uint_eq(x->n_dims, y->n_dims);
        ck_assert_mem_eq(x->dims, y->dims, sizeof x->dims);
        ck_assert_uint_eq(x->bytes, y->bytes);
        ck_assert_mem_eq(x->data, y->data, x->bytes);
        ck_assert_uint_eq((uintptr_t)y->data % (y->dtype == KRN_F32 ? 4 : 2), 0);
    }
    ck_assert(same_print(a, b));
}

/* Every type, tied or not, with and without biases; every field that a file can carry. */
START_TEST(test_round_trip) {
    struct krn_config c = small_config();
    c.tied = (_i / KRN_DTYPES) % 2 == 0;
    c.attn_bias = c.attn_out_bias = (_i / KRN_DTYPES) % 2 == 1;
    c.mlp_bias = _i % 2 == 1;
    c.norm_eps = 1.1e-6F;
    c.rope = (struct krn_rope){.kind = (enum krn_rope_kind)(_i % 3), .theta = 500000.1};
    if (c.rope.kind != KRN_ROPE_PLAIN)
        c.rope.factor = 8.3;
    if (c.rope.kind == KRN_ROPE_LLAMA3) {
        c.rope.low_freq_factor = 1.1;
        c.rope.high_freq_factor = 4.7;
        c.rope.original_context = 64;
    }
    struct krn_model *made = synthetic(&c, (enum krn_dtype)(_i % KRN_DTYPES), 7);
    static const uint32_t shards[] = {1, 2, 3, 7};
    for (size_t i = 0; i < sizeof shards / sizeof shards[0]; i++) {
        struct krn_model *read = NULL;
        char dir[64];
        scratch_make(dir);
        OK(krn_model_save(made, dir, shards[i], &note));
        OK(krn_model_open(dir, &read, &note));
        ck_assert_int_eq(mappings_of(dir), (int)shards[i]);
        check_same(made, read);
        struct krn_net net;
        OK(krn_net_build(read, &net, &note));
        krn_net_free(&net);
        krn_model_close(read);
        ck_assert_int_eq(mappings_of(dir), 0);
        scratch_remove(dir);
    }
    krn_model_close(made);
}
END_TEST

/* The shipped model written in three shards is the shipped model, sampling defaults included. */
START_TEST(test_round_trip_shipped) {
    char path[1024], dir[64];
    struct krn_model *shipped = NULL, *read = NULL;
    snprintf(path, sizeof path, "%s/share/fable-5m", test_srcdir());
    OK(krn_model_open(path, &shipped, &note));
    const struct krn_config *c = &shipped->config;
    ck_assert(c->bos == 0 && c->n_eos == 2 && c->eos[0] == 1 && c->eos[1] == 4);
    ck_assert(c->has_sampling && c->temperature == 0.7F && c->top_p == 0.9F && c->top_k == 0);
    ck_assert(c->tied && c->head_dim == 64 && c->context == 4096);
    scratch_make(dir);
    OK(krn_model_save(shipped, dir, 3, &note));
    OK(krn_model_open(dir, &read, &note));
    check_same(shipped, read);
    krn_model_close(read);
    krn_model_close(shipped);
    scratch_remove(dir);
}
END_TEST

/* A file whose data starts at every offset modulo 8: misaligned tensors are copied, nothing else
 * changes. */
START_TEST(test_alignment) {
    char dir[64];
    struct krn_config c = small_config();
    struct krn_model *made = synthetic(&c, KRN_F32, 3);
    scratch_make(dir);
    OK(krn_model_save(made, dir, 1, &note));
    size_t size;
    char *bytes = read_file(dir, "model.safetensors", &size);
    uint64_t header = 0;
    memcpy(&header, bytes, 8);
    for (uint64_t shift = 0; shift < 8; shift++) {
        struct krn_model *read = NULL;
        char *moved = malloc(size + 8);
        ck_assert_ptr_nonnull(moved);
        uint64_t longer = header + shift;
        memcpy(moved, &longer, 8);
        memcpy(moved + 8, bytes + 8, header);
        memset(moved + 8 + header, ' ', shift);
        memcpy(moved + 8 + longer, bytes + 8 + header, size - 8 - header);
        write_file(dir, "model.safetensors", moved, size + shift);
        OK(krn_model_open(dir, &read, &note));
        check_same(made, read);
        krn_model_close(read);
        free(moved);
    }
    free(bytes);
    krn_model_close(made);
    scratch_remove(dir);
}
END_TEST

/* Links to files, as caches of downloaded models have them. */
START_TEST(test_links) {
    char dir[64], links[64], from[512], to[512];
    static const char *const names[] = {"config.json", "model-00001-of-00002.safetensors",
                                        "model-00002-of-00002.safetensors",
                                        "model.safetensors.index.json"};
    struct krn_model *a = NULL, *b = NULL;
    make_model_dir(dir, 2);
    scratch_make(links);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        join(from, dir, names[i]);
        join(to, links, names[i]);
        ck_assert_int_eq(symlink(from, to), 0);
    }
    OK(krn_model_open(dir, &a, &note));
    OK(krn_model_open(links, &b, &note)); /* generation_config.json is optional */
    check_same(a, b);
    krn_model_close(a);
    krn_model_close(b);
    scratch_remove(links);
    scratch_remove(dir);
}
END_TEST

/* One bit of one weight, one field, one name: another fingerprint. */
START_TEST(test_fingerprint) {
    char dir[64];
    struct krn_config c = small_config();
    struct krn_model *a = synthetic(&c, KRN_BF16, 5), *b = synthetic(&c, KRN_BF16, 5);
    ck_assert(same_print(a, b));
    krn_model_close(b);
    b = synthetic(&c, KRN_BF16, 6);
    ck_assert(!same_print(a, b));
    krn_model_close(b);
    b = synthetic(&c, KRN_F16, 5);
    ck_assert(!same_print(a, b));
    krn_model_close(b);
    struct krn_config fields[6];
    for (int i = 0; i < 6; i++)
        fields[i] = c;
    fields[0].context++;
    fields[1].norm_eps = 2e-5F;
    fields[2].rope.theta += 1;
    fields[3].rope = (struct krn_rope){.kind = KRN_ROPE_LINEAR, .theta = 10000.0, .factor = 1.0};
    fields[4].kv_heads = 4;
    fields[5].vocab++;
    for (int i = 0; i < 6; i++) {
        b = synthetic(&fields[i], KRN_BF16, 5);
        ck_assert_msg(!same_print(a, b), "field %d", i);
        krn_model_close(b);
    }
    scratch_make(dir);
    OK(krn_model_save(a, dir, 1, &note));
    size_t n;
    char *bytes = read_file(dir, "model.safetensors", &n);
    bytes[n - 1] = (char)(bytes[n - 1] ^ 1);
    write_file(dir, "model.safetensors", bytes, n);
    OK(krn_model_open(dir, &b, &note));
    ck_assert(!same_print(a, b));
    krn_model_close(b);
    free(bytes);
    krn_model_close(a);
    scratch_remove(dir);
}
END_TEST

/* The same bytes on every machine and compiler. */
START_TEST(test_synthetic_golden) {
    static const uint64_t golden[KRN_DTYPES][2] = {
        [KRN_F32] = {0x38ab389614359ec5, 0x43f1349def9bdd45},
        [KRN_F16] = {0x572ba40682852198, 0xe6284fe300587533},
        [KRN_BF16] = {0xebf9a19791272c2c, 0x79495989812557b2}};
    struct krn_config c = small_config();
    c.attn_bias = c.attn_out_bias = c.mlp_bias = true;
    struct krn_model *m = synthetic(&c, (enum krn_dtype)_i, 1);
    ck_assert_msg(memcmp(m->fingerprint, golden[_i], sizeof golden[_i]) == 0, "{0x%llx, 0x%llx}",
                  (unsigned long long)m->fingerprint[0], (unsigned long long)m->fingerprint[1]);
    krn_model_close(m);
}
END_TEST

static double decode(enum krn_dtype dtype, uint16_t bits) {
    if (dtype == KRN_BF16) {
        uint32_t wide = (uint32_t)bits << 16;
        float f;
        memcpy(&f, &wide, sizeof f);
        return (double)f;
    }
    int exponent = bits >> 10 & 31;
    double mantissa = bits & 1023;
    double value = exponent == 0 ? ldexp(mantissa, -24) : ldexp(mantissa + 1024, exponent - 25);
    return bits & 0x8000 ? -value : value;
}

/* The narrow types hold the nearest value to the f32 one, and the values spread as they should. */
START_TEST(test_synthetic_values) {
    const enum krn_dtype dtype = _i == 0 ? KRN_F16 : KRN_BF16;
    struct krn_config c = small_config();
    struct krn_model *wide = synthetic(&c, KRN_F32, 9), *narrow = synthetic(&c, dtype, 9);
    for (uint32_t t = 0; t < wide->n_tensors; t++) {
        const float *x = wide->tensors[t].data;
        const uint16_t *y = narrow->tensors[t].data;
        uint64_t n = wide->tensors[t].bytes / 4;
        double sum = 0, squares = 0;
        for (uint64_t i = 0; i < n; i++) {
            double off = fabs(decode(dtype, y[i]) - (double)x[i]);
            ck_assert(off <= fabs(decode(dtype, (uint16_t)(y[i] + 1)) - (double)x[i]));
            if ((y[i] & 0x7fff) != 0)
                ck_assert(off <= fabs(decode(dtype, (uint16_t)(y[i] - 1)) - (double)x[i]));
            sum += (double)x[i];
            squares += (double)x[i] * (double)x[i];
        }
        bool norm = strstr(wide->tensors[t].name, "norm") != NULL;
        double mean = sum / (double)n, inputs = (double)wide->tensors[t].dims[1];
        ck_assert_double_eq_tol(mean, norm ? 1.0 : 0.0, 0.15);
        if (strstr(wide->tensors[t].name, "q_proj") != NULL)
            ck_assert_double_eq_tol(squares / (double)n * inputs, 1.0, 0.1);
    }
    krn_model_close(wide);
    krn_model_close(narrow);
}
END_TEST

START_TEST(test_synthetic_refused) {
    struct krn_model *m = NULL;
    struct krn_config c = small_config();
    c.heads = 3;
    ck_assert_int_eq(krn_model_synthetic(&c, KRN_F32, 1, &m, &note), STATUS_BAD_MODEL);
    ck_assert_ptr_nonnull(strstr(note.text, "num_attention_heads 3"));
    c = small_config();
    snprintf(c.family, sizeof c.family, "none");
    ck_assert_int_eq(krn_model_synthetic(&c, KRN_F32, 1, &m, &note), STATUS_BAD_MODEL);
    ck_assert_ptr_nonnull(strstr(note.text, "none"));
    ck_assert_ptr_null(m);
}
END_TEST

START_TEST(test_save_refused) {
    char dir[64], path[512];
    struct krn_config c = small_config();
    struct krn_model *m = synthetic(&c, KRN_F32, 1);
    scratch_make(dir);
    ck_assert_int_eq(krn_model_save(m, dir, 0, &note), STATUS_BAD_REQUEST);
    ck_assert_int_eq(krn_model_save(m, dir, m->n_tensors + 1, &note), STATUS_BAD_REQUEST);
    join(path, dir, "none/model");
    ck_assert_int_eq(krn_model_save(m, path, 1, &note), STATUS_IO);
    ck_assert_ptr_nonnull(strstr(note.text, "none/model"));
    write_file(dir, "file", "x", 1);
    join(path, dir, "file");
    ck_assert_int_eq(krn_model_save(m, path, 1, &note), STATUS_IO);
    ck_assert_ptr_nonnull(strstr(note.text, "not a directory"));
    krn_model_close(m);
    c.attn_bias = true;
    m = synthetic(&c, KRN_F32, 1);
    ck_assert_int_eq(krn_model_save(m, dir, 1, &note), STATUS_UNSUPPORTED);
    ck_assert_ptr_nonnull(strstr(note.text, "attention_bias"));
    krn_model_close(m);
    scratch_remove(dir);
}
END_TEST

/* One shard a tensor, and a full disk in its place: an error, and no file half written. */
START_TEST(test_save_edges) {
    char dir[64], path[512];
    struct krn_config c = small_config();
    struct krn_model *m = synthetic(&c, KRN_BF16, 1), *read = NULL;
    scratch_make(dir);
    OK(krn_model_save(m, dir, m->n_tensors, &note));
    OK(krn_model_open(dir, &read, &note));
    check_same(m, read);
    krn_model_close(read);
    scratch_remove(dir);
    scratch_make(dir);
    join(path, dir, "model.safetensors.part");
    ck_assert_int_eq(symlink("/dev/full", path), 0);
    ck_assert_int_eq(krn_model_save(m, dir, 1, &note), STATUS_IO);
    ck_assert_ptr_nonnull(strstr(note.text, "model.safetensors: cannot write"));
    join(path, dir, "model.safetensors");
    ck_assert_int_ne(access(path, F_OK), 0);
    krn_model_close(m);
    scratch_remove(dir);
}
END_TEST

START_TEST(test_lookup) {
    struct krn_config c = small_config();
    struct krn_model *m = synthetic(&c, KRN_F32, 1);
    for (uint32_t i = 0; i < m->n_tensors; i++) {
        ck_assert_ptr_eq(krn_model_tensor(m, m->tensors[i].name), &m->tensors[i]);
        ck_assert(i == 0 || strcmp(m->tensors[i - 1].name, m->tensors[i].name) < 0);
    }
    ck_assert_ptr_null(krn_model_tensor(m, ""));
    ck_assert_ptr_null(krn_model_tensor(m, "model.layers.0.mlp"));
    ck_assert_ptr_null(krn_model_tensor(m, "zzz"));
    krn_model_close(m);
    krn_model_close(NULL);
}
END_TEST

/* Dimensions of published models: as many parameters as their publishers say, no bytes of matrices.
 */
START_TEST(test_shapes) {
    static const struct {
        const char *name;
        uint64_t parameters;
    } known[] = {{"llama-8b", 8030261248},
                 {"llama-1b", 1235814400},
                 {"qwen3-1.7b", 1720574976},
                 {"smollm2-135m", 134515008},
                 {"fable-5m", 5475584}};
    unsigned n = 0;
    for (; krn_model_shape_name(n) != NULL; n++) {
        struct krn_model *m = NULL;
        struct krn_net net;
        OK(krn_model_shape(krn_model_shape_name(n), 3, &m, &note));
        ck_assert_str_eq(known[n].name, krn_model_shape_name(n));
        ck_assert_uint_eq(m->parameters, known[n].parameters);
        for (uint32_t i = 0; i < m->n_tensors; i++)
            ck_assert((m->tensors[i].data == NULL) == (m->tensors[i].n_dims == 2));
        OK(krn_net_build(m, &net, &note));
        krn_net_free(&net);
        krn_model_close(m);
    }
    ck_assert_uint_eq(n, sizeof known / sizeof known[0]);
    struct krn_model *m = NULL;
    ck_assert_int_eq(krn_model_shape("llama-9b", 3, &m, &note), STATUS_NOT_FOUND);
    ck_assert_ptr_nonnull(strstr(note.text, "'llama-9b'; this build knows llama-8b, llama-1b"));
}
END_TEST

/* Bytes made later are those made at once; other seeds are other models, with bytes or without. */
START_TEST(test_shape_filled) {
    struct krn_model *later = NULL, *other = NULL;
    struct krn_config c;
    OK(krn_shape_config("fable-5m", &c, &note));
    OK(krn_model_shape("fable-5m", 3, &later, &note));
    OK(krn_model_shape("fable-5m", 4, &other, &note));
    ck_assert(!same_print(later, other));
    struct krn_model *now = synthetic(&c, KRN_BF16, 3);
    OK(krn_model_fill(later, &note));
    for (uint32_t i = 0; i < now->n_tensors; i++) {
        ck_assert_str_eq(now->tensors[i].name, later->tensors[i].name);
        ck_assert_mem_eq(now->tensors[i].data, later->tensors[i].data, now->tensors[i].bytes);
    }
    krn_model_close(now);
    krn_model_close(later);
    krn_model_close(other);
}
END_TEST

int main(void) {
    Suite *s = suite_create("weights");
    TCase *t = tcase_create("weights");
    tcase_add_loop_test(t, test_round_trip, 0, 2 * KRN_DTYPES);
    tcase_add_test(t, test_round_trip_shipped);
    tcase_add_test(t, test_alignment);
    tcase_add_test(t, test_links);
    tcase_add_test(t, test_fingerprint);
    tcase_add_loop_test(t, test_synthetic_golden, 0, KRN_DTYPES);
    tcase_add_loop_test(t, test_synthetic_values, 0, 2);
    tcase_add_test(t, test_synthetic_refused);
    tcase_add_test(t, test_save_refused);
    tcase_add_test(t, test_save_edges);
    tcase_add_test(t, test_lookup);
    tcase_add_test(t, test_shapes);
    tcase_add_test(t, test_shape_filled);
    suite_add_tcase(s, t);
    return test_run(s);
}
