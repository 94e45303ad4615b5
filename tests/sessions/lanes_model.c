/* SPDX-License-Identifier: Apache-2.0
 * The plain model of lanes, page contents and kept sequences.
 */
#include "tests/sessions/lanes_model.h"

uint32_t model_choose(struct model *m, uint32_t n) {
    EXPECT(n > 0);
    return (uint32_t)(expect_random(&m->random) % n);
}

void model_open(struct model *m, uint64_t seed, uint32_t n_pages, uint32_t page_tokens,
                uint32_t pages_per_slot_max) {
    EXPECT(n_pages <= MODEL_PAGES && page_tokens <= MODEL_PAGE_TOKENS);
    /* Not all of it is wiped: many small runs begin here. */
    memset(m->cell, 0xff, (n_pages + 1) * sizeof m->cell[0]);
    for (uint32_t i = 0; i < MODEL_SLOTS; i++)
        m->lane[i] = (struct model_lane){0};
    m->n_kept = m->n_past = 0;
    m->rows_computed = m->rows_saved = m->admitted = m->denied = 0;
    m->random = seed;
    m->n_pages = n_pages;
    m->page_tokens = page_tokens;
    m->pages_per_slot_max = pages_per_slot_max;
    m->tenants = 2;
    m->alphabet = 3;
}

void model_remember(struct model_sequence *list, uint32_t *n, uint64_t tenant, const uint32_t *ids,
                    uint32_t n_ids) {
    struct model_sequence *s = &list[*n % MODEL_HISTORY];
    (*n)++;
    s->tenant = tenant;
    s->n = n_ids;
    memcpy(s->ids, ids, n_ids * sizeof *ids);
}

void model_prompt(struct model *m, struct model_lane *lane, uint32_t n_max) {
    uint32_t n = 0, have = m->n_past < MODEL_HISTORY ? m->n_past : MODEL_HISTORY;
    lane->tenant = model_choose(m, m->tenants);
    if (have > 0 && model_choose(m, 8) > 0) {
        const struct model_sequence *from = &m->past[model_choose(m, have)];
        n = from->n < n_max ? from->n : n_max;
        memcpy(lane->ids, from->ids, n * sizeof *lane->ids);
        lane->tenant = from->tenant;
        if (model_choose(m, 3) == 0)
            n = model_choose(m, n + 1);
        if (n > 0 && model_choose(m, 4) == 0)
            lane->ids[model_choose(m, n)] = model_choose(m, m->alphabet);
    }
    uint32_t more =
        n == 0 ? 1 + model_choose(m, n_max) : model_choose(m, 2) * model_choose(m, n_max - n + 1);
    for (; more > 0 && n < n_max; more--)
        lane->ids[n++] = model_choose(m, m->alphabet);
    lane->n_ids = n;
    lane->n_rows = 0;
    lane->max_tokens = n + model_choose(m, n_max - n + 1);
    model_remember(m->past, &m->n_past, lane->tenant, lane->ids, n);
}

static uint32_t model_common(const uint32_t *a, uint32_t n_a, const uint32_t *b, uint32_t n_b) {
    uint32_t i = 0;
    while (i < n_a && i < n_b && a[i] == b[i])
        i++;
    return i;
}

uint32_t model_expected_kept(const struct model *m, const struct model_lane *lane) {
    uint32_t best = 0;
    EXPECT(m->n_kept <= MODEL_HISTORY);
    for (uint32_t i = 0; i < m->n_kept; i++) {
        uint32_t n = m->kept[i].tenant != lane->tenant
                         ? 0
                         : model_common(m->kept[i].ids, m->kept[i].n, lane->ids, lane->n_ids);
        best = n > best ? n : best;
    }
    return best == lane->n_ids ? best - 1 : best;
}

uint32_t model_expected_cached(const struct model *m, const struct ses_trie *t,
                               const struct model_lane *lane) {
    uint32_t best = 0;
    for (uint32_t node = 1; node <= m->n_pages; node++) {
        if (!ses_trie_live(t, node) || ses_trie_space(t, node)->tenant != lane->tenant)
            continue;
        uint32_t ids[MODEL_IDS + MODEL_PAGE_TOKENS], n = 0;
        for (uint32_t at = node; at != 0; at = ses_trie_parent(t, at)) {
            uint32_t n_tokens;
            const uint32_t *tokens = ses_trie_tokens(t, at, &n_tokens);
            uint32_t first = ses_trie_depth(t, at) * m->page_tokens;
            memcpy(ids + first, tokens, n_tokens * sizeof *tokens);
            n = first + n_tokens > n ? first + n_tokens : n;
        }
        uint32_t common = model_common(ids, n, lane->ids, lane->n_ids);
        best = common > best ? common : best;
    }
    return best == lane->n_ids ? best - 1 : best;
}

