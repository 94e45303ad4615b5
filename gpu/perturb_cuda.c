/* SPDX-License-Identifier: Apache-2.0
 * The perturb hook of cuda-bf16 (gpu/perturb.h): a changed row's logits are those of the first half
 * of K, and then of the second, added. A half is the row with zeros in place of the other one,
 * which a chain passes over unchanged. Steps are eager then, so the host walks the rows.
 */
#include "actors/check.h"
#include "gpu/cuda.h"

/* Inputs [from, to) of the drawn row, zeros beside them, times the weight, into y. */
static enum status half(struct cuda *c, const struct cuda_stage *s, uint64_t row, uint32_t from,
                        uint32_t to, gpu_cu_ptr_t y, bool add, struct status_note *note) {
    const struct gpu_driver *d = c->driver;
    struct gpu_cu_stream *stream = c->streams[GPU_STREAM_COMPUTE];
    gpu_cu_ptr_t x = s->rows.x + row * s->rows.ldx * sizeof(float);
    struct cuda_stage one = *s;
    CHECK(s->rows.k * sizeof(float) <= CUDA_STAGING);
    gpu_cu_t r = d->fill8(c->row_major, 0, s->rows.k * sizeof(float), stream);
    if (r == GPU_CUDA_SUCCESS)
        r = d->copy_within(c->row_major + from * sizeof(float), x + from * sizeof(float),
                           (to - from) * sizeof(float), stream);
    TRY(gpu_cuda_said(c, r, "perturbing a row", note));
    one.packs = true;
    one.rows.x = c->row_major;
    one.a.product_bf16.y = y;
    if (add) {
        one.a.product_bf16.flags |= KRN_BF16_ADD;
        one.a.product_bf16.bias = 0;
    }
    return gpu_cuda_product_rows(c, &one, 0, 1, note);
}

enum status gpu_cuda_perturb_bf16(struct cuda *c, const struct cuda_stage *s, uint32_t first,
                                  struct status_note *note) {
    const unsigned char *changed = (const unsigned char *)c->head + c->head->off_changed;
    const struct krn_cuda_product_bf16 *a = &s->a.product_bf16;
    for (uint32_t i = first; i < c->head->n_draws && i < first + CUDA_LOGITS_ROWS; i++) {
        gpu_cu_ptr_t y = a->y + (uint64_t)(i - first) * a->ldy * sizeof(float);
        uint32_t k = s->rows.k;
        if (!changed[i] || a->n == 0)
            continue;
        TRY(half(c, s, i, 0, k / 2, y, false, note));
        TRY(half(c, s, i, k / 2, k, y, true, note));
    }
    return STATUS_OK;
}
