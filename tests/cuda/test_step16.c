/* SPDX-License-Identifier: Apache-2.0
 * step16 in integers (kernels/step16.h) against this machine's tensor cores, bit for bit, over
 * every kind of input; and the attention made of it against the device's own oracle.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "kernels/approx.h"
#include "kernels/cuda/oracle_bf16.h"
#include "kernels/oracle_rows.h"
#include "kernels/step16.h"
#include "tests/cuda/kit.h"
#include "tests/kernels/step16_inputs.h"

static int failures;

static bool same(float a, float b) {
    return krn_bits(a) == krn_bits(b) || (a != a && b != b);
}

static void test_kind(struct kit *k, uint32_t kind) {
    static uint16_t x[STEP16_ROWS * STEP16_K_MAX], w[STEP16_OUTPUTS * STEP16_K_MAX];
    static float wide[STEP16_ROWS * STEP16_K_MAX], y[STEP16_ROWS * STEP16_OUTPUTS];
    uint32_t n_k = step16_inputs(kind, x, w), all = STEP16_ROWS * STEP16_OUTPUTS, differ = 0;
    static uint32_t some[STEP16_ROWS / 4 * STEP16_OUTPUTS / 16];
    size_t n_some = 0;
    for (uint32_t i = 0; i < STEP16_ROWS * n_k; i++)
        wide[i] = krn_widen_bf16(x[i]);
    struct krn_cuda_oracle_product o = {.x = kit_alloc(k, sizeof wide),
                                        .w = kit_alloc(k, sizeof w),
                                        .y = kit_alloc(k, sizeof y),
                                        .rows = STEP16_ROWS,
                                        .n = STEP16_OUTPUTS,
                                        .k = n_k,
                                        .segments = 1};
    struct krn_cuda_call call;
    kit_put(k, o.x, wide, sizeof wide);
    kit_put(k, o.w, w, sizeof w);
    krn_cuda_oracle_product_call(&o, &call);
    kit_launch(k, &call);
    kit_get(k, y, o.y, sizeof y);
    for (uint32_t r = 0; r < STEP16_ROWS; r++)
        for (uint32_t n = 0; n < STEP16_OUTPUTS; n++) {
            float got = y[r * STEP16_OUTPUTS + n];
            float model = krn_step16_chain(0.0f, x + r * n_k, w + n * n_k, n_k);
            if (!same(got, model) && differ++ < 3)
                printf("  row %u output %u: %a, the model has %a\n", r, n, (double)got,
                       (double)model);
            if (r % 4 == 0 && n % 16 == 0)
                some[n_some++] = got != got ? 0x7fc00000 : krn_bits(got);
        }
    printf("%-20s %3u inputs: %u of %u differ, digest %016llx\n", step16_kinds[kind].name, n_k,
           differ, all, (unsigned long long)XXH3_64bits(some, sizeof some));
    failures += differ != 0;
    kit_free(k, o.x);
    kit_free(k, o.w);
    kit_free(k, o.y);
}

struct shape {
    uint32_t heads, kv_heads, head_dim, window, segment, keys, sharp;
};

static void test_attend(struct kit *k, const struct shape *s, uint64_t seed) {
    uint32_t width = s->heads * s->head_dim, kv = s->kv_heads * s->head_dim, differ = 0, rows = 0;
    size_t n_q = (size_t)s->keys * width, n_kv = (size_t)s->keys * kv;
    float *q = malloc(n_q * 4), *out = malloc(n_q * 4), *row = malloc(width * 4);
    float *wide = malloc(2 * n_kv * 4);
    uint16_t *bits = malloc(2 * n_kv * 2);
    for (size_t i = 0; i < n_q; i++)
        q[i] = ldexpf(kit_float(&seed, 2), (int)s->sharp);
    for (size_t i = 0; i < 2 * n_kv; i++) {
        bits[i] = kit_bf16(kit_random(&seed) % 50 == 0 ? 0.0f : kit_float(&seed, 3));
        wide[i] = krn_widen_bf16(bits[i]);
    }
    struct krn_cuda_oracle_attend o = {.q = kit_alloc(k, n_q * 4),
                                       .k = kit_alloc(k, n_kv * 2),
                                       .v = kit_alloc(k, n_kv * 2),
                                       .out = kit_alloc(k, n_q * 4),
                                       .rows = s->keys,
                                       .heads = s->heads,
                                       .kv_heads = s->kv_heads,
                                       .head_dim = s->head_dim,
                                       .window = s->window,
                                       .segment = s->segment,
                                       .scale = 1.0f / sqrtf((float)s->head_dim)};
    struct krn_cuda_call call;
    kit_put(k, o.q, q, n_q * 4);
    kit_put(k, o.k, bits, n_kv * 2);
    kit_put(k, o.v, bits + n_kv, n_kv * 2);
    krn_cuda_oracle_attend_call(&o, &call);
    kit_launch(k, &call);
    kit_get(k, out, o.out, n_q * 4);
    for (uint32_t r = 0; r < s->keys; r += r < 70 ? 1 : 13, rows++) {
        struct krn_oracle_attend a = {.q = q + (size_t)r * width,
                                      .keys = wide,
                                      .values = wide + n_kv,
                                      .pos = r,
                                      .heads = s->heads,
                                      .kv_heads = s->kv_heads,
                                      .head_dim = s->head_dim,
                                      .window = s->window,
                                      .segment = s->segment,
                                      .scale = o.scale,
                                      .out = row};
        krn_oracle_attend_cuda(&a);
        for (uint32_t i = 0; i < width; i++)
            differ += !same(row[i], out[(size_t)r * width + i]);
    }
    printf("attention, %u heads of %3u, segment %3u, window %3u: %u of %u differ\n", s->heads,
           s->head_dim, s->segment, s->window, differ, rows * width);
    failures += differ != 0;
    kit_free(k, o.q);
    kit_free(k, o.k);
    kit_free(k, o.v);
    kit_free(k, o.out);
    free(q);
    free(out);
    free(row);
    free(wide);
    free(bits);
}

int main(void) {
    static const struct shape shapes[] = {{8, 2, 64, 0, 512, 700, 0},
                                          {4, 1, 128, 0, 128, 400, 1},
                                          {6, 2, 96, 100, 128, 500, 0},
                                          {3, 3, 16, 0, 64, 300, 3},
                                          {2, 1, 256, 0, 128, 300, 2}};
    static struct kit kit;
    kit_open(&kit);
    printf("%s, sm_%u%u\n", kit.name, kit.machine.major, kit.machine.minor);
    if (kit.machine.major != 9 || kit.machine.minor != 0) {
        printf("skipped: the model is of compute capability 9.0\n");
        return KIT_SKIP;
    }
    for (uint32_t i = 0; i < STEP16_KINDS; i++)
        test_kind(&kit, i);
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        test_attend(&kit, &shapes[i], 40 + i);
    printf(failures == 0 ? "all equal\n" : "%d failures\n", failures);
    return failures != 0;
}