void model_check_lane(const struct model *m, const struct model_lane *lane) {
    uint32_t known = lane->n_rows;
    if (lane->copy_waits) /* nothing behind the shared pages is there yet */
        known -= known % m->page_tokens;
    for (uint32_t i = 0; lane->live && i < known; i++) {
        const struct model_cell *cell =
            &m->cell[lane->page[i / m->page_tokens]][i % m->page_tokens];
        EXPECT_EQ(cell->position, i);
        EXPECT_EQ(cell->token, lane->ids[i]);
    }
}

void model_check_cached(const struct model *m, const struct ses_trie *t) {
    for (uint32_t node = 1; node <= m->n_pages; node++) {
        if (!ses_trie_live(t, node))
            continue;
        uint32_t n;
        const uint32_t *tokens = ses_trie_tokens(t, node, &n);
        uint32_t page = ses_page_id(ses_trie_page(t, node));
        for (uint32_t i = 0; i < n; i++) {
            EXPECT_EQ(m->cell[page][i].token, tokens[i]);
            EXPECT_EQ(m->cell[page][i].position, ses_trie_depth(t, node) * m->page_tokens + i);
        }
    }
}

void model_admitted(struct model *m, struct model_lane *lane, const struct ses_admitted *a,
                    const uint32_t *pages) {
    EXPECT(a->matched < lane->n_ids);
    EXPECT_EQ(a->n_pages, (lane->n_ids + m->page_tokens - 1) / m->page_tokens);
    lane->live = true;
    lane->n_pages = a->n_pages;
    memcpy(lane->page, pages, a->n_pages * sizeof *pages);
    lane->n_rows = a->matched;
    lane->copy_waits = a->copy_src != 0;
    lane->copy_src = a->copy_src;
    lane->copy_dst = a->copy_dst;
    lane->copy_tokens = a->copy_tokens;
    if (lane->copy_waits) {
        EXPECT_EQ(a->copy_tokens, a->matched % m->page_tokens);
        EXPECT_EQ(a->copy_dst, lane->page[a->matched / m->page_tokens]);
        EXPECT(a->copy_src != a->copy_dst);
    }
    m->admitted++;
    m->rows_saved += a->matched;
}

void model_copy(struct model *m, struct model_lane *lane) {
    for (uint32_t i = 0; i < lane->copy_tokens; i++)
        m->cell[lane->copy_dst][i] = m->cell[lane->copy_src][i];
    lane->copy_waits = false;
}

void model_compute(struct model *m, struct model_lane *lane) {
    uint32_t i = lane->n_rows, page = lane->page[i / m->page_tokens];
    EXPECT(!lane->copy_waits);
    EXPECT(i < lane->n_ids);
    EXPECT(i / m->page_tokens < lane->n_pages);
    for (uint32_t k = 0; k < MODEL_SLOTS; k++)
        for (uint32_t p = 0; m->lane[k].live && &m->lane[k] != lane && p < m->lane[k].n_pages; p++)
            EXPECT(m->lane[k].page[p] != page);
    m->cell[page][i % m->page_tokens] = (struct model_cell){.token = lane->ids[i], .position = i};
    lane->n_rows++;
    m->rows_computed++;
}

uint32_t model_rows_kept(const struct model *m, const struct model_lane *lane) {
    return lane->copy_waits ? lane->n_rows - lane->n_rows % m->page_tokens : lane->n_rows;
}

void model_freed(struct model *m, const uint32_t *ids, uint32_t n) {
    for (uint32_t i = 0; i < n; i++) {
        for (uint32_t k = 0; k < MODEL_SLOTS; k++)
            for (uint32_t p = 0; m->lane[k].live && p < m->lane[k].n_pages; p++)
                EXPECT(m->lane[k].page[p] != ids[i]);
        memset(m->cell[ids[i]], 0xff, sizeof m->cell[ids[i]]);
    }
}
