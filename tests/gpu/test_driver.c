/* SPDX-License-Identifier: Apache-2.0
 * Finding the driver: what is missing, too old or dead is said in one sentence; our declarations of
 * its interface are the toolkit's, where its header is here; results keep their names when the
 * driver is dead; the embedded kernels are there when the build had nvcc.
 */
#include "gpu/driver.h"
#include "gpu/fault.h"
#include "kernels/cuda/images.h"
#include "tests/harness.h"

#include <string.h>

#ifdef RH_HAVE_CUDA_H
#include <cuda.h>
#define SAME(a, b)                _Static_assert((long)(a) == (long)(b), #a " is " #b)
#define RESULT(name, value, kind) SAME(value, name);
#include "gpu/driver_results.def"
#undef RESULT
SAME(GPU_CU_ATTR_MULTIPROCESSORS, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
SAME(GPU_CU_ATTR_L2_BYTES, CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE);
SAME(GPU_CU_ATTR_MAJOR, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
SAME(GPU_CU_ATTR_MINOR, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
SAME(GPU_CU_ATTR_COOPERATIVE, CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH);
SAME(GPU_CU_ATTR_SHARED_OPTIN, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);
SAME(GPU_CU_ATTR_VMM, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED);
SAME(GPU_CU_ATTR_RDMA_WITH_VMM, CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED);
SAME(GPU_CU_ATTR_SYNC_DOMAINS, CU_DEVICE_ATTRIBUTE_MEM_SYNC_DOMAIN_COUNT);
SAME(GPU_CU_FUNCTION_SHARED, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES);
SAME(GPU_CU_FUNCTION_LOCAL, CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES);
SAME(GPU_CU_FUNCTION_REGISTERS, CU_FUNC_ATTRIBUTE_NUM_REGS);
SAME(GPU_CU_FUNCTION_BINARY, CU_FUNC_ATTRIBUTE_BINARY_VERSION);
SAME(GPU_CU_FUNCTION_SHARED_MAX, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES);
SAME(GPU_CU_FUNCTION_CLUSTER_ANY, CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED);
SAME(GPU_CU_STREAM_OWN, CU_STREAM_NON_BLOCKING);
SAME(GPU_CU_EVENT_UNTIMED, CU_EVENT_DISABLE_TIMING);
SAME(GPU_CU_HOST_PORTABLE, CU_MEMHOSTALLOC_PORTABLE);
SAME(GPU_CU_CAPTURE_GLOBAL, CU_STREAM_CAPTURE_MODE_GLOBAL);
SAME(GPU_CU_CAPTURE_THREAD, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
SAME(GPU_CU_CAPTURE_RELAXED, CU_STREAM_CAPTURE_MODE_RELAXED);
SAME(GPU_CU_CAPTURING_NOT, CU_STREAM_CAPTURE_STATUS_NONE);
SAME(GPU_CU_CAPTURING, CU_STREAM_CAPTURE_STATUS_ACTIVE);
SAME(GPU_CU_CAPTURING_LOST, CU_STREAM_CAPTURE_STATUS_INVALIDATED);
SAME(GPU_CU_MEMORY_PINNED, CU_MEM_ALLOCATION_TYPE_PINNED);
SAME(GPU_CU_PLACE_DEVICE, CU_MEM_LOCATION_TYPE_DEVICE);
SAME(GPU_CU_ACCESS_BOTH, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
SAME(GPU_CU_GRANULARITY_LEAST, CU_MEM_ALLOC_GRANULARITY_MINIMUM);
SAME(GPU_CU_LAUNCH_COOPERATIVE, CU_LAUNCH_ATTRIBUTE_COOPERATIVE);
SAME(GPU_CU_LAUNCH_CLUSTER, CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION);
SAME(GPU_CU_LAUNCH_OVERLAP, CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION);
#define PLACE(a, b, c, d) SAME(offsetof(struct a, b), offsetof(c, d))
SAME(sizeof(struct gpu_cu_launch), sizeof(CUlaunchConfig));
PLACE(gpu_cu_launch, grid, CUlaunchConfig, gridDimX);
PLACE(gpu_cu_launch, block, CUlaunchConfig, blockDimX);
PLACE(gpu_cu_launch, shared, CUlaunchConfig, sharedMemBytes);
PLACE(gpu_cu_launch, stream, CUlaunchConfig, hStream);
PLACE(gpu_cu_launch, attributes, CUlaunchConfig, attrs);
PLACE(gpu_cu_launch, n_attributes, CUlaunchConfig, numAttrs);
SAME(sizeof(struct gpu_cu_launch_attribute), sizeof(CUlaunchAttribute));
PLACE(gpu_cu_launch_attribute, value, CUlaunchAttribute, value);
PLACE(gpu_cu_launch_attribute, value.cluster, CUlaunchAttribute, value.clusterDim);
PLACE(gpu_cu_launch_attribute, value.flag, CUlaunchAttribute, value.cooperative);
PLACE(gpu_cu_launch_attribute, value.flag, CUlaunchAttribute,
      value.programmaticStreamSerializationAllowed);
SAME(sizeof(struct gpu_cu_memory), sizeof(CUmemAllocationProp));
PLACE(gpu_cu_memory, place.type, CUmemAllocationProp, location.type);
PLACE(gpu_cu_memory, place.id, CUmemAllocationProp, location.id);
PLACE(gpu_cu_memory, flags.rdma, CUmemAllocationProp, allocFlags.gpuDirectRDMACapable);
SAME(sizeof(struct gpu_cu_access), sizeof(CUmemAccessDesc));
PLACE(gpu_cu_access, flags, CUmemAccessDesc, flags);
SAME(sizeof(struct gpu_cu_ipc), sizeof(CUipcMemHandle));
SAME(sizeof(gpu_cu_ptr_t), sizeof(CUdeviceptr));
SAME(sizeof(gpu_cu_t), sizeof(CUresult));
SAME(sizeof(unsigned long long), sizeof(CUmemGenericAllocationHandle));
#endif

/* A driver that has all functions but one, and answers as told. */
struct half_driver {
    const char *lacks;
    int asked_without_version;
};

static int driver_version, driver_devices;
static gpu_cu_t init_answer;

static gpu_cu_t answer_init(unsigned flags) {
    return flags == 0 ? init_answer : GPU_CUDA_ERROR_INVALID_VALUE;
}
static gpu_cu_t answer_version(int *v) {
    *v = driver_version;
    return GPU_CUDA_SUCCESS;
}
static gpu_cu_t answer_count(int *n) {
    *n = driver_devices;
    return GPU_CUDA_SUCCESS;
}
static gpu_cu_t answer_name(gpu_cu_t result, const char **name) {
    *name = result == 777 ? "CUDA_ERROR_OF_TOMORROW" : NULL;
    return result == 777 ? GPU_CUDA_SUCCESS : GPU_CUDA_ERROR_INVALID_VALUE;
}
static gpu_cu_t answer_dead(void) {
    return GPU_CUDA_ERROR_DEINITIALIZED;
}

static void *find(void *self, const char *symbol, int version, const char *suffix) {
    struct half_driver *h = self;
    (void)suffix;
    if (version < 2000)
        h->asked_without_version++;
    gpu_cu_t (*init)(unsigned) = answer_init, (*n)(int *) = answer_count,
             (*v)(int *) = answer_version, (*name)(gpu_cu_t, const char **) = answer_name,
             (*dead)(void) = answer_dead;
    void *f = NULL;
    if (h->lacks != NULL && strcmp(h->lacks, symbol) == 0)
        return NULL;
    if (strcmp(symbol, "cuInit") == 0)
        memcpy(&f, &init, sizeof f);
    else if (strcmp(symbol, "cuDriverGetVersion") == 0)
        memcpy(&f, &v, sizeof f);
    else if (strcmp(symbol, "cuDeviceGetCount") == 0)
        memcpy(&f, &n, sizeof f);
    else if (strcmp(symbol, "cuGetErrorName") == 0)
        memcpy(&f, &name, sizeof f);
    else
        memcpy(&f, &dead, sizeof f);
    return f;
}

static enum status fill(struct gpu_driver *d, const char *lacks, uint32_t needed,
                        struct status_note *note) {
    struct half_driver h = {.lacks = lacks};
    memset(note, 0, sizeof *note);
    enum status s = gpu_driver_fill(d, needed, find, &h, note);
    ck_assert_int_eq(h.asked_without_version, 0);
    return s;
}

START_TEST(test_what_is_missing) {
    struct gpu_driver d;
    struct status_note note;
    driver_version = 13000;
    driver_devices = 1;
    init_answer = GPU_CUDA_SUCCESS;
    ck_assert_int_eq(fill(&d, NULL, 13000, &note), STATUS_OK);
    ck_assert_int_eq(d.driver_version, 13000);
    ck_assert_int_eq(fill(&d, "cuMemAlloc", 13000, &note), STATUS_UNSUPPORTED);
    ck_assert_ptr_nonnull(strstr(note.text, "cuMemAlloc"));
    /* What no device needs may be missing. */
    ck_assert_int_eq(fill(&d, "cuMemAddressReserve", 13000, &note), STATUS_OK);
    ck_assert_ptr_null(d.address_reserve);
    ck_assert_ptr_nonnull(d.memory_alloc);
    ck_assert_int_eq(fill(&d, "cuDriverGetVersion", 13000, &note), STATUS_UNSUPPORTED);
    ck_assert_ptr_nonnull(strstr(note.text, "not a GPU driver"));
}
END_TEST

START_TEST(test_too_old) {
    struct gpu_driver d;
    struct status_note note;
    driver_version = 12080;
    driver_devices = 1;
    init_answer = GPU_CUDA_SUCCESS;
    ck_assert_int_eq(fill(&d, NULL, 13000, &note), STATUS_UNSUPPORTED);
    ck_assert_ptr_nonnull(strstr(note.text, "12.8"));
    ck_assert_ptr_nonnull(strstr(note.text, "13.0"));
    ck_assert_int_eq(fill(&d, NULL, 12000, &note), STATUS_OK);
    /* A driver that lacks functions because it is old is said to be old. */
    driver_version = 11040;
    ck_assert_int_eq(fill(&d, "cuFuncGetName", 11000, &note), STATUS_UNSUPPORTED);
    ck_assert_ptr_nonnull(strstr(note.text, "11.4"));
    ck_assert_ptr_nonnull(strstr(note.text, "12.4"));
}
END_TEST

START_TEST(test_dead_from_the_start) {
    struct gpu_driver d;
    struct status_note note;
    driver_version = 13000;
    driver_devices = 1;
    init_answer = GPU_CUDA_ERROR_SYSTEM_DRIVER_MISMATCH;
    ck_assert_int_eq(fill(&d, NULL, 13000, &note), STATUS_UNSUPPORTED);
    ck_assert_ptr_nonnull(strstr(note.text, "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH (803)"));
    init_answer = GPU_CUDA_SUCCESS;
    driver_devices = 0;
    ck_assert_int_eq(fill(&d, NULL, 13000, &note), STATUS_UNSUPPORTED);
    ck_assert_ptr_nonnull(strstr(note.text, "CUDA_ERROR_NO_DEVICE (100)"));
}
END_TEST

START_TEST(test_results) {
    struct gpu_driver d;
    struct status_note note;
    driver_version = 13000;
    driver_devices = 1;
    init_answer = GPU_CUDA_SUCCESS;
    ck_assert_int_eq(fill(&d, NULL, 13000, &note), STATUS_OK);
    ck_assert_int_eq(gpu_result_status(GPU_CUDA_SUCCESS), STATUS_OK);
    ck_assert_int_eq(gpu_result_status(GPU_CUDA_ERROR_NOT_READY), STATUS_AGAIN);
    ck_assert_int_eq(gpu_result_status(GPU_CUDA_ERROR_OUT_OF_MEMORY), STATUS_NO_MEMORY);
    ck_assert_int_eq(gpu_result_status(GPU_CUDA_ERROR_NO_BINARY_FOR_GPU), STATUS_UNSUPPORTED);
    ck_assert_int_eq(gpu_result_status(GPU_CUDA_ERROR_INVALID_VALUE), STATUS_ROUND_FAILED);
    ck_assert_int_eq(gpu_result_kind(GPU_CUDA_ERROR_STREAM_CAPTURE_INVALIDATED), GPU_FAULT_CAPTURE);
    ck_assert_int_eq(gpu_result_status(GPU_CUDA_ERROR_ILLEGAL_ADDRESS), STATUS_DEVICE);
    ck_assert_int_eq(gpu_result_status(4242), STATUS_DEVICE);
    ck_assert_str_eq(gpu_result_name(&d, GPU_CUDA_ERROR_ILLEGAL_ADDRESS),
                     "CUDA_ERROR_ILLEGAL_ADDRESS");
    ck_assert_str_eq(gpu_result_name(NULL, GPU_CUDA_ERROR_UNKNOWN), "CUDA_ERROR_UNKNOWN");
    ck_assert_str_eq(gpu_result_name(&d, 777), "CUDA_ERROR_OF_TOMORROW");
    ck_assert_str_eq(gpu_result_name(&d, 778), "a result that this build does not know");
}
END_TEST

START_TEST(test_sentences) {
    struct status_note note = {"as it was"};
    const struct gpu_work work = {.plan = 41, .graph_key = 0xabc, .kernel = "krn_cuda_product"};
    ck_assert_int_eq(gpu_fault_say(&note, NULL, GPU_CUDA_ERROR_NOT_READY, &work, "asking"),
                     STATUS_AGAIN);
    ck_assert_str_eq(note.text, "as it was");
    ck_assert_int_eq(gpu_fault_say(&note, NULL, GPU_CUDA_ERROR_ILLEGAL_ADDRESS, &work, "waiting"),
                     STATUS_DEVICE);
    ck_assert_str_eq(note.text,
                     "waiting: CUDA_ERROR_ILLEGAL_ADDRESS (700) in plan 41, graph "
                     "0000000000000abc, at or before kernel krn_cuda_product; the device answers "
                     "nothing more: this process must end");
    ck_assert_int_eq(gpu_fault_say(&note, NULL, GPU_CUDA_ERROR_INVALID_VALUE, NULL, "launching"),
                     STATUS_ROUND_FAILED);
    ck_assert_str_eq(note.text, "launching: CUDA_ERROR_INVALID_VALUE (1)");
}
END_TEST

START_TEST(test_images) {
    if (krn_cuda_toolkit == 0) {
        ck_assert_uint_eq(krn_cuda_images_n, 0);
        TEST_SKIP("this build has no kernels for a GPU (no nvcc)");
    }
    ck_assert_uint_ge(krn_cuda_toolkit, 12040);
    ck_assert_uint_gt(krn_cuda_images_n, 0);
    for (size_t i = 0; i < krn_cuda_images_n; i++) {
        const struct krn_cuda_image *image = &krn_cuda_images[i];
        uint32_t magic;
        uint64_t bytes; /* of what follows the header of 16 bytes */
        ck_assert_uint_gt(image->n, 16);
        memcpy(&magic, image->bytes, sizeof magic);
        memcpy(&bytes, (const unsigned char *)image->bytes + 8, sizeof bytes);
        ck_assert_uint_eq(magic, 0xba55ed50u);
        ck_assert_uint_eq(bytes + 16, image->n);
        ck_assert_uint_eq((uintptr_t)image->bytes % 16, 0);
        ck_assert_uint_gt(strlen(image->archs), 0);
        for (size_t j = 0; j < i; j++)
            ck_assert_str_ne(image->name, krn_cuda_images[j].name);
    }
}
END_TEST

int main(void) {
    Suite *suite = suite_create("gpu/driver");
    TCase *tc = tcase_create("driver");
    tcase_add_test(tc, test_what_is_missing);
    tcase_add_test(tc, test_too_old);
    tcase_add_test(tc, test_dead_from_the_start);
    tcase_add_test(tc, test_results);
    tcase_add_test(tc, test_sentences);
    tcase_add_test(tc, test_images);
    suite_add_tcase(suite, tc);
    return test_run(suite);
}
