/* SPDX-License-Identifier: Apache-2.0
 * Private to the CUDA device's files: what a step brings to the device, and the port's pages,
 * streams and events.
 */
#ifndef GPU_PAGES_CUDA_H
#define GPU_PAGES_CUDA_H

#include "gpu/cuda.h"

/* image_cuda.c: the bytes of the largest image; a plan's image and whether it can be run. Returns
 * the image's bytes by *bytes. */
uint32_t gpu_cuda_image_bytes(const struct gpu_limits *limits, bool bf16);
enum status gpu_cuda_image(struct cuda *c, const struct gpu_plan *p, struct gpu_result *r,
                           unsigned char *image, uint32_t *bytes);

/* Where the image has what launches have addresses of, for plans of a shape. */
struct cuda_places {
    uint32_t table[CUDA_TABLES], pages; /* attention's spans; page ids */
};
struct cuda_places gpu_cuda_places(const struct cuda *c, const struct cuda_shape *shape);

/* The image, to the device, in one copy. */
enum status gpu_cuda_upload(struct cuda *c, const struct cuda_step *s, uint32_t bytes,
                            struct status_note *note);

/* pages_cuda.c: the port's pages, streams and events. */
bool gpu_cuda_host_use(struct gpu_device *d, void *host, uint64_t bytes);
enum status gpu_cuda_page_read(struct gpu_device *d, uint32_t page, void *host);
enum status gpu_cuda_page_write(struct gpu_device *d, uint32_t page, const void *host);
void gpu_cuda_page_freed(struct gpu_device *d, uint32_t page);
gpu_event_t gpu_cuda_record(struct gpu_device *d, enum gpu_stream stream);
void gpu_cuda_wait(struct gpu_device *d, enum gpu_stream stream, gpu_event_t event);
bool gpu_cuda_reached(struct gpu_device *d, gpu_event_t event);

#endif
