/* SPDX-License-Identifier: Apache-2.0
 * What the first GPU's memory and matrix units do at best, for the floors that benchmarks print.
 */
#include "gpu/driver.h"
#include "gpu/launch.h"
#include "gpu/rates.h"
#include "kernels/cuda/rate.h"

enum { RATES_TIMES = 8, RATES_TURNS = 20000, RATES_TURNS_SHORT = 1000, RATES_LAUNCHES = 3 };
static const uint64_t RATES_COPY_BYTES = 1u << 30;

struct rates {
    const struct gpu_driver *d;
    int device;
    struct gpu_cu_context *context;
    struct gpu_cu_stream *stream;
    struct gpu_cu_event *event[2];
    struct gpu_launcher *launcher;
    gpu_cu_ptr_t from, to;
};

static enum status said(const struct rates *r, gpu_cu_t result, struct status_note *note) {
    return gpu_fault_say(note, r->d, result, NULL, "measuring the GPU");
}

static gpu_cu_t elapsed(const struct rates *r, float *ms) {
    gpu_cu_t result = r->d->event_record(r->event[1], r->stream);
    if (result == GPU_CUDA_SUCCESS)
        result = r->d->event_synchronize(r->event[1]);
    if (result == GPU_CUDA_SUCCESS)
        result = r->d->event_elapsed(ms, r->event[0], r->event[1]);
    return result;
}

/* Bytes read and written a second; the first copy is not counted. */
static enum status measure_copy(struct rates *r, double *out, struct status_note *note) {
    float ms = 0;
    gpu_cu_t result = r->d->memory_alloc(&r->from, RATES_COPY_BYTES);
    if (result == GPU_CUDA_SUCCESS)
        result = r->d->memory_alloc(&r->to, RATES_COPY_BYTES);
    for (int i = 0; i <= RATES_TIMES && result == GPU_CUDA_SUCCESS; i++) {
        result = r->d->copy_within(r->to, r->from, RATES_COPY_BYTES, r->stream);
        if (i == 0 && result == GPU_CUDA_SUCCESS)
            result = r->d->event_record(r->event[0], r->stream);
    }
    if (result == GPU_CUDA_SUCCESS)
        result = elapsed(r, &ms);
    TRY(said(r, result, note));
    *out = 2.0 * (double)RATES_COPY_BYTES * RATES_TIMES / ((double)ms * 1e-3);
    return STATUS_OK;
}

/* Operations a second, an addition and a multiplication each counting as one; 0 where this build
 * has no kernel for it. */
static enum status measure_matrix(struct rates *r, double *out, struct status_note *note) {
    int sms = 0;
    float ms = 0;
    *out = 0;
    TRY(said(r, r->d->device_attribute(&sms, GPU_CU_ATTR_MULTIPROCESSORS, r->device), note));
    struct krn_cuda_rate a = {.out = r->to, .turns = RATES_TURNS_SHORT, .blocks = (uint32_t)sms};
    struct krn_cuda_call call;
    if (!gpu_launcher_has(r->launcher, "krn_cuda_rate"))
        return STATUS_OK;
    for (int i = 0; i <= RATES_LAUNCHES; i++) {
        krn_cuda_rate_call(&a, &call);
        TRY(gpu_launch(r->launcher, r->stream, &call, note));
        if (i == 0)
            TRY(said(r, r->d->event_record(r->event[0], r->stream), note));
        a.turns = RATES_TURNS;
    }
    TRY(said(r, elapsed(r, &ms), note));
    *out = 2.0 * KRN_RATE_TURN * a.turns * sms * RATES_LAUNCHES / ((double)ms * 1e-3);
    return STATUS_OK;
}

static enum status measure(struct rates *r, struct gpu_rates *out, struct status_note *note) {
    gpu_cu_t result = r->d->device_get(&r->device, 0);
    if (result == GPU_CUDA_SUCCESS)
        result = r->d->context_retain(&r->context, r->device);
    if (result == GPU_CUDA_SUCCESS)
        result = r->d->context_set(r->context);
    if (result == GPU_CUDA_SUCCESS)
        result = r->d->stream_create(&r->stream, GPU_CU_STREAM_OWN, 0);
    for (int i = 0; i < 2 && result == GPU_CUDA_SUCCESS; i++)
        result = r->d->event_create(&r->event[i], 0);
    TRY(said(r, result, note));
    const struct gpu_launcher_config config = {.driver = r->d,
                                               .device = r->device,
                                               .images = krn_cuda_images,
                                               .n_images = krn_cuda_images_n};
    TRY(gpu_launcher_open(&config, &r->launcher, note));
    TRY(measure_copy(r, &out->copy_bytes_s, note));
    return measure_matrix(r, &out->matrix_ops_s, note);
}

enum status gpu_rates_measure(struct gpu_rates *out, struct status_note *note) {
    struct rates r = {0};
    TRY(gpu_driver_open(krn_cuda_toolkit / 1000 * 1000, &r.d, note));
    enum status status = measure(&r, out, note);
    gpu_launcher_close(r.launcher);
    for (int i = 0; i < 2; i++)
        if (r.event[i] != NULL)
            r.d->event_destroy(r.event[i]);
    if (r.from != 0)
        r.d->memory_free(r.from);
    if (r.to != 0)
        r.d->memory_free(r.to);
    if (r.stream != NULL)
        r.d->stream_destroy(r.stream);
    r.d->context_set(NULL);
    if (r.context != NULL)
        r.d->context_release(r.device);
    return status;
}
