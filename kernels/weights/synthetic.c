/* SPDX-License-Identifier: Apache-2.0
 * Models with seeded random weights: a value is a pure function of (seed, tensor name, index), as
 * kernels/fill.h says. Their bytes may be made later, or elsewhere.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "actors/check.h"
#include "kernels/families/registry.h"
#include "kernels/weights/config_json.h"
#include "kernels/weights/safetensors.h"
#include "kernels/weights/shapes.h"
#include "kernels/weights/store.h"

static uint64_t stream_of(uint64_t seed, const char *name) {
    uint64_t h = krn_fill_mix(seed);
    for (const char *c = name; *c != '\0'; c++)
        h = krn_fill_mix(h ^ (unsigned char)*c);
    return h;
}

static uint16_t round_bf16(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return (uint16_t)((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

/* Round to nearest even; the values here are below 8 and end at half's smallest subnormal. */
static uint16_t round_f16(float value) {
    uint32_t sign = signbit(value) ? 0x8000U : 0U;
    float magnitude = fabsf(value);
    if (magnitude <
        0x1p-14F) /* adding 2^-1 leaves the 2^-24 grid in the low bits, rounded by the FPU */
        return (uint16_t)(sign | (uint32_t)((magnitude + 0.5F - 0.5F) * 0x1p24F));
    uint32_t bits;
    memcpy(&bits, &magnitude, sizeof bits);
    bits += 0xfff + ((bits >> 13) & 1);
    return (uint16_t)(sign | ((bits - (112U << 23)) >> 13));
}

static void fill(void *out, enum krn_dtype dtype, uint64_t n, const struct krn_fill *f) {
    for (uint64_t i = 0; i < n; i++) {
        float value = krn_fill_value(f->stream, f->offset, f->reach, i);
        if (dtype == KRN_F32)
            ((float *)out)[i] = value;
        else
            ((uint16_t *)out)[i] = dtype == KRN_BF16 ? round_bf16(value) : round_f16(value);
    }
}

/* A uniform value in +-reach has the deviation reach / sqrt(3). */
static void spread(const struct krn_config *c, const struct krn_weight *w, float *offset,
                   float *reach) {
    double inputs = (double)w->dims[w->n_dims - 1];
    *offset = 0.0F;
    switch (w->role) {
    case KRN_ROLE_NORM:
        *offset = 1.0F;
        *reach = 0.25F;
        return;
    case KRN_ROLE_NORM_MORE:
    case KRN_ROLE_BIAS:
        *reach = 0.25F;
        return;
    case KRN_ROLE_EMBED: /* tied: the same numbers give logits of deviation 2 */
        *reach = (float)sqrt(c->tied ? 12.0 / inputs : 3.0);
        return;
    case KRN_ROLE_HEAD:
        *reach = (float)sqrt(12.0 / inputs);
        return;
    case KRN_ROLE_OUT: /* 2 * layers of them add up in the residual stream */
        *reach = (float)sqrt(3.0 / (inputs * 2.0 * c->layers));
        return;
    case KRN_ROLE_IN:
        break;
    }
    *reach = (float)sqrt(3.0 / inputs);
}

/* The bytes of one tensor, from its fill. */
static enum status make_bytes(struct krn_model *model, struct krn_tensor *t,
                              struct status_note *note) {
    void *data = krn_store_block(model, t->bytes);
    if (data == NULL)
        return status_say(note, STATUS_NO_MEMORY, "no memory for the %llu bytes of tensor %s",
                          (unsigned long long)t->bytes, t->name);
    fill(data, t->dtype, t->bytes / krn_dtype_bytes(t->dtype), &t->fill);
    t->data = data;
    return STATUS_OK;
}

