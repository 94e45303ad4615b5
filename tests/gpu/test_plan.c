/* SPDX-License-Identifier: Apache-2.0
 * Plan bytes: layout, chain, and that nothing but the sealed bytes is accepted.
 */
#include "gpu/plan.h"
#include "tests/gpu/plan_make.h"
#include "tests/harness.h"

static const struct gpu_limits limits = {.rows = 64,
                                         .seqs = 8,
                                         .draws = 32,
                                         .copies = 8,
                                         .pages = 64,
                                         .counts = 64,
                                         .bias = 16,
                                         .mask_words = 64,
                                         .kept_logits = 2,
                                         .vocab = 100,
                                         .page_tokens = 4};
enum { PAGES = 50 };

static const uint32_t tokens[] = {5, 6, 7, 8, 9, 10, 11, 12};
static const uint32_t pages[] = {1, 2, 3, 4, 5, 6, 7, 8};
static const struct krn_count counts[] = {{5, 1, 0}, {6, 1, 0}};
static const struct krn_bias bias[] = {{9, -1.5f}};
static const uint32_t mask[] = {~0u, ~0u, ~0u, 15};

static void fill(struct gpu_plan *p) {
    const struct gpu_copy copies[] = {{9, 10, 3, 0}};
    const struct test_seq seqs[] = {
        {.slot = 3,
         .n_rows = 8,
         .tokens = tokens,
         .pages = pages,
         .n_pages = 2,
         .n_draws = 1,
         .sampling = test_greedy,
         .counts = counts,
         .n_counts = 2},
        {.slot = 1,
         .first_pos = 9,
         .n_rows = 3,
         .tokens = tokens,
         .pages = pages + 2,
         .n_pages = 3,
         .n_draws = 3,
         .sampling = test_greedy,
         .bias = bias,
         .n_bias = 1,
         .mask = mask,
         .mask_words = 4},
        {.slot = 2,
         .first_pos = 2,
         .n_rows = 1,
         .tokens = tokens,
         .pages = pages + 6,
         .n_pages = 1,
         .n_draws = 1,
         .from_draw = true,
         .sampling = test_greedy},
    };
    test_plan_make(p, copies, 1, seqs, 3);
}

static struct gpu_round *round_with_plan(uint64_t number, uint64_t before) {
    struct gpu_round *round;
    ck_assert_int_eq(gpu_round_new(&limits, 1, &round), STATUS_OK);
    fill(round->plan);
    gpu_plan_seal(round->plan, number, before);
    return round;
}

static enum status check(const struct gpu_plan *p, uint64_t number, uint64_t before) {
    struct status_note note = {{0}};
    enum status s = gpu_plan_check(p, p->bytes, number, before, &limits, PAGES, &note);
    if (s != STATUS_OK)
        ck_assert_int_gt(strlen(note.text), 10);
    return s;
}

START_TEST(test_good) {
    struct gpu_round *round = round_with_plan(7, 42);
    ck_assert_int_eq(check(round->plan, 7, 42), STATUS_OK);
    ck_assert(gpu_plan_sealed(round->plan, 42));
    ck_assert_int_eq(check(round->plan, 8, 42), STATUS_DESYNC);
    ck_assert_int_eq(check(round->plan, 7, 43), STATUS_DESYNC);
    gpu_plan_begin(round->plan, 0, 0, 0, 0, 0, 0, 0, 0);
    gpu_plan_seal(round->plan, 1, 0);
    ck_assert_int_eq(check(round->plan, 1, 0), STATUS_OK);
    gpu_round_free(round);
}
END_TEST

START_TEST(test_largest) {
    /* The largest plan fits, and one more of anything is refused. */
    struct gpu_round *round;
    ck_assert_int_eq(gpu_round_new(&limits, 3, &round), STATUS_OK);
    ck_assert_uint_eq(round->plan_capacity, gpu_plan_bytes_max(&limits));
    gpu_plan_begin(round->plan, limits.copies, limits.seqs, limits.rows, limits.draws, limits.pages,
                   limits.counts, limits.bias, limits.mask_words);
    ck_assert_uint_eq(round->plan->bytes, round->plan_capacity);
    for (uint32_t i = 0; i < 3; i++) {
        struct gpu_result *r = round->results[i];
        memset(r->drawn, 1, limits.draws * sizeof *r->drawn);
        memset(r->top, 2, limits.draws * KRN_TOP_MAX * sizeof *r->top);
        memset(r->bad_row, 3, limits.seqs * sizeof *r->bad_row);
        memset(r->logits_draw, 4, limits.kept_logits * sizeof *r->logits_draw);
        memset(r->logits, 5, limits.kept_logits * limits.vocab * sizeof *r->logits);
        ck_assert_int_eq(((unsigned char *)r->drawn)[0], 1);
        ck_assert_int_eq(((unsigned char *)r->top)[0], 2);
        ck_assert_int_eq(((unsigned char *)r->bad_row)[0], 3);
        ck_assert_int_eq(((unsigned char *)r->logits_draw)[0], 4);
    }
    gpu_round_free(round);
}
END_TEST

