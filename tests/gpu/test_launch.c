/* SPDX-License-Identifier: Apache-2.0
 * Launches: kernels found once by name, images of other devices left out, and what a refused or
 * failed launch says.
 */
#include "gpu/launch.h"
#include "kernels/cuda/compare.h"
#include "tests/gpu/fake_rig.h"

static const struct gpu_fake_config at_once = {0};

static struct gpu_launcher_config config_of(struct rig *r, struct gpu_work *work) {
    return (struct gpu_launcher_config){
        .driver = r->d, .images = rig_images, .n_images = 2, .work = work};
}

static struct krn_cuda_call call_of(const struct rig_args *args) {
    return (struct krn_cuda_call){.kernel = "rig_add",
                                  .grid = {2, 1, 1},
                                  .block = {64, 2, 1},
                                  .shared = 256,
                                  .args_bytes = sizeof *args,
                                  .args = args};
}

START_TEST(test_by_name) {
    struct rig r;
    struct gpu_work work = {.plan = 3};
    struct gpu_launcher *l;
    gpu_cu_ptr_t p;
    uint32_t left_out;
    rig_begin(&r, &at_once);
    struct gpu_launcher_config config = config_of(&r, &work);
    ck_assert_int_eq(gpu_launcher_open(&config, &l, &r.note), STATUS_OK);
    ck_assert_uint_eq(gpu_launcher_count(l, &left_out), 2);
    ck_assert_uint_eq(left_out, 1);
    ck_assert(gpu_launcher_has(l, "rig_add") && gpu_launcher_has(l, "rig_other"));
    ck_assert(!gpu_launcher_has(l, "rig_ad"));
    RIG_OK(r.d->memory_alloc(&p, 64));
    struct rig_args args = {p + 8, p, 4};
    struct krn_cuda_call call = call_of(&args);
    uint64_t asked = gpu_fake_calls("module_function"), loads = gpu_fake_calls("function_load");
    ck_assert_int_eq(gpu_launch(l, r.a, &call, &r.note), STATUS_OK);
    ck_assert_int_eq(gpu_launch(l, r.a, &call, &r.note), STATUS_OK);
    ck_assert_uint_eq(gpu_fake_calls("module_function"), asked);
    ck_assert_uint_eq(gpu_fake_calls("function_load"), loads);
    ck_assert_uint_eq(*(uint64_t *)(uintptr_t)p, 4 * 3 + 4);
    ck_assert_str_eq(work.kernel, "rig_add");
    call.shared = 200 * 1024; /* beyond what needs no permission: it was asked for at open */
    ck_assert_int_eq(gpu_launch(l, r.a, &call, &r.note), STATUS_OK);
    ck_assert_uint_eq(gpu_launcher_resident(l, &call), 1);
    call.shared = 0;
    ck_assert_uint_eq(gpu_launcher_resident(l, &call), 16);
    call.kernel = "rig_gone";
    ck_assert_int_eq(gpu_launch(l, r.a, &call, &r.note), STATUS_UNSUPPORTED);
    ck_assert_ptr_nonnull(strstr(r.note.text, "rig_gone"));
    ck_assert_uint_eq(gpu_launcher_resident(l, &call), 0);
    gpu_launcher_close(l);
    RIG_OK(r.d->memory_free(p));
    rig_end(&r);
}
END_TEST

START_TEST(test_what_a_failure_says) {
    struct rig r;
    struct gpu_work work = {.plan = 41, .graph_key = 0xbeef};
    struct gpu_launcher *l;
    gpu_cu_ptr_t p;
    rig_begin(&r, &at_once);
    struct gpu_launcher_config config = config_of(&r, &work);
    ck_assert_int_eq(gpu_launcher_open(&config, &l, &r.note), STATUS_OK);
    RIG_OK(r.d->memory_alloc(&p, 64));
    struct rig_args args = {p + 8, p, 4};
    struct krn_cuda_call call = call_of(&args);
    call.shared = 300 * 1024;
    ck_assert_int_eq(gpu_launch(l, r.a, &call, &r.note), STATUS_ROUND_FAILED);
    ck_assert_str_eq(r.note.text, "launching kernel rig_add (grid 2x1x1, block 64x2x1, 307200 "
                                  "shared bytes): CUDA_ERROR_INVALID_VALUE (1) in plan 41, graph "
                                  "000000000000beef");
    /* The context lives: the next launch runs. */
    call.shared = 0;
    ck_assert_int_eq(gpu_launch(l, r.a, &call, &r.note), STATUS_OK);
    /* A kernel that faults is seen later; with `each`, at once and by name. */
    gpu_launcher_close(l);
    config.each = true;
    ck_assert_int_eq(gpu_launcher_open(&config, &l, &r.note), STATUS_OK);
    ck_assert_int_eq(gpu_launch(l, r.a, &call, &r.note), STATUS_OK);
    gpu_fake_fail_work(0, GPU_CUDA_ERROR_ILLEGAL_ADDRESS);
    ck_assert_int_eq(gpu_launch(l, r.a, &call, &r.note), STATUS_DEVICE);
    ck_assert_ptr_nonnull(strstr(r.note.text, "running kernel rig_add (grid 2x1x1, block 64x2x1, "
                                              "0 shared bytes): CUDA_ERROR_ILLEGAL_ADDRESS (700) "
                                              "in plan 41"));
    gpu_launcher_close(l);
    gpu_fake_driver(&at_once);
}
END_TEST

