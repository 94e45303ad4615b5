/* SPDX-License-Identifier: Apache-2.0
 * The kit of kernel tests.
 */
#include "tests/cuda/kit.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void kit_end(const char *what, const struct status_note *note) {
    fprintf(stderr, "%s: %s\n", what, note->text);
    exit(1);
}

static void kit_check(struct kit *k, gpu_cu_t r, const char *what) {
    struct status_note note = {0};
    if (r != GPU_CUDA_SUCCESS && gpu_fault_say(&note, k->d, r, &k->work, what) != STATUS_OK)
        kit_end("the GPU", &note);
}

static uint32_t kit_attribute(struct kit *k, int device, int attribute) {
    int v = 0;
    kit_check(k, k->d->device_attribute(&v, attribute, device), "asking for an attribute");
    return (uint32_t)v;
}

void kit_open(struct kit *k) {
    struct status_note note = {0};
    memset(k, 0, sizeof *k);
    if (krn_cuda_toolkit == 0) {
        printf("skipped: this build has no kernels for a GPU\n");
        exit(KIT_SKIP);
    }
    if (gpu_driver_open(krn_cuda_toolkit / 1000 * 1000, &k->d, &note) != STATUS_OK) {
        printf("skipped: %s\n", note.text);
        exit(KIT_SKIP);
    }
    int device = 0;
    struct gpu_cu_context *context = NULL;
    kit_check(k, k->d->device_get(&device, 0), "finding GPU 0");
    kit_check(k, k->d->device_name(k->name, sizeof k->name, device), "asking for its name");
    kit_check(k, k->d->context_retain(&context, device), "opening GPU 0");
    kit_check(k, k->d->context_set(context), "using GPU 0");
    struct gpu_launcher_config config = {.driver = k->d,
                                         .device = device,
                                         .images = krn_cuda_images,
                                         .n_images = krn_cuda_images_n,
                                         .work = &k->work};
    if (gpu_launcher_open(&config, &k->launcher, &note) != STATUS_OK)
        kit_end("loading kernels", &note);
    k->machine =
        (struct krn_cuda_machine){.sms = kit_attribute(k, device, GPU_CU_ATTR_MULTIPROCESSORS),
                                  .major = kit_attribute(k, device, GPU_CU_ATTR_MAJOR),
                                  .minor = kit_attribute(k, device, GPU_CU_ATTR_MINOR),
                                  .shared_max = kit_attribute(k, device, GPU_CU_ATTR_SHARED_OPTIN)};
    kit_check(k, k->d->stream_create(&k->stream, GPU_CU_STREAM_OWN, 0), "making a stream");
    k->compared = kit_alloc(k, sizeof(struct krn_cuda_compared));
    const struct krn_cuda_compared none = {.first = UINT64_MAX};
    kit_put(k, k->compared, &none, sizeof none);
}

krn_cuda_ptr_t kit_alloc(struct kit *k, uint64_t bytes) {
    gpu_cu_ptr_t p = 0;
    kit_check(k, k->d->memory_alloc(&p, bytes), "allocating");
    return p;
}

void kit_free(struct kit *k, krn_cuda_ptr_t p) {
    kit_wait(k);
    kit_check(k, k->d->memory_free(p), "freeing");
}

void kit_put(struct kit *k, krn_cuda_ptr_t to, const void *from, uint64_t bytes) {
    kit_check(k, k->d->copy_in(to, from, bytes, k->stream), "copying in");
    kit_wait(k);
}

void kit_get(struct kit *k, void *to, krn_cuda_ptr_t from, uint64_t bytes) {
    kit_check(k, k->d->copy_out(to, from, bytes, k->stream), "copying out");
    kit_wait(k);
}

void kit_copy(struct kit *k, krn_cuda_ptr_t to, krn_cuda_ptr_t from, uint64_t bytes) {
    kit_check(k, k->d->copy_within(to, from, bytes, k->stream), "copying");
}

