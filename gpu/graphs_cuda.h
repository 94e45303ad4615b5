/* SPDX-License-Identifier: Apache-2.0
 * Private to the CUDA device's files: copies and forward pass of a step, launched, captured or
 * replayed as its plan says, and the port's part of graphs.
 */
#ifndef GPU_GRAPHS_CUDA_H
#define GPU_GRAPHS_CUDA_H

#include "gpu/cuda.h"

enum status gpu_cuda_graphs_open(struct cuda *c, bool each, struct status_note *note);
void gpu_cuda_graphs_close(struct cuda *c);
void gpu_cuda_graphs_settle(struct cuda *c);
enum status gpu_cuda_run(struct cuda *c, const struct gpu_plan *p, struct status_note *note);
uint64_t gpu_cuda_graph_key(const struct gpu_device *d, const struct gpu_plan *plan);
bool gpu_cuda_graph_vote(struct gpu_device *d, struct gpu_graph_said *said);
void gpu_cuda_graph_drop(struct gpu_device *d, uint64_t key);

#endif
