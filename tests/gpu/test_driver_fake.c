/* SPDX-License-Identifier: Apache-2.0
 * The fake driver keeps the rules of a real one: what stands on it is tested against rules, not
 * against its own wishes.
 */
#include <pthread.h>

#include "tests/gpu/fake_rig.h"

static const struct gpu_fake_config at_once = {0}, deferred = {.deferred = true};

static uint64_t value_at(gpu_cu_ptr_t p) {
    uint64_t v;
    memcpy(&v, (const void *)(uintptr_t)p, sizeof v);
    return v;
}

static gpu_cu_t add(struct rig *r, struct gpu_cu_stream *stream, gpu_cu_ptr_t in, gpu_cu_ptr_t out,
                    uint64_t n) {
    struct gpu_cu_module *m;
    struct gpu_cu_function *f;
    struct rig_args args = {in, out, n};
    void *params[] = {&args};
    struct gpu_cu_launch launch = {.grid = {1, 1, 1}, .block = {32, 1, 1}, .stream = stream};
    int relaxed = GPU_CU_CAPTURE_RELAXED;
    RIG_OK(r->d->capture_mode(&relaxed));
    RIG_OK(r->d->module_load(&m, rig_image_bytes));
    RIG_OK(r->d->capture_mode(&relaxed));
    RIG_OK(r->d->module_function(&f, m, "rig_add"));
    gpu_cu_t result = r->d->launch(&launch, f, params, NULL);
    RIG_OK(r->d->module_unload(m));
    return result;
}

START_TEST(test_order_and_events) {
    struct rig r;
    gpu_cu_ptr_t p;
    struct gpu_cu_event *e, *begin;
    rig_begin(&r, &deferred);
    RIG_OK(r.d->memory_alloc(&p, 64));
    RIG_OK(r.d->event_create(&e, GPU_CU_EVENT_UNTIMED));
    RIG_OK(r.d->event_create(&begin, 0));
    RIG_OK(r.d->event_record(begin, r.a));
    RIG_OK(r.d->fill8(p, 0, 64, r.a));
    RIG_OK(add(&r, r.a, p + 8, p, 5));
    RIG_OK(r.d->event_record(e, r.a));
    RIG_OK(r.d->stream_wait(r.b, e, 0));
    RIG_OK(add(&r, r.b, p, p + 16, 1));
    ck_assert_int_eq(r.d->event_query(e), GPU_CUDA_ERROR_NOT_READY);
    ck_assert_int_eq(r.d->stream_query(r.b), GPU_CUDA_ERROR_NOT_READY);
    ck_assert_uint_eq(gpu_fake_run(2), 2);
    ck_assert_int_eq(r.d->event_query(e), GPU_CUDA_ERROR_NOT_READY);
    RIG_OK(r.d->stream_synchronize(r.b));
    RIG_OK(r.d->event_query(e));
    ck_assert_uint_eq(value_at(p), 5);
    ck_assert_uint_eq(value_at(p + 16), 6);
    float ms = -1;
    RIG_OK(r.d->event_elapsed(&ms, begin, e));
    ck_assert(ms > 0);
    ck_assert_uint_eq(gpu_fake_waits(), 0);
    RIG_OK(r.d->fill8(p, 1, 64, r.a));
    RIG_OK(r.d->memory_free(p)); /* with work pending: the whole device waits */
    ck_assert_uint_eq(gpu_fake_waits(), 1);
    RIG_OK(r.d->event_destroy(e));
    RIG_OK(r.d->event_destroy(begin));
    rig_end(&r);
}
END_TEST

START_TEST(test_host_memory) {
    /* Pinned memory is read when a copy runs, other memory when it is enqueued. */
    struct rig r;
    gpu_cu_ptr_t p;
    void *pinned;
    uint64_t plain = 1;
    rig_begin(&r, &deferred);
    RIG_OK(r.d->memory_alloc(&p, 64));
    RIG_OK(r.d->host_alloc(&pinned, 64, GPU_CU_HOST_PORTABLE));
    memcpy(pinned, &plain, sizeof plain);
    RIG_OK(r.d->copy_in(p, &plain, 8, r.a));
    RIG_OK(r.d->copy_in(p + 8, pinned, 8, r.a));
    plain = 2;
    memcpy(pinned, &plain, sizeof plain);
    RIG_OK(r.d->stream_synchronize(r.a));
    ck_assert_uint_eq(value_at(p), 1);
    ck_assert_uint_eq(value_at(p + 8), 2);
    RIG_OK(r.d->host_free(pinned));
    ck_assert_int_eq(r.d->host_free(pinned), GPU_CUDA_ERROR_INVALID_VALUE);
    RIG_OK(r.d->memory_free(p));
    ck_assert_int_eq(r.d->memory_free(p), GPU_CUDA_ERROR_INVALID_VALUE);
    rig_end(&r);
}
END_TEST

