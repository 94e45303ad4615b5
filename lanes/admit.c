/* SPDX-License-Identifier: Apache-2.0
 * Request validation; every number is compared before it is added to another.
 */
#include "lanes/admit.h"

static struct lane_refusal admit_no(enum status s, uint64_t value, uint64_t limit) {
    return (struct lane_refusal){.status = s, .value = value, .limit = limit};
}

/* Written so that NaN fails. */
static bool admit_in(float x, float low, float high) {
    return x >= low && x <= high;
}

static bool admit_sampling_valid(const struct krn_sampling *s) {
    return admit_in(s->temperature, 0.0f, 100.0f) && admit_in(s->top_p, 0.0f, 1.0f) &&
           admit_in(s->min_p, 0.0f, 1.0f) && admit_in(s->repetition, 0.01f, 100.0f) &&
           admit_in(s->presence, -100.0f, 100.0f) && admit_in(s->frequency, -100.0f, 100.0f) &&
           s->n_top <= KRN_TOP_MAX;
}

struct lane_refusal lane_admit_check(const struct lane_request *r,
                                     const struct lane_admit_limits *limits) {
    if (r->n_prompt == 0 || r->prompt == NULL)
        return admit_no(STATUS_EMPTY_PROMPT, 0, 0);
    if (r->n_prompt >= limits->context)
        return admit_no(STATUS_PROMPT_TOO_LONG, r->n_prompt, limits->context - 1);
    for (uint32_t i = 0; i < r->n_prompt; i++)
        if (r->prompt[i] >= limits->vocab)
            return admit_no(STATUS_BAD_TOKEN, r->prompt[i], limits->vocab);
    if (r->max_tokens == 0 || r->draft_max > LANE_DRAFT_MAX || r->n_bias > LANE_BIAS_MAX ||
        r->n_stops > LANE_STOPS_MAX || !admit_sampling_valid(&r->sampling))
        return admit_no(STATUS_BAD_REQUEST, 0, 0);
    if ((r->flags & LANE_FIRST_LOGITS) != 0 && r->first_logits == NULL)
        return admit_no(STATUS_BAD_REQUEST, 0, 0);
    for (uint32_t i = 0; i < r->n_bias; i++) {
        if (r->bias[i].id >= limits->vocab)
            return admit_no(STATUS_BAD_TOKEN, r->bias[i].id, limits->vocab);
        if (!admit_in(r->bias[i].bias, -1000.0f, 1000.0f))
            return admit_no(STATUS_BAD_REQUEST, 0, 0);
    }
    for (uint32_t i = 0; i < r->n_stops; i++)
        if (r->stops[i].bytes == 0 || r->stops[i].bytes >= LANE_STOP_BYTES_MAX)
            return admit_no(STATUS_BAD_REQUEST, r->stops[i].bytes, LANE_STOP_BYTES_MAX - 1);
    uint32_t room = limits->context - r->n_prompt;
    uint32_t total = r->n_prompt + (r->max_tokens < room ? (uint32_t)r->max_tokens : room);
    uint32_t pages = (total + limits->page_tokens - 1) / limits->page_tokens;
    if (pages > limits->pages_total)
        return admit_no(STATUS_NO_PAGES, total,
                        (uint64_t)limits->pages_total * limits->page_tokens);
    return admit_no(STATUS_OK, 0, 0);
}

void lane_refusal_say(const struct lane_refusal *r, struct status_note *note) {
    unsigned long long v = r->value, l = r->limit;
    switch (r->status) {
    case STATUS_PROMPT_TOO_LONG:
        status_say(note, r->status,
                   "the prompt has %llu tokens but at most %llu fit in the context; "
                   "shorten it or serve with a larger --context",
                   v, l);
        break;
    case STATUS_BAD_TOKEN:
        status_say(note, r->status, "token id %llu is outside the vocabulary of %llu", v, l);
        break;
    case STATUS_NO_PAGES:
        status_say(note, r->status,
                   "prompt and reply may take %llu tokens but the KV budget holds "
                   "%llu; lower max_tokens or raise --kv-bytes",
                   v, l);
        break;
    case STATUS_QUEUE_FULL:
        status_say(note, r->status,
                   "%llu requests are waiting or running, the most that may; retry later", v);
        break;
    default:
        status_say(note, r->status, "%s", status_text(r->status));
    }
}