START_TEST(test_every_bit) {
    /* Any one flipped bit, header and arrays alike, is refused. */
    struct gpu_round *round = round_with_plan(7, 42);
    unsigned char *bytes = (unsigned char *)round->plan;
    uint32_t n = round->plan->bytes;
    struct status_note note;
    for (uint32_t bit = 0; bit < 8 * n; bit++) {
        bytes[bit / 8] ^= (unsigned char)(1u << bit % 8);
        ck_assert_int_eq(gpu_plan_check(bytes, n, 7, 42, &limits, PAGES, &note), STATUS_DESYNC);
        bytes[bit / 8] ^= (unsigned char)(1u << bit % 8);
    }
    ck_assert_int_eq(check(round->plan, 7, 42), STATUS_OK);
    gpu_round_free(round);
}
END_TEST

START_TEST(test_every_length) {
    struct gpu_round *round = round_with_plan(7, 42);
    uint32_t n = round->plan->bytes;
    for (uint32_t cut = 0; cut < n; cut++) {
        /* An allocation of exactly this size lets the sanitizer see any read behind it. */
        void *copy = malloc(cut + 1);
        memcpy(copy, round->plan, cut);
        struct status_note note;
        ck_assert_int_eq(gpu_plan_check(copy, cut, 7, 42, &limits, PAGES, &note), STATUS_DESYNC);
        free(copy);
    }
    gpu_round_free(round);
}
END_TEST

/* Reads through the views all that a device would read; under the sanitizers a wrong index shows.
 */
static uint64_t walk(const struct gpu_plan *p) {
    uint64_t sum = 0;
    for (uint32_t i = 0; i < p->n_copies; i++)
        sum += gpu_plan_copies(p)[i].src + gpu_plan_copies(p)[i].dst;
    for (uint32_t q = 0; q < p->n_seqs; q++) {
        const struct gpu_seq *s = &gpu_plan_seqs(p)[q];
        for (uint32_t r = 0; r < s->n_rows; r++) {
            ck_assert_uint_lt(gpu_plan_rows(p)[s->first_row + r].token, limits.vocab);
            uint32_t page =
                gpu_plan_pages(p)[s->first_page + (s->first_pos + r) / limits.page_tokens];
            ck_assert_uint_lt((s->first_pos + r) / limits.page_tokens, s->n_pages);
            ck_assert_uint_lt(page, PAGES);
            ck_assert_uint_gt(page, 0);
        }
        for (uint32_t j = 0; j < s->n_draws; j++) {
            const struct gpu_draw *d = &gpu_plan_draws(p)[s->first_draw + j];
            ck_assert_uint_lt(d->row - s->first_row, s->n_rows);
            for (uint32_t c = 0; c < d->n_counts; c++)
                ck_assert_uint_lt(gpu_plan_counts(p)[d->first_count + c].id, limits.vocab);
            for (uint32_t c = 0; c < d->n_bias; c++)
                ck_assert_uint_lt(gpu_plan_bias(p)[d->first_bias + c].id, limits.vocab);
            for (uint32_t w = 0; d->mask != GPU_NO_MASK && w < (limits.vocab + 31) / 32; w++)
                sum += gpu_plan_masks(p)[d->mask + w];
        }
    }
    return sum;
}

START_TEST(test_resealed) {
    /* A sender that computes the digest over nonsense is refused by the indices, or what it says is
     * safe to execute. */
    struct gpu_round *round = round_with_plan(7, 42);
    uint32_t n = round->plan->bytes, accepted = 0, refused = 0;
    unsigned char *bytes = aligned_alloc(16, n), *exact = malloc(n);
    struct status_note note;
    uint64_t seed = 1;
    for (int trial = 0; trial < 40000; trial++) {
        memcpy(bytes, round->plan, n);
        int words = 1 + (int)(test_random(&seed) % 3);
        for (int w = 0; w < words; w++) {
            uint32_t value = (uint32_t)test_random(&seed);
            if (value % 3 != 0)
                value = value % 2 == 0 ? value >> 27 : 0u - (value >> 27);
            uint32_t at = (uint32_t)(test_random(&seed) % (n / 4));
            memcpy(bytes + (size_t)at * 4, &value, 4);
        }
        struct gpu_plan *p = (struct gpu_plan *)bytes;
        p->bytes = n; /* the digest runs over the bytes that there are */
        gpu_plan_seal(p, 7, 42);
        memcpy(exact, bytes, n);
        if (gpu_plan_check(exact, n, 7, 42, &limits, PAGES, &note) == STATUS_OK) {
            accepted++;
            walk((const struct gpu_plan *)exact);
        } else {
            refused++;
        }
    }
    ck_assert_uint_gt(accepted, 1000);
    ck_assert_uint_gt(refused, 1000);
    free(bytes);
    free(exact);
    gpu_round_free(round);
}
END_TEST

