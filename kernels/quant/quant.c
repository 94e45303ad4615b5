/* SPDX-License-Identifier: Apache-2.0
 * The table of formats, and the plain ones.
 */
#include "kernels/quant/quant.h"

#include <stdio.h>

#include "actors/check.h"

static void unpack_f32(const uint8_t *block, float *out) {
    memcpy(out, block, sizeof *out);
}

static void unpack_f16(const uint8_t *block, float *out) {
    *out = krn_quant_f16(block);
}

static void unpack_bf16(const uint8_t *block, float *out) {
    *out = krn_widen_bf16((uint16_t)(block[0] | block[1] << 8));
}

static const struct krn_format formats[KRN_TYPES] = {
    [KRN_F32] = {"F32", 1, 4, 4, unpack_f32},
    [KRN_F16] = {"F16", 1, 2, 2, unpack_f16},
    [KRN_BF16] = {"BF16", 1, 2, 2, unpack_bf16},
    [KRN_Q8_0] = {"Q8_0", 32, 34, 1, krn_unpack_q8_0},
    [KRN_Q4_0] = {"Q4_0", 32, 18, 1, krn_unpack_q4_0},
    [KRN_Q4_1] = {"Q4_1", 32, 20, 1, krn_unpack_q4_1},
    [KRN_Q5_0] = {"Q5_0", 32, 22, 1, krn_unpack_q5_0},
    [KRN_Q5_1] = {"Q5_1", 32, 24, 1, krn_unpack_q5_1},
    [KRN_Q4_K] = {"Q4_K", 256, 144, 1, krn_unpack_q4_k},
    [KRN_Q5_K] = {"Q5_K", 256, 176, 1, krn_unpack_q5_k},
    [KRN_Q6_K] = {"Q6_K", 256, 210, 1, krn_unpack_q6_k},
    [KRN_IQ4_NL] = {"IQ4_NL", 32, 18, 1, krn_unpack_iq4_nl},
};

const struct krn_format *krn_format_of(enum krn_dtype type) {
    CHECK((unsigned)type < KRN_TYPES);
    return &formats[type];
}

void krn_unpack(enum krn_dtype type, const void *data, uint64_t first, uint64_t n, float *out) {
    const struct krn_format *f = krn_format_of(type);
    CHECK(first % f->block == 0 && n % f->block == 0);
    const uint8_t *at = (const uint8_t *)data + first / f->block * f->bytes;
    for (uint64_t i = 0; i < n; i += f->block, at += f->bytes)
        f->unpack(at, out + i);
}

void krn_format_words(enum krn_dtype first, char *out, size_t bytes) {
    CHECK(bytes > 0);
    out[0] = '\0';
    size_t at = 0;
    for (unsigned t = first; t < KRN_TYPES; t++) {
        int n = snprintf(out + at, bytes - at, "%s%s", at == 0 ? "" : ", ", formats[t].word);
        if (n < 0 || (size_t)n >= bytes - at)
            return;
        at += (size_t)n;
    }
}
