/* SPDX-License-Identifier: Apache-2.0
 * Products of cuda-bf16 beside cuBLAS (found at run time; CUBLAS names its library) on the shapes
 * of an 8B model: weights change from call to call so that none stays in L2, both sides replay a
 * graph, turn about. Prints microseconds, what bounds them, and what segments cost.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/cuda/rows_bf16.h"
#include "tests/cuda/kit.h"

enum {
    ROWS_MAX = 8192,
    WEIGHTS_BYTES = 512 << 20,
    OP_T = 1,
    OP_N = 0,
    BF16 = 14,
    F32_COMPUTE = 68
};

struct cublas {
    void *handle;
    int (*create)(void **handle);
    int (*set_stream)(void *handle, void *stream);
    int (*set_workspace)(void *handle, void *p, size_t bytes);
    int (*gemm)(void *handle, int ta, int tb, int m, int n, int k, const void *alpha, const void *a,
                int a_type, int lda, const void *b, int b_type, int ldb, const void *beta, void *c,
                int c_type, int ldc, int compute, int algo);
};

struct bench {
    struct kit kit;
    struct cublas cublas;
    krn_cuda_ptr_t w, x, y, packed, work;
    struct krn_cuda_product_bf16 product;
    enum krn_cuda_product_path path;
    uint32_t copies; /* of the weights */
    uint32_t k;
};

static bool cublas_open(struct bench *b) {
    const char *name = getenv("CUBLAS");
    void *l = dlopen(name != NULL ? name : "libcublas.so.13", RTLD_NOW | RTLD_GLOBAL);
    if (l == NULL) {
        printf("no cuBLAS here: %s\n", dlerror());
        return false;
    }
    *(void **)&b->cublas.create = dlsym(l, "cublasCreate_v2");
    *(void **)&b->cublas.set_stream = dlsym(l, "cublasSetStream_v2");
    *(void **)&b->cublas.set_workspace = dlsym(l, "cublasSetWorkspace_v2");
    *(void **)&b->cublas.gemm = dlsym(l, "cublasGemmEx");
    krn_cuda_ptr_t space = kit_alloc(&b->kit, 64 << 20);
    return b->cublas.create != NULL && b->cublas.create(&b->cublas.handle) == 0 &&
           b->cublas.set_stream(b->cublas.handle, b->kit.stream) == 0 &&
           b->cublas.set_workspace(b->cublas.handle, (void *)space, 64 << 20) == 0;
}

static krn_cuda_ptr_t weights(const struct bench *b, uint32_t i) {
    return b->w + (uint64_t)(i % b->copies) * b->product.n * b->k * 2;
}

static void run_ours(void *self, struct kit *k, uint32_t i) {
    struct bench *b = self;
    struct krn_cuda_product_bf16 a = b->product;
    struct krn_cuda_call call;
    a.w = weights(b, i);
    if (!krn_cuda_product_bf16_call(&a, &k->machine, b->path, &call)) {
        fprintf(stderr, "the path does not run here\n");
        exit(1);
    }
    kit_launch(k, &call);
}

static void run_cublas(void *self, struct kit *k, uint32_t i) {
    struct bench *b = self;
    const float one = 1.0f, zero = 0.0f;
    (void)k;
    int r =
        b->cublas.gemm(b->cublas.handle, OP_T, OP_N, (int)b->product.n, (int)b->product.rows,
                       (int)b->k, &one, (void *)weights(b, i), BF16, (int)b->k, (void *)b->x, BF16,
                       (int)b->k, &zero, (void *)b->y, BF16, (int)b->product.n, F32_COMPUTE, -1);
    if (r != 0) {
        fprintf(stderr, "cublasGemmEx: %d\n", r);
        exit(1);
    }
}

static void run_copy(void *self, struct kit *k, uint32_t i) {
    struct bench *b = self;
    (void)i;
    kit_copy(k, b->w, b->w + WEIGHTS_BYTES / 2, WEIGHTS_BYTES / 2);
}