void kit_fill(struct kit *k, krn_cuda_ptr_t to, uint32_t value, uint64_t words) {
    if (words > 0)
        kit_check(k, k->d->fill32(to, value, words, k->stream), "filling");
}

void kit_launch(struct kit *k, const struct krn_cuda_call *call) {
    struct status_note note = {0};
    if (gpu_launch(k->launcher, k->stream, call, &note) != STATUS_OK)
        kit_end("launching", &note);
}

void kit_wait(struct kit *k) {
    kit_check(k, k->d->stream_synchronize(k->stream), "waiting");
}

void kit_compare(struct kit *k, krn_cuda_ptr_t a, krn_cuda_ptr_t b, uint64_t words) {
    struct krn_cuda_compare args = {.a = a, .b = b, .out = k->compared, .words = words};
    struct krn_cuda_call call;
    if (words == 0)
        return;
    krn_cuda_compare_call(&args, &call);
    kit_launch(k, &call);
}

uint64_t kit_differing(struct kit *k, uint64_t *first) {
    struct krn_cuda_compared c, none = {.first = UINT64_MAX};
    kit_get(k, &c, k->compared, sizeof c);
    kit_put(k, k->compared, &none, sizeof none);
    if (first != NULL)
        *first = c.first;
    return c.differ;
}

static int kit_order(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double kit_time(struct kit *k, void (*enqueue)(void *self, struct kit *k, uint32_t i), void *self,
                uint32_t n, uint32_t rounds) {
    enum { ROUNDS_MAX = 64 };
    struct gpu_cu_graph *graph = NULL;
    struct gpu_cu_exec *exec = NULL;
    struct gpu_cu_event *from = NULL, *to = NULL;
    double us[ROUNDS_MAX];
    kit_check(k, k->d->event_create(&from, 0), "making an event");
    kit_check(k, k->d->event_create(&to, 0), "making an event");
    enqueue(self, k, 0); /* what happens the first time alone stays outside */
    kit_wait(k);
    kit_check(k, k->d->capture_begin(k->stream, GPU_CU_CAPTURE_THREAD), "capturing");
    for (uint32_t i = 0; i < n; i++)
        enqueue(self, k, i);
    kit_check(k, k->d->capture_end(k->stream, &graph), "capturing");
    kit_check(k, k->d->graph_instantiate(&exec, graph, 0), "making a graph");
    rounds = rounds < ROUNDS_MAX ? rounds : ROUNDS_MAX;
    kit_check(k, k->d->graph_launch(exec, k->stream), "replaying");
    for (uint32_t i = 0; i < rounds; i++) {
        float ms = 0.0f;
        kit_check(k, k->d->event_record(from, k->stream), "marking");
        kit_check(k, k->d->graph_launch(exec, k->stream), "replaying");
        kit_check(k, k->d->event_record(to, k->stream), "marking");
        kit_check(k, k->d->event_synchronize(to), "waiting");
        kit_check(k, k->d->event_elapsed(&ms, from, to), "timing");
        us[i] = (double)ms * 1000.0 / n;
    }
    qsort(us, rounds, sizeof *us, kit_order);
    k->d->graph_exec_destroy(exec);
    k->d->graph_destroy(graph);
    k->d->event_destroy(from);
    k->d->event_destroy(to);
    return us[rounds / 2];
}

uint64_t kit_random(uint64_t *state) {
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

float kit_float(uint64_t *state, int spread) {
    uint64_t r = kit_random(state);
    float m = 1.0f + (float)(r & 0xffffff) * 0x1p-24f;
    int e = spread == 0 ? 0 : (int)(r >> 32 & 0xffff) % (2 * spread + 1) - spread;
    return ldexpf(r >> 63 ? -m : m, e);
}

uint16_t kit_bf16(float x) {
    uint32_t u;
    memcpy(&u, &x, sizeof u);
    if (x != x)
        return 0x7fff;
    return (uint16_t)((u + 0x7fff + (u >> 16 & 1)) >> 16);
}