START_TEST(test_graphs_freeze_arguments) {
    struct rig r;
    gpu_cu_ptr_t p;
    struct gpu_cu_graph *g;
    struct gpu_cu_exec *x;
    size_t n;
    uint64_t five = 5;
    rig_begin(&r, &at_once);
    RIG_OK(r.d->memory_alloc(&p, 64));
    RIG_OK(r.d->fill8(p, 0, 64, r.a));
    RIG_OK(r.d->capture_begin(r.a, GPU_CU_CAPTURE_THREAD));
    RIG_OK(add(&r, r.a, p + 8, p, 7));
    RIG_OK(add(&r, r.a, p + 8, p, 9));
    ck_assert_uint_eq(value_at(p), 0); /* recorded, not run */
    RIG_OK(r.d->capture_end(r.a, &g));
    RIG_OK(r.d->graph_nodes(g, NULL, &n));
    ck_assert_uint_eq(n, 2);
    RIG_OK(r.d->graph_instantiate(&x, g, 0));
    RIG_OK(r.d->graph_destroy(g));
    RIG_OK(r.d->graph_launch(x, r.a));
    ck_assert_uint_eq(value_at(p), 7 * 3 + 9);
    /* What lies on the device is read anew, the argument is not. */
    RIG_OK(r.d->copy_in(p + 8, &five, 8, r.a));
    RIG_OK(r.d->graph_launch(x, r.a));
    ck_assert_uint_eq(value_at(p), (30 * 3 + 5 + 7) * 3 + 5 + 9);
    RIG_OK(r.d->graph_exec_destroy(x));
    ck_assert_int_eq(r.d->graph_launch(x, r.a), GPU_CUDA_ERROR_INVALID_VALUE);
    RIG_OK(r.d->memory_free(p));
    rig_end(&r);
}
END_TEST

START_TEST(test_destroyed_while_it_runs) {
    struct rig r;
    gpu_cu_ptr_t p;
    struct gpu_cu_graph *g;
    struct gpu_cu_exec *x;
    rig_begin(&r, &deferred);
    RIG_OK(r.d->memory_alloc(&p, 64));
    RIG_OK(r.d->capture_begin(r.a, GPU_CU_CAPTURE_THREAD));
    RIG_OK(add(&r, r.a, p + 8, p, 7));
    RIG_OK(r.d->capture_end(r.a, &g));
    RIG_OK(r.d->graph_instantiate(&x, g, 0));
    RIG_OK(r.d->graph_destroy(g));
    RIG_OK(r.d->graph_launch(x, r.a));
    RIG_OK(r.d->graph_exec_destroy(x));
    RIG_OK(r.d->stream_synchronize(r.a));
    ck_assert_uint_eq(value_at(p), 7);
    RIG_OK(r.d->memory_free(p));
    rig_end(&r);
}
END_TEST