static void shape(struct bench *b, uint32_t n, uint32_t k, uint32_t rows, uint32_t segments) {
    b->k = k;
    b->copies = WEIGHTS_BYTES / (n * k * 2);
    b->product = (struct krn_cuda_product_bf16){.x = b->x,
                                                .y = b->y,
                                                .work = b->work,
                                                .rows = rows,
                                                .n = n,
                                                .ldy = n,
                                                .k_blocks = krn_bf16_blocks(k, segments),
                                                .segments = segments};
    b->path = KRN_BF16_AUTO;
}

static double timed(struct bench *b, bool ours) {
    double flops = 2.0 * b->product.rows * b->product.n * b->k;
    double guess = flops / 6e8 + 2.0 * b->product.n * b->k / 3e6; /* us */
    uint32_t n = guess > 2000.0 ? 4 : (uint32_t)(8000.0 / guess) + 1;
    n = n > 96 ? 96 : n;
    return kit_time(&b->kit, ours ? run_ours : run_cublas, b, n, 5);
}

/* Random operands of order one: a block of them, doubled over the whole buffer. */
static void fill(struct bench *b, krn_cuda_ptr_t to, uint64_t bytes) {
    enum { BLOCK = 1 << 20 };
    static uint16_t block[BLOCK];
    uint64_t seed = 5, done = sizeof block;
    for (size_t i = 0; i < BLOCK; i++)
        block[i] = kit_bf16(kit_float(&seed, 3));
    kit_put(&b->kit, to, block, sizeof block < bytes ? sizeof block : bytes);
    for (; done < bytes; done *= 2)
        kit_copy(&b->kit, to + done, to, done < bytes - done ? done : bytes - done);
    kit_wait(&b->kit);
}

static void compare(struct bench *b, double copy, bool cublas, const char *paths) {
    static const struct {
        uint32_t n, k;
    } shapes[] = {{6144, 4096}, {4096, 4096}, {28672, 4096}, {4096, 14336}};
    static const uint32_t rows[] = {1, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192};
    printf("%5s %6s %5s | %9s %9s %6s | %9s %6s | TB/s TFLOP/s\n", "n", "k", "rows", "ours us",
           "cuBLAS us", "ratio", "floor us", "x");
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        for (size_t j = 0; j < sizeof rows / sizeof *rows; j++) {
            shape(b, shapes[i].n, shapes[i].k, rows[j], 1);
            double ours = timed(b, true), theirs = cublas ? timed(b, false) : 0.0;
            double again = timed(b, true), theirs_again = cublas ? timed(b, false) : 0.0;
            ours = ours < again ? ours : again;
            theirs = theirs < theirs_again ? theirs : theirs_again;
            double bytes = 2.0 * shapes[i].n * shapes[i].k, flops = bytes * rows[j];
            double floor = bytes / copy / 1e6, other = flops / 790e6;
            floor = floor > other ? floor : other;
            printf("%5u %6u %5u | %9.2f %9.2f %6.2f | %9.2f %6.2f | %4.2f %5.0f", shapes[i].n,
                   shapes[i].k, rows[j], ours, theirs, theirs / ours, floor, ours / floor,
                   bytes / ours / 1e6, flops / ours / 1e6);
            for (const char *p = paths; *p != 0; p++) {
                b->path = (enum krn_cuda_product_path)(*p - '0');
                if (rows[j] <= (b->path == KRN_BF16_FEW      ? KRN_BF16_ROWS_FEW
                                : b->path == KRN_BF16_STREAM ? KRN_BF16_ROWS_STREAM
                                                             : ROWS_MAX) &&
                    (b->path < KRN_BF16_MANY_64 || (rows[j] > 64 && rows[j] <= 2048)))
                    printf(" | %c %8.2f", *p, timed(b, true));
            }
            printf("\n");
            fflush(stdout);
        }
}

