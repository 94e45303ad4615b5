/* SPDX-License-Identifier: Apache-2.0
 * The table of reasons.
 */
#include "sessions/reason.h"

static const struct {
    const char *name, *text;
} reasons[SES_REASONS] = {
    [SES_HIT] = {"hit", "the longest known beginning was reused"},
    [SES_HIT_CAPPED] = {"hit_capped", "the whole prompt is known; its last row is computed anew"},
    [SES_HIT_CUT] = {"hit_cut", "a stored page could not be had; what stands before it was reused"},
    [SES_MISS_NEW] = {"miss_new", "no session begins like this"},
    [SES_MISS_EVICTED] = {"miss_evicted", "a session that began like this was evicted"},
    [SES_MISS_KEY] = {"miss_key", "a session that begins like this belongs to another key"},
    [SES_MISS_RECORD] = {"miss_record", "the stored beginning was unreadable"},
    [SES_MISS_SILENT] = {"miss_silent", "the disk that has the stored beginning does not answer"},
    [SES_MISS_OFF] = {"miss_off", "reuse is switched off"},
};

const char *ses_reason_name(enum ses_reason reason) {
    return (unsigned)reason < SES_REASONS ? reasons[reason].name : "unknown";
}

const char *ses_reason_text(enum ses_reason reason) {
    return (unsigned)reason < SES_REASONS ? reasons[reason].text : "not a known reason";
}
