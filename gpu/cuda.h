/* SPDX-License-Identifier: Apache-2.0
 * Private to the CUDA device's files: open_cuda.c (life, memory), device_cuda.c (steps, answers),
 * pages_cuda.c (streams, events, pages), pack_cuda.c (weights and stages), experts_cuda.c
 * (mixtures), image_cuda.c (a plan as kernels read it), step_cuda.c (the launches of a forward
 * pass), graphs_cuda.c (their capture). All of it belongs to the rank's thread.
 */
#ifndef GPU_CUDA_H
#define GPU_CUDA_H

#include "gpu/cuda_stage.h"
#include "gpu/device_cuda.h"
#include "gpu/graphs.h"
#include "gpu/launch.h"
#include "gpu/perturb.h"
#include "gpu/shard.h"
#include "kernels/cuda/draw.h"

enum {
    CUDA_STEPS = 2,        /* under way at most */
    CUDA_LOGITS_ROWS = 64, /* drawn rows whose logits exist at one time */
    CUDA_EVENTS = 256,     /* marks on streams that can be told apart */
    CUDA_STAGING = 16 << 20,
    CUDA_TABLES = 2,
    CUDA_SEQS_MAX = 1024,
    CUDA_ATTEND_ITEMS = 8192
};

/* Ranges of the arena: all device memory that launches have addresses of. */
enum { CUDA_WEIGHTS, CUDA_BUFFERS, CUDA_POOL, CUDA_MEMORIES };

#define CUDA_NO_PLAN (UINT64_MAX - 1) /* no plan follows it */

/* What a step under way needs until it is answered. */
struct cuda_step {
    const struct gpu_plan *plan;
    struct gpu_result *result;
    unsigned char *image;  /* pinned: uploaded */
    unsigned char *answer; /* pinned: read back */
    struct gpu_cu_event *done;
    uint64_t begin_ns;
    bool launched;        /* done will be reached */
    struct gpu_work work; /* as it was when all was enqueued */
    bool fails;           /* by a test's wish */
};

/* Where the parts of an answer lie, in device memory and in its pinned copies. */
struct cuda_answer {
    uint64_t times, bad_row, drawn, top, kept, bytes;
};

struct cuda {
    struct gpu_device device;
    struct gpu_device_config config;
    struct krn_config model;
    struct gpu_limits limits;
    const struct gpu_driver *driver;
    struct gpu_launcher *launcher;
    struct gpu_work work;
    int ordinal;
    char name[96];
    struct gpu_cu_context *context;
    bool retained;
    struct gpu_cu_stream *streams[GPU_STREAMS];
    struct gpu_cu_event *marks[CUDA_EVENTS];
    uint64_t n_marks;

    struct cuda_stage *stages;
    uint32_t n_stages;

    /* device memory */
    struct gpu_arena *arena;
    gpu_mem_t memory[CUDA_MEMORIES];
    struct gpu_leases *leases; /* NULL without graphs */
    struct gpu_graphs *graphs; /* NULL: every step is eager */
    gpu_cu_ptr_t weights, buffers, pool;
    uint64_t weights_bytes, buffers_bytes, pool_bytes;
    gpu_cu_ptr_t buf[KRN_BUFS];
    uint32_t ld[KRN_BUFS];
    gpu_cu_ptr_t edited, scaled, best; /* beside the logits */
    gpu_cu_ptr_t partial, logits_part; /* world > 1 */
    gpu_cu_ptr_t gathered;             /* with an exchange: what arrives */
    uint64_t gathered_floats;
    gpu_cu_ptr_t rope[2]; /* of all layers, of windowed ones */
    gpu_cu_ptr_t tokens, bad, last, secret, image, answer;
    struct cuda_answer at;
    struct cuda_mixture mix; /* of models with experts */
    uint32_t image_bytes, logits_stride;
    uint32_t heads, kv_heads; /* of this rank */
    struct krn_cuda_kv kv;    /* layer_off 0 */
    uint64_t layer_bytes;

    /* profile cuda-bf16 (pack_bf16_cuda.c) */
    bool bf16;
    struct krn_cuda_machine machine;
    gpu_cu_ptr_t packed[KRN_BUFS]; /* rows of H, A and G as products read them */
    gpu_cu_ptr_t product_work, attend_work, row_major;
    struct cuda_blocks blocks;
    struct krn_cuda_attend_bf16 table_of[CUDA_TABLES]; /* of full and of windowed layers */

    /* pinned memory */
    unsigned char *pinned, *staging, *host, *host_end; /* host: the tiers', registered, or NULL */
    float *exchange;                                   /* world > 1: what ranks add or gather */

    struct cuda_step steps[CUDA_STEPS];
    uint32_t n_steps, first_step; /* oldest */
    uint64_t last_number;         /* of the last step taken */
    uint64_t drew[GPU_SLOTS_MAX]; /* number of the plan that the slot drew in last */
    uint64_t failed_number, close_ns;
    struct gpu_perturb_memory perturb_memory;
    uint32_t perturb;
    const struct krn_cuda_step *head; /* of the image of the plan that is being enqueued */
    bool any_changed, poison;         /* in it; pages that are freed */
};

/* A driver's answer as a status; what: what was tried. */
static inline enum status gpu_cuda_said(const struct cuda *c, gpu_cu_t result, const char *what,
                                        struct status_note *note) {
    if (result == GPU_CUDA_SUCCESS)
        return STATUS_OK;
    return gpu_fault_say(note, c->driver, result, &c->work, what);
}

/* pack_cuda.c: bytes of this rank's weights, 0 and a sentence for an op list that the device does
 * not know; then cuts the op list into stages and brings the weights to the device. */
uint64_t gpu_cuda_weights_bytes(struct cuda *c, struct status_note *note);
enum status gpu_cuda_pack(struct cuda *c, struct status_note *note);

/* step_cuda.c: rows that a shape has for n; enqueues the copies of pages, and the forward pass of
 * the image that was uploaded, whose launches depend on the plan's shape alone. */
uint32_t gpu_cuda_round_up(uint32_t n);
struct cuda_shape gpu_cuda_shape(const struct gpu_plan *p);
enum status gpu_cuda_copies(struct cuda *c, const struct gpu_plan *p, struct status_note *note);
enum status gpu_cuda_forward(struct cuda *c, const struct gpu_plan *p, struct status_note *note);

/* Rows of PRODUCT_BF16 or LOGITS_BF16 into tiles, where they are not yet, and its product. */
enum status gpu_cuda_product_rows(struct cuda *c, const struct cuda_stage *s, uint32_t first,
                                  uint32_t rows, struct status_note *note);

/* perturb_cuda.c: the perturb hook on the logits of draws [first, first + CUDA_LOGITS_ROWS). */
enum status gpu_cuda_perturb_bf16(struct cuda *c, const struct cuda_stage *s, uint32_t first,
                                  struct status_note *note);

/* open_cuda.c and device_cuda.c: the port's table, and the end of a device. */
extern const struct gpu_device_ops gpu_cuda_ops;
void gpu_cuda_close(struct gpu_device *device);

/* Makes the context current on this thread. */
void gpu_cuda_here(const struct cuda *c);

#endif
