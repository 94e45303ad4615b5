/* SPDX-License-Identifier: Apache-2.0
 * The CUDA device's streams, marks on them, and pages to and from the host. With the tiers' memory,
 * which the driver knows, copies run beside the host and are ordered by whoever asks; with other
 * memory a page is read after what was enqueued before, and the host waits for its own copy.
 */
#include "gpu/pages_cuda.h"
#include "actors/check.h"

void gpu_cuda_here(const struct cuda *c) {
    CHECK(c->driver->context_set(c->context) == GPU_CUDA_SUCCESS);
}

/* A mark's event; marks that are CUDA_EVENTS old were waited for before theirs was taken again. */
static struct gpu_cu_event *mark_of(const struct cuda *c, gpu_event_t event) {
    return c->marks[event % CUDA_EVENTS];
}

static bool is_old(const struct cuda *c, gpu_event_t event) {
    CHECK(event <= c->n_marks);
    return event + CUDA_EVENTS <= c->n_marks || event == 0;
}

gpu_event_t gpu_cuda_record(struct gpu_device *d, enum gpu_stream stream) {
    struct cuda *c = (struct cuda *)d;
    CHECK(stream < GPU_STREAMS);
    gpu_cuda_here(c);
    struct gpu_cu_event *e = mark_of(c, ++c->n_marks);
    if (c->n_marks > CUDA_EVENTS)
        c->driver->event_synchronize(e);
    c->driver->event_record(e, c->streams[stream]);
    return c->n_marks;
}

void gpu_cuda_wait(struct gpu_device *d, enum gpu_stream stream, gpu_event_t event) {
    struct cuda *c = (struct cuda *)d;
    CHECK(stream < GPU_STREAMS);
    if (is_old(c, event))
        return;
    gpu_cuda_here(c);
    c->driver->stream_wait(c->streams[stream], mark_of(c, event), 0);
}

/* A dead driver answers neither yes nor later: nothing will come after. */
bool gpu_cuda_reached(struct gpu_device *d, gpu_event_t event) {
    struct cuda *c = (struct cuda *)d;
    if (is_old(c, event))
        return true;
    gpu_cuda_here(c);
    return gpu_result_kind(c->driver->event_query(mark_of(c, event))) != GPU_FAULT_LATER;
}

static gpu_cu_ptr_t page_at(const struct cuda *c, uint32_t page) {
    CHECK(page < c->config.n_pages);
    return c->pool + page * c->device.page_bytes;
}

bool gpu_cuda_host_use(struct gpu_device *d, void *host, uint64_t bytes) {
    struct cuda *c = (struct cuda *)d;
    CHECK(c->host == NULL && host != NULL);
    gpu_cuda_here(c);
    if (c->driver->host_register == NULL || c->driver->host_unregister == NULL ||
        c->driver->host_register(host, bytes, 0) != GPU_CUDA_SUCCESS)
        return false;
    c->host = host;
    c->host_end = c->host + bytes;
    return true;
}

/* Registered memory: the copy runs beside the host, which orders it itself. */
static bool is_used(const struct cuda *c, const void *host) {
    const unsigned char *at = host;
    return c->host != NULL && at >= c->host && at < c->host_end;
}

enum status gpu_cuda_page_read(struct gpu_device *d, uint32_t page, void *host) {
    struct cuda *c = (struct cuda *)d;
    gpu_cu_ptr_t from = page_at(c, page);
    bool alone = !is_used(c, host);
    gpu_cuda_here(c);
    if (alone) {
        gpu_cuda_wait(d, GPU_STREAM_OUT, gpu_cuda_record(d, GPU_STREAM_COMPUTE));
        gpu_cuda_wait(d, GPU_STREAM_OUT, gpu_cuda_record(d, GPU_STREAM_IN));
    }
    gpu_cu_t r = c->driver->copy_out(host, from, d->page_bytes, c->streams[GPU_STREAM_OUT]);
    if (r == GPU_CUDA_SUCCESS && alone)
        r = c->driver->stream_synchronize(c->streams[GPU_STREAM_OUT]);
    struct status_note note;
    return gpu_cuda_said(c, r, "reading a page", &note);
}

enum status gpu_cuda_page_write(struct gpu_device *d, uint32_t page, const void *host) {
    struct cuda *c = (struct cuda *)d;
    gpu_cu_ptr_t to = page_at(c, page);
    bool alone = !is_used(c, host);
    gpu_cuda_here(c);
    if (alone)
        gpu_cuda_wait(d, GPU_STREAM_IN, gpu_cuda_record(d, GPU_STREAM_COMPUTE));
    gpu_cu_t r = c->driver->copy_in(to, host, d->page_bytes, c->streams[GPU_STREAM_IN]);
    if (r == GPU_CUDA_SUCCESS && alone)
        r = c->driver->stream_synchronize(c->streams[GPU_STREAM_IN]);
    struct status_note note;
    return gpu_cuda_said(c, r, "writing a page", &note);
}

void gpu_cuda_page_freed(struct gpu_device *d, uint32_t page) {
    struct cuda *c = (struct cuda *)d;
    CHECK(page != GPU_PAGE_SINK);
    gpu_cu_ptr_t at = page_at(c, page);
    if (!c->poison)
        return;
    gpu_cuda_here(c);
    c->driver->fill8(at, 0xff, d->page_bytes, c->streams[GPU_STREAM_COMPUTE]);
}
