/* SPDX-License-Identifier: Apache-2.0
 * Pages out and back in, as the rank does it: each copy begun behind the last, the end waited for.
 */
#include "gpu/copies.h"

#include "actors/port.h"

enum { COPIES_PAGES = 64, COPIES_ROUNDS = 5 };

static double now_s(void) {
    return (double)act_port_now_ns() * 1e-9;
}

static double copy_pages(struct gpu_device *d, struct gpu_host host, uint32_t n, bool in) {
    double begun = now_s();
    for (uint32_t i = 0; i < n; i++) {
        unsigned char *slot = host.at + i * host.slot_bytes;
        enum status s = in ? d->ops->page_write(d, 1 + i, slot) : d->ops->page_read(d, 1 + i, slot);
        if (s != STATUS_OK)
            return 0;
    }
    gpu_event_t done = d->ops->record(d, in ? GPU_STREAM_IN : GPU_STREAM_OUT);
    while (!d->ops->reached(d, done))
        ;
    return (double)n * (double)d->page_bytes / (now_s() - begun);
}

void gpu_copy_rates(struct gpu_device *d, uint32_t n_pages, struct gpu_host host, double *out_B_s,
                    double *in_B_s) {
    uint32_t n = host.n < COPIES_PAGES ? host.n : COPIES_PAGES;
    *out_B_s = *in_B_s = 0;
    n = n < n_pages ? n : n_pages;
    if (host.at == NULL || n == 0)
        return;
    for (uint32_t i = 0; i < COPIES_ROUNDS; i++) { /* the best: what the path can do */
        double out = copy_pages(d, host, n, false), in = copy_pages(d, host, n, true);
        *out_B_s = out > *out_B_s ? out : *out_B_s;
        *in_B_s = in > *in_B_s ? in : *in_B_s;
    }
}