/* later: a matrix gets no bytes yet. */
static enum status add_weight(struct krn_model *model, const struct krn_weight *w,
                              enum krn_dtype dtype, uint64_t seed, bool later, char **names,
                              struct status_note *note) {
    uint64_t elements = 1;
    for (uint32_t d = 0; d < w->n_dims; d++)
        elements *= w->dims[d]; /* two dimensions of at most 2^22: no overflow */
    struct krn_fill f = {.stream = stream_of(seed, w->name)};
    spread(&model->config, w, &f.offset, &f.reach);
    struct krn_tensor *t = (struct krn_tensor *)(uintptr_t)&model->tensors[model->n_tensors++];
    size_t name_bytes = strlen(w->name) + 1;
    *t = (struct krn_tensor){.name = memcpy(*names, w->name, name_bytes),
                             .dtype = dtype,
                             .n_dims = w->n_dims,
                             .dims = {w->dims[0], w->dims[1]},
                             .bytes = elements * krn_dtype_bytes(dtype),
                             .fill = f};
    *names += name_bytes;
    return later && w->n_dims == 2 ? STATUS_OK : make_bytes(model, t, note);
}

static struct krn_config shape_of(const struct krn_config *from) {
    struct krn_config c = *from;
    if (c.family[0] == '\0')
        snprintf(c.family, sizeof c.family, "llama");
    c.bos = -1;
    c.n_eos = 0;
    memset(c.eos, 0, sizeof c.eos);
    c.has_sampling = false;
    c.temperature = 0.0F;
    c.top_p = 1.0F;
    c.top_k = 0;
    return c;
}

static enum status make_model(const struct krn_config *config, enum krn_dtype dtype, uint64_t seed,
                              bool later, struct krn_model **out, struct status_note *note) {
    CHECK((unsigned)dtype < KRN_DTYPES);
    struct krn_config c = shape_of(config);
    TRY(krn_config_check("synthetic model", &c, note));
    const struct krn_family *family = krn_family_named(c.family);
    if (family == NULL)
        return status_say(note, STATUS_BAD_MODEL, "synthetic model: family \"%.23s\" is unknown",
                          c.family);
    struct krn_weight w;
    uint32_t n = 0;
    while (family->weight(&c, n, &w))
        n++;
    struct krn_model *model = krn_store_new(n, 0, n + 1, 0);
    if (model == NULL)
        return status_say(note, STATUS_NO_MEMORY, "no memory for the model's tables");
    model->config = c;
    char *names = krn_store_block(model, (uint64_t)n * sizeof w.name);
    enum status status = STATUS_OK;
    if (names == NULL)
        status = status_say(note, STATUS_NO_MEMORY, "no memory for the tensors' names");
    for (uint32_t i = 0; i < n && status == STATUS_OK; i++) {
        CHECK(family->weight(&c, i, &w));
        status = add_weight(model, &w, dtype, seed, later, &names, note);
    }
    if (status == STATUS_OK)
        status = krn_store_seal(model, note);
    if (status == STATUS_OK)
        *out = model;
    else
        krn_model_close(model);
    return status;
}

enum status krn_model_synthetic(const struct krn_config *config, enum krn_dtype dtype,
                                uint64_t seed, struct krn_model **out, struct status_note *note) {
    return make_model(config, dtype, seed, false, out, note);
}

enum status krn_model_shape(const char *name, uint64_t seed, struct krn_model **out,
                            struct status_note *note) {
    struct krn_config c;
    TRY(krn_shape_config(name, &c, note));
    return make_model(&c, KRN_BF16, seed, true, out, note);
}

enum status krn_model_fill(struct krn_model *model, struct status_note *note) {
    struct krn_tensor *t = (struct krn_tensor *)(uintptr_t)model->tensors;
    uint64_t bytes = 0;
    uint64_t has = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
    for (uint32_t i = 0; i < model->n_tensors; i++)
        bytes += t[i].data == NULL ? t[i].bytes : 0;
    /* A system that promises more than it has would end the program, not the call. */
    if (bytes > has / 3)
        return status_say(note, STATUS_NO_MEMORY,
                          "weights of this shape take %llu MiB, and as much again when they are "
                          "packed; this machine has %llu MiB: take a smaller shape or a GPU",
                          (unsigned long long)(bytes >> 20), (unsigned long long)(has >> 20));
    for (uint32_t i = 0; i < model->n_tensors; i++)
        if (t[i].data == NULL)
            TRY(make_bytes(model, &t[i], note));
    return STATUS_OK;
}