START_TEST(test_fork_and_join) {
    struct rig r;
    gpu_cu_ptr_t p;
    struct gpu_cu_graph *g;
    struct gpu_cu_event *fork, *join;
    rig_begin(&r, &at_once);
    RIG_OK(r.d->memory_alloc(&p, 64));
    RIG_OK(r.d->event_create(&fork, 0));
    RIG_OK(r.d->event_create(&join, 0));
    for (int joined = 0; joined < 2; joined++) {
        RIG_OK(r.d->capture_begin(r.a, GPU_CU_CAPTURE_THREAD));
        RIG_OK(add(&r, r.a, p, p, 1));
        RIG_OK(r.d->event_record(fork, r.a));
        RIG_OK(r.d->stream_wait(r.b, fork, 0));
        RIG_OK(add(&r, r.b, p, p, 1));
        RIG_OK(r.d->event_record(join, r.b));
        if (joined)
            RIG_OK(r.d->stream_wait(r.a, join, 0));
        ck_assert_int_eq(r.d->capture_end(r.a, &g),
                         joined ? GPU_CUDA_SUCCESS : GPU_CUDA_ERROR_STREAM_CAPTURE_UNJOINED);
        ck_assert(joined ? g != NULL : g == NULL);
    }
    RIG_OK(r.d->graph_destroy(g));
    /* An event from before the capture is not the graph's. */
    RIG_OK(r.d->event_record(fork, r.b));
    RIG_OK(r.d->capture_begin(r.a, GPU_CU_CAPTURE_THREAD));
    ck_assert_int_eq(r.d->stream_wait(r.a, fork, 0), GPU_CUDA_ERROR_STREAM_CAPTURE_ISOLATION);
    ck_assert_int_eq(r.d->capture_end(r.a, &g), GPU_CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    RIG_OK(r.d->event_destroy(fork));
    RIG_OK(r.d->event_destroy(join));
    RIG_OK(r.d->memory_free(p));
    rig_end(&r);
}
END_TEST

struct other {
    struct rig *r;
    gpu_cu_t alloc, end;
    gpu_cu_ptr_t p;
};

static void *other_thread(void *self) {
    struct other *o = self;
    struct gpu_cu_graph *g;
    o->r->d->context_set(o->r->context);
    o->alloc = o->r->d->memory_alloc(&o->p, 64);
    o->end = o->r->d->capture_end(o->r->a, &g);
    return NULL;
}

START_TEST(test_other_threads) {
    /* A thread-local capture does not mind what another thread does; a global one is lost by it;
     * neither may be ended there. */
    struct rig r;
    rig_begin(&r, &at_once);
    for (int mode = GPU_CU_CAPTURE_GLOBAL; mode <= GPU_CU_CAPTURE_THREAD; mode++) {
        struct other o = {.r = &r};
        pthread_t thread;
        struct gpu_cu_graph *g;
        bool lost = mode == GPU_CU_CAPTURE_GLOBAL;
        uint64_t foreign = gpu_fake_foreign_calls();
        RIG_OK(r.d->capture_begin(r.a, mode));
        ck_assert_int_eq(pthread_create(&thread, NULL, other_thread, &o), 0);
        pthread_join(thread, NULL);
        ck_assert_uint_eq(gpu_fake_foreign_calls(), foreign + 2);
        ck_assert_int_eq(o.alloc,
                         lost ? GPU_CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED : GPU_CUDA_SUCCESS);
        ck_assert_int_eq(o.end, GPU_CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD);
        ck_assert_int_eq(r.d->capture_end(r.a, &g),
                         lost ? GPU_CUDA_ERROR_STREAM_CAPTURE_INVALIDATED : GPU_CUDA_SUCCESS);
        if (!lost) {
            RIG_OK(r.d->graph_destroy(g));
            RIG_OK(r.d->memory_free(o.p));
        }
    }
    rig_end(&r);
}
END_TEST

START_TEST(test_forbidden_in_a_capture) {
    struct rig r;
    gpu_cu_ptr_t p;
    struct gpu_cu_graph *g;
    int state;
    rig_begin(&r, &at_once);
    for (int what = 0; what < 3; what++) {
        RIG_OK(r.d->capture_begin(r.a, GPU_CU_CAPTURE_THREAD));
        gpu_cu_t refused = what == 0   ? r.d->memory_alloc(&p, 64)
                           : what == 1 ? r.d->stream_synchronize(r.a)
                                       : r.d->context_synchronize();
        ck_assert_int_eq(refused, GPU_CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
        RIG_OK(r.d->capture_state(r.a, &state));
        ck_assert_int_eq(state, GPU_CU_CAPTURING_LOST);
        ck_assert_int_eq(r.d->capture_end(r.a, &g), GPU_CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
        RIG_OK(r.d->capture_state(r.a, &state));
        ck_assert_int_eq(state, GPU_CU_CAPTURING_NOT);
        RIG_OK(r.d->stream_synchronize(r.a)); /* the stream is as good as before */
    }
    rig_end(&r);
}
END_TEST

START_TEST(test_vmm) {
    struct rig r;
    gpu_cu_ptr_t p;
    unsigned long long block;
    size_t unit, free_bytes, total;
    struct gpu_cu_memory what = {.type = GPU_CU_MEMORY_PINNED, .place = {GPU_CU_PLACE_DEVICE, 0}};
    struct gpu_cu_access access = {{GPU_CU_PLACE_DEVICE, 0}, GPU_CU_ACCESS_BOTH};
    rig_begin(&r, &at_once);
    RIG_OK(r.d->block_granularity(&unit, &what, GPU_CU_GRANULARITY_LEAST));
    RIG_OK(r.d->address_reserve(&p, 4 * unit, 0, 0, 0));
    what.flags.rdma = 1;
    ck_assert_int_eq(r.d->block_create(&block, unit, &what, 0), GPU_CUDA_ERROR_NOT_SUPPORTED);
    what.flags.rdma = 0;
    RIG_OK(r.d->block_create(&block, unit, &what, 0));
    RIG_OK(r.d->memory_info(&free_bytes, &total));
    ck_assert_uint_eq(total - free_bytes, unit);
    RIG_OK(r.d->block_map(p + unit, unit, 0, block, 0));
    RIG_OK(r.d->block_access(p + unit, unit, &access, 1));
    RIG_OK(r.d->fill8(p + unit, 3, unit, r.a));
    ck_assert_uint_eq(value_at(p + unit + 8), 0x0303030303030303u);
    ck_assert_int_eq(r.d->block_map(p + unit, unit, 0, block, 0), GPU_CUDA_ERROR_ALREADY_MAPPED);
    ck_assert_int_eq(r.d->address_free(p, 4 * unit), GPU_CUDA_ERROR_INVALID_VALUE);
    RIG_OK(r.d->block_unmap(p + unit, unit));
    RIG_OK(r.d->block_release(block));
    RIG_OK(r.d->address_free(p, 4 * unit));
    rig_end(&r);
}
END_TEST

START_TEST(test_failures_on_demand) {
    struct rig r;
    gpu_cu_ptr_t p, q;
    const char *name;
    rig_begin(&r, &(struct gpu_fake_config){.memory_bytes = 1 << 20});
    gpu_fake_fail("memory_alloc", 1, 1, GPU_CUDA_ERROR_OUT_OF_MEMORY);
    RIG_OK(r.d->memory_alloc(&p, 64));
    ck_assert_int_eq(r.d->memory_alloc(&q, 64), GPU_CUDA_ERROR_OUT_OF_MEMORY);
    RIG_OK(r.d->memory_alloc(&q, 64));
    ck_assert_uint_eq(gpu_fake_calls("memory_alloc"), 3);
    gpu_fake_pressure(0, 1 << 20);
    gpu_cu_ptr_t none;
    ck_assert_int_eq(r.d->memory_alloc(&none, 64), GPU_CUDA_ERROR_OUT_OF_MEMORY);
    /* A copy out of memory that is not there kills the context for good. */
    RIG_OK(r.d->memory_free(q));
    RIG_OK(r.d->copy_within(p, q, 8, r.a));
    ck_assert_int_eq(r.d->stream_synchronize(r.a), GPU_CUDA_ERROR_ILLEGAL_ADDRESS);
    ck_assert_int_eq(r.d->memory_free(p), GPU_CUDA_ERROR_ILLEGAL_ADDRESS);
    ck_assert_int_eq(r.d->error_name(700, &name), GPU_CUDA_ERROR_ILLEGAL_ADDRESS);
    ck_assert_ptr_null(name);
    rig_begin(&r, &at_once); /* a new one knows nothing of it */
    RIG_OK(r.d->memory_alloc(&p, 64));
    gpu_fake_fail_work(1, GPU_CUDA_ERROR_LAUNCH_FAILED);
    RIG_OK(r.d->fill8(p, 0, 64, r.a));
    RIG_OK(r.d->fill8(p, 0, 64, r.a));
    ck_assert_int_eq(r.d->stream_query(r.a), GPU_CUDA_ERROR_LAUNCH_FAILED);
    gpu_fake_driver(&at_once);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("gpu/driver_fake");
    TCase *tc = tcase_create("fake");
    tcase_add_test(tc, test_order_and_events);
    tcase_add_test(tc, test_host_memory);
    tcase_add_test(tc, test_graphs_freeze_arguments);
    tcase_add_test(tc, test_destroyed_while_it_runs);
    tcase_add_test(tc, test_fork_and_join);
    tcase_add_test(tc, test_other_threads);
    tcase_add_test(tc, test_forbidden_in_a_capture);
    tcase_add_test(tc, test_vmm);
    tcase_add_test(tc, test_failures_on_demand);
    suite_add_tcase(suite, tc);
    return test_run(suite);
}
