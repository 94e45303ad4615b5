/* SPDX-License-Identifier: Apache-2.0
 * The memory actor: receives, calls the books, answers. Whoever asks gets the answer; freed pages
 * are told to the planner before it.
 */
#include "sessions/memory.h"

#include <stdlib.h>
#include <string.h>

#include "actors/check.h"
#include "fabric/protocol.h"
#include "sessions/book.h"

struct ses_memory {
    struct ses_memory_config config;
    struct ses_book *book;
    act_id_t planner;
};

enum status ses_memory_open(const struct ses_memory_config *config, struct ses_memory **out,
                            struct status_note *note) {
    *out = NULL;
    struct ses_memory *m = calloc(1, sizeof *m);
    if (m == NULL)
        return status_say(note, STATUS_NO_MEMORY, "no memory for the session memory");
    m->config = *config;
    const struct ses_book_config book = {.key = config->key,
                                         .n_pages = config->n_pages,
                                         .page_tokens = config->page_tokens,
                                         .slots_max = config->slots_max,
                                         .pages_per_slot_max = config->pages_per_slot_max,
                                         .tier = config->tier,
                                         .n_places = config->n_places};
    enum status status = ses_book_open(&book, &m->book, note);
    if (status != STATUS_OK) {
        free(m);
        return status;
    }
    *out = m;
    return STATUS_OK;
}

void ses_memory_close(struct ses_memory *m) {
    if (m == NULL)
        return;
    ses_book_close(m->book);
    free(m);
}

void ses_memory_wire(struct ses_memory *m, act_id_t planner) {
    m->planner = planner;
}

bool ses_memory_audit(const struct ses_memory *m, struct status_note *note) {
    return ses_book_audit(m->book, note);
}

static void tell_freed(struct act_ctx *ctx, struct ses_memory *m) {
    struct fab_page_freed freed;
    while ((freed.n = ses_book_freed(m->book, freed.page, 8)) > 0)
        if (m->planner != 0)
            act_send(ctx, m->planner, fab_KIND_page_freed, &freed, sizeof freed);
}

static void answer_admit(struct act_ctx *ctx, struct ses_memory *m, act_id_t to,
                         const struct ses_answer *answer) {
    if (answer->verdict == SES_DENIED) {
        act_send(ctx, to, ses_KIND_denied, &answer->denied, sizeof answer->denied);
        return;
    }
    const struct ses_admitted *admitted = &answer->admitted;
    uint32_t n;
    const ses_page_t *page = ses_book_pages(m->book, admitted->slot, &n);
    CHECK(n == admitted->n_pages && n <= m->config.pages_per_slot_max);
    if (m->config.tables != NULL)
        for (uint32_t i = 0; i < n; i++)
            m->config.tables[(size_t)admitted->slot * m->config.pages_per_slot_max + i] =
                ses_page_id(page[i]);
    tell_freed(ctx, m);
    act_send(ctx, to, ses_KIND_admitted, admitted, sizeof *admitted);
}

static void memory_on_admit(struct act_ctx *ctx, struct ses_memory *m, act_id_t from,
                            const struct ses_admit *ask) {
    struct ses_answer answer;
    if (ses_book_admit(m->book, ask, &answer) != SES_LATER)
        answer_admit(ctx, m, from, &answer);
}

/* After anything that may have changed what the tier, or an admit that waits for it, can do. */
static void tier_goes_on(struct act_ctx *ctx, struct ses_memory *m) {
    struct ses_answer answer;
    while (ses_book_ready(m->book, &answer))
        answer_admit(ctx, m, m->planner, &answer);
    ses_book_keep_free(m->book, m->config.free_low);
}

static void memory_on_parked(struct act_ctx *ctx, struct ses_memory *m, act_id_t from,
                             const struct ses_parked *told) {
    (void)from;
    ses_book_parked(m->book, told->page, told->status == STATUS_OK);
    tell_freed(ctx, m);
}

static void memory_on_restored(struct act_ctx *ctx, struct ses_memory *m, act_id_t from,
                               const struct ses_restored *told) {
    (void)from;
    ses_book_restored(m->book, told->page, told->status == STATUS_OK);
    tell_freed(ctx, m);
}

static void memory_on_extend(struct act_ctx *ctx, struct ses_memory *m, act_id_t from,
                             const struct ses_extend *ask) {
    struct ses_extended extended;
    ses_book_extend(m->book, ask, &extended);
    tell_freed(ctx, m);
    act_send(ctx, from, ses_KIND_extended, &extended, sizeof extended);
}

static void memory_on_copied(struct act_ctx *ctx, struct ses_memory *m, act_id_t from,
                             const struct ses_copied *told) {
    (void)from;
    ses_book_copied(m->book, told);
    tell_freed(ctx, m);
}

static void memory_on_seal(struct act_ctx *ctx, struct ses_memory *m, act_id_t from,
                           const struct ses_seal *told) {
    struct ses_sealed sealed;
    ses_book_seal(m->book, told, &sealed);
    tell_freed(ctx, m);
    act_send(ctx, from, ses_KIND_sealed, &sealed, sizeof sealed);
}

static void memory_on_release(struct act_ctx *ctx, struct ses_memory *m, act_id_t from,
                              const struct ses_release *told) {
    struct ses_released released;
    ses_book_release(m->book, told, &released);
    tell_freed(ctx, m);
    act_send(ctx, from, ses_KIND_released, &released, sizeof released);
}

static void memory_on_forget(struct act_ctx *ctx, struct ses_memory *m, act_id_t from,
                             const struct ses_forget *ask) {
    struct ses_forgotten forgotten = {.token = ask->token, .pages = ses_book_forget(m->book)};
    tell_freed(ctx, m);
    act_send(ctx, from, ses_KIND_forgotten, &forgotten, sizeof forgotten);
}

static void memory_on_count(struct act_ctx *ctx, struct ses_memory *m, act_id_t from,
                            const struct ses_count *ask) {
    struct ses_counted counted;
    ses_book_count(m->book, &counted);
    counted.token = ask->token;
    act_send(ctx, from, ses_KIND_counted, &counted, sizeof counted);
}

static void memory_receive(struct act_ctx *ctx, void *self, const struct act_msg *msg) {
    struct ses_memory *state = self;
    switch (msg->kind) {
    case ACT_KIND_start:
    case ACT_KIND_gone: /* an asker that left does not need its answer */
        break;
    case ACT_KIND_stop:
        act_exit(ctx);
        break;
        ACT_CASE(memory, ses, admit)
        ACT_CASE(memory, ses, extend)
        ACT_CASE(memory, ses, copied)
        ACT_CASE(memory, ses, seal)
        ACT_CASE(memory, ses, release)
        ACT_CASE(memory, ses, parked)
        ACT_CASE(memory, ses, restored)
        ACT_CASE(memory, ses, forget)
        ACT_CASE(memory, ses, count)
    default:
        CHECK(!"memory was sent a message that its protocol does not have");
    }
    if (state->config.tier != NULL)
        tier_goes_on(ctx, state);
}

const struct act_kind ses_memory_kind = {.name = "memory", .receive = memory_receive};