static void segments(struct bench *b) {
    static const struct { uint32_t n, k; } shapes[] = {{4096, 4096}, {4096, 14336}};
    static const uint32_t rows[] = {1, 8, 32, 64, 128, 256, 512, 2048, 8192};
    printf("segments of row-split products: us at V = 1, 2, 4, 8\n");
    for (size_t i = 0; i < 2; i++)
        for (size_t j = 0; j < sizeof rows / sizeof *rows; j++) {
            printf("%5u %6u %5u |", shapes[i].n, shapes[i].k, rows[j]);
            for (uint32_t v = 1; v <= 8; v *= 2) {
                shape(b, shapes[i].n, shapes[i].k, rows[j], v);
                double a = timed(b, true), c = timed(b, true);
                printf(" %8.2f", a < c ? a : c);
            }
            printf("\n");
            fflush(stdout);
        }
}

/* As a model's layer has it: gate and up (N = 28672) end in packed rows, products with segments are
 * added to what is there. */
static void as_used(struct bench *b) {
    if (b->product.n == 28672) {
        b->product.flags = KRN_BF16_GATE;
        b->product.packed = b->packed;
        b->product.packed_segment = b->product.n / 2;
        b->product.packed_blocks = krn_bf16_blocks(b->product.n / 2, 1);
        b->product.y = 0;
    } else if (b->product.segments > 1)
        b->product.flags = KRN_BF16_ADD;
}

/* one N K ROWS PATH SEGMENTS: a few launches, for a profiler; "time" in place of "one": how long
 * one takes, "used": that as in a layer; "theirs": launches of cuBLAS. */
static void one(struct bench *b, char **argv) {
    shape(b, (uint32_t)atoi(argv[0]), (uint32_t)atoi(argv[1]), (uint32_t)atoi(argv[2]),
          (uint32_t)atoi(argv[4]));
    b->path = (enum krn_cuda_product_path)atoi(argv[3]);
    bool used = strcmp(argv[-1], "used") == 0;
    if (used)
        as_used(b);
    if (used || strcmp(argv[-1], "time") == 0) {
        double a = timed(b, true), c = timed(b, true);
        printf("%s x %s, %s rows, path %s, %s segments: %.2f us\n", argv[0], argv[1], argv[2],
               argv[3], argv[4], a < c ? a : c);
        return;
    }
    bool theirs = strcmp(argv[-1], "theirs") == 0;
    if (theirs && !cublas_open(b))
        return;
    for (uint32_t i = 0; i < 8; i++)
        (theirs ? run_cublas : run_ours)(b, &b->kit, i);
    kit_wait(&b->kit);
}

int main(int argc, char **argv) {
    static struct bench b;
    const char *paths = argc > 1 ? argv[1] : "";
    kit_open(&b.kit);
    b.w = kit_alloc(&b.kit, WEIGHTS_BYTES + (64 << 20));
    b.x = kit_alloc(&b.kit, krn_bf16_bytes(ROWS_MAX, 14336, 1));
    b.y = kit_alloc(&b.kit, (uint64_t)ROWS_MAX * 28672 * 4);
    b.packed = kit_alloc(&b.kit, krn_bf16_bytes(ROWS_MAX, 14336, 1));
    b.work = kit_alloc(&b.kit, krn_cuda_product_bf16_work(&b.kit.machine));
    fill(&b, b.w, WEIGHTS_BYTES);
    fill(&b, b.x, krn_bf16_bytes(ROWS_MAX, 14336, 1));
    if (argc == 7) {
        one(&b, argv + 2);
        return 0;
    }
    b.copies = 1;
    double copy = WEIGHTS_BYTES / kit_time(&b.kit, run_copy, &b, 8, 9) / 1e6;
    printf("%s: copy %.2f TB/s (read + write)\n", b.kit.name, copy);
    bool cublas = cublas_open(&b);
    if (strchr(paths, 'v') != NULL)
        segments(&b);
    if (strchr(paths, 'v') == NULL || paths[1] != 0)
        compare(&b, copy, cublas, paths + (*paths == 'v'));
    return 0;
}
