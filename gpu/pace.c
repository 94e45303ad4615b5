/* SPDX-License-Identifier: Apache-2.0
 * A bucket of time that fills at a share of the clock's rate.
 */
#include "gpu/pace.h"

struct gpu_pace gpu_pace_begin(uint32_t share, uint64_t saved_max, uint64_t now_ns) {
    return (struct gpu_pace){
        .share = share, .saved_max = saved_max, .credit = (int64_t)saved_max, .counted_ns = now_ns};
}

uint64_t gpu_pace_wait(struct gpu_pace *p, uint64_t now_ns) {
    if (p->share == 0)
        return 0;
    uint64_t earned = now_ns > p->counted_ns ? (now_ns - p->counted_ns) / p->share : 0;
    p->counted_ns += earned * p->share;
    p->credit += (int64_t)earned;
    if (p->credit >= (int64_t)p->saved_max) {
        p->credit = (int64_t)p->saved_max;
        p->counted_ns = now_ns;
    }
    if (p->credit > 0)
        return 0;
    uint64_t at = p->counted_ns + ((uint64_t)-p->credit + 1) * p->share; /* then one is there */
    return at - now_ns;
}

void gpu_pace_took(struct gpu_pace *p, uint64_t ns) {
    if (p->share > 0)
        p->credit -= (int64_t)ns;
}