/* One wrong field a case; each resealed, each refused with a sentence that names the thing. */
#define IN(array, type, i, field, value, says)                                                     \
    {                                                                                              \
        offsetof(struct gpu_plan, off_##array), (i) * sizeof(type) + offsetof(type, field), value, \
            says                                                                                   \
    }
#define SEQ(i, field, value, says)  IN(seqs, struct gpu_seq, i, field, value, says)
#define DRAW(i, field, value, says) IN(draws, struct gpu_draw, i, field, value, says)
#define ROW(i, field, value, says)  IN(rows, struct gpu_row, i, field, value, says)
#define COPY(field, value, says)    IN(copies, struct gpu_copy, 0, field, value, says)
struct page {
    uint32_t id;
};
static const struct {
    size_t array, at;
    uint32_t value;
    const char *says;
} wrongs[] = {
    SEQ(2, slot, 3, "slot"),
    SEQ(2, slot, GPU_SLOTS_MAX, "slot"),
    SEQ(2, n_rows, 2, "rows"),
    SEQ(2, n_rows, 0, "rows"),
    SEQ(1, first_row, 9, "rows"),
    SEQ(2, n_pages, 3, "page table"),
    SEQ(0, n_pages, 1, "page table"),
    SEQ(0, first_pos, UINT32_MAX - 7, "page table"),
    SEQ(2, n_draws, 2, "draws"),
    SEQ(1, reserved, 1, "position"),
    DRAW(0, row, 8, "row"),
    DRAW(2, row, 8, "row"), /* twice */
    DRAW(0, seq, 1, "row"),
    DRAW(1, extra_row, 7, "extra"),
    DRAW(1, extra_row, 10, "extra"),
    DRAW(0, n_counts, 3, "counts"),
    DRAW(0, first_count, UINT32_MAX, "counts"),
    DRAW(1, first_bias, 1, "biases"),
    DRAW(1, mask, 1, "mask"),
    DRAW(1, sampling.temperature, 0x7fc00000, "sampling"), /* NaN */
    DRAW(1, sampling.top_p, 0x7f800000, "sampling"),       /* infinity */
    DRAW(1, sampling.n_top, KRN_TOP_MAX + 1, "sampling"),
    DRAW(1, sampling.flags, 64, "sampling"),
    ROW(4, token, 100, "row"),
    ROW(4, flags, 2, "row"),
    ROW(4, flags, GPU_ROW_FROM_DRAW, "drawn token"),
    IN(pages, struct page, 1, id, GPU_PAGE_SINK, "page 0"),
    IN(pages, struct page, 1, id, PAGES, "page 50"),
    COPY(dst, 9, "copy"), /* onto itself */
    COPY(dst, GPU_PAGE_SINK, "copy"),
    COPY(src, PAGES, "copy"),
    COPY(tokens, 5, "copy"),
    IN(counts, struct krn_count, 1, id, 100, "count"),
    IN(bias, struct krn_bias, 0, id, 100, "bias"),
};

static void refused(struct gpu_plan *p, const char *says) {
    struct status_note note = {{0}};
    gpu_plan_seal(p, 7, 42);
    ck_assert_int_eq(gpu_plan_check(p, p->bytes, 7, 42, &limits, PAGES, &note), STATUS_DESYNC);
    ck_assert_msg(strstr(note.text, says) != NULL, "for %s it says: %s", says, note.text);
}

START_TEST(test_each_field) {
    struct gpu_round *round;
    for (size_t w = 0; w < sizeof wrongs / sizeof wrongs[0]; w++) {
        round = round_with_plan(7, 42);
        unsigned char *bytes = (unsigned char *)round->plan;
        uint32_t off;
        memcpy(&off, bytes + wrongs[w].array, sizeof off);
        memcpy(bytes + off + wrongs[w].at, &wrongs[w].value, sizeof(uint32_t));
        refused(round->plan, wrongs[w].says);
        gpu_round_free(round);
    }
    round = round_with_plan(7, 42);
    round->plan->world = 0;
    refused(round->plan, "world of 0");
    round->plan->world = 9;
    refused(round->plan, "world of 9");
    round->plan->world = 1;
    round->plan->flags = 4;
    refused(round->plan, "flags 4");
    round->plan->flags = 0;
    for (int i = 1; i < 4; i++)
        gpu_plan_draws(round->plan)[i].sampling.flags = KRN_DRAW_KEEP_LOGITS;
    refused(round->plan, "keeps 3");
    gpu_round_free(round);
}
END_TEST

START_TEST(test_chain) {
    /* The digest of a plan depends on every plan before it. */
    struct gpu_round *round = round_with_plan(1, 0);
    uint64_t first = round->plan->digest;
    gpu_plan_seal(round->plan, 2, first);
    uint64_t second = round->plan->digest;
    gpu_plan_seal(round->plan, 2, first ^ 1);
    ck_assert_uint_ne(round->plan->digest, second);
    gpu_round_free(round);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("gpu/plan");
    TCase *tc = tcase_create("plan");
    tcase_set_timeout(tc, 120);
    tcase_add_test(tc, test_good);
    tcase_add_test(tc, test_largest);
    tcase_add_test(tc, test_every_bit);
    tcase_add_test(tc, test_every_length);
    tcase_add_test(tc, test_resealed);
    tcase_add_test(tc, test_each_field);
    tcase_add_test(tc, test_chain);
    suite_add_tcase(suite, tc);
    return test_run(suite);
}