START_TEST(test_each_within_a_capture) {
    /* Waiting for each launch must not lose a capture. */
    struct rig r;
    struct gpu_launcher *l;
    struct gpu_cu_graph *g;
    gpu_cu_ptr_t p;
    rig_begin(&r, &at_once);
    struct gpu_launcher_config config = config_of(&r, NULL);
    config.each = true;
    ck_assert_int_eq(gpu_launcher_open(&config, &l, &r.note), STATUS_OK);
    RIG_OK(r.d->memory_alloc(&p, 64));
    struct rig_args args = {p + 8, p, 4};
    struct krn_cuda_call call = call_of(&args);
    RIG_OK(r.d->capture_begin(r.a, GPU_CU_CAPTURE_THREAD));
    ck_assert_int_eq(gpu_launch(l, r.a, &call, &r.note), STATUS_OK);
    RIG_OK(r.d->capture_end(r.a, &g));
    RIG_OK(r.d->graph_destroy(g));
    gpu_launcher_close(l);
    RIG_OK(r.d->memory_free(p));
    rig_end(&r);
}
END_TEST

START_TEST(test_what_cannot_be_opened) {
    struct rig r;
    struct gpu_launcher *l = NULL;
    rig_begin(&r, &(struct gpu_fake_config){.major = 7, .minor = 5});
    struct gpu_launcher_config config = config_of(&r, NULL);
    config.images = &rig_images[1];
    config.n_images = 1;
    ck_assert_int_eq(gpu_launcher_open(&config, &l, &r.note), STATUS_UNSUPPORTED);
    ck_assert_ptr_nonnull(strstr(r.note.text, "sm_75"));
    ck_assert_ptr_nonnull(strstr(r.note.text, "120"));
    config.n_images = 0;
    ck_assert_int_eq(gpu_launcher_open(&config, &l, &r.note), STATUS_UNSUPPORTED);
    ck_assert_ptr_nonnull(strstr(r.note.text, "no kernels"));
    config = config_of(&r, NULL);
    gpu_fake_kernel(rig_foreign_bytes, "rig_add", 8, 0, rig_run);
    ck_assert_int_eq(gpu_launcher_open(&config, &l, &r.note), STATUS_DUPLICATE);
    ck_assert_ptr_nonnull(strstr(r.note.text, "rig_add"));
    gpu_fake_fail("function_load", 1, 1, GPU_CUDA_ERROR_OUT_OF_MEMORY);
    config.n_images = 1;
    ck_assert_int_eq(gpu_launcher_open(&config, &l, &r.note), STATUS_NO_MEMORY);
    ck_assert_ptr_nonnull(strstr(r.note.text, "preparing kernel rig_"));
    ck_assert_ptr_null(l);
    rig_end(&r); /* nothing is left of any attempt */
}
END_TEST

START_TEST(test_compare_shape) {
    struct krn_cuda_compare args = {.words = 0};
    struct krn_cuda_call call;
    for (uint64_t words = 0; words < (1u << 26); words = words * 3 + 1) {
        args.words = words;
        krn_cuda_compare_call(&args, &call);
        ck_assert_uint_ge(call.grid[0], 1);
        ck_assert_uint_le(call.grid[0], 1024);
        ck_assert_uint_eq(call.args_bytes, sizeof args);
        ck_assert_ptr_eq(call.args, &args);
    }
    ck_assert_uint_eq(call.grid[0], 1024);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("gpu/launch");
    TCase *tc = tcase_create("launch");
    tcase_add_test(tc, test_by_name);
    tcase_add_test(tc, test_what_a_failure_says);
    tcase_add_test(tc, test_each_within_a_capture);
    tcase_add_test(tc, test_what_cannot_be_opened);
    tcase_add_test(tc, test_compare_shape);
    suite_add_tcase(suite, tc);
    return test_run(suite);
}
