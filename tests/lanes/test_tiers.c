/* SPDX-License-Identifier: Apache-2.0
 * The whole engine with tiers below a device that is too small: conversations that take turns come
 * back from memory or disk, and what they say equals a run alone, fresh and without tiers.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/lanes/engine_calls.h"

enum { CHATS = 6, TURNS = 3, FIRST = 150, MORE = 40, NEW = 12, LONGEST = 400 };

static uint32_t prompt[CHATS * TURNS][LONGEST], length[CHATS * TURNS];

/* What each chat says alone, fresh and without tiers: the same for every test, so made once. */
static struct engine_test *alone;

/* Turn t of chat c goes on with what was said, as it was said in the reference. */
static void reference(void) {
    struct lane_engine_config config = engine_config();
    struct engine_test *made = NULL;
    if (alone != NULL)
        return;
    config.threads = 1;
    for (uint32_t t = 0; t < TURNS; t++) {
        struct engine_test *now = engine_open(&config);
        for (uint32_t c = 0; c < CHATS; c++) {
            uint32_t i = t * CHATS + c, n = 0;
            if (t > 0) {
                const struct client_call *last = &made->call[i - CHATS];
                n = length[i - CHATS];
                memcpy(prompt[i], prompt[i - CHATS], n * sizeof(uint32_t));
                memcpy(prompt[i] + n, last->ids, last->n_new * sizeof(uint32_t));
                n += last->n_new;
            }
            uint32_t more = t == 0 ? FIRST + 17 * c : MORE + c;
            engine_fill(prompt[i] + n, more, 100 * t + c);
            length[i] = n + more;
            ck_assert_uint_le(length[i], LONGEST);
        }
        for (uint32_t i = 0; i < (t + 1) * CHATS; i++) /* the earlier ones too: one run has all */
            engine_add(now, prompt[i], length[i], NEW)->request.flags |=
                LANE_NO_REUSE | LANE_NO_KEEP | LANE_IGNORE_EOS;
        engine_run(now, 4);
        if (made != NULL)
            engine_free(made);
        made = now;
    }
    alone = made;
}

static uint64_t page_bytes(void) {
    struct lane_engine_config config = engine_config();
    config.kv_bytes = 64u << 20;
    config.threads = 1;
    struct engine_test *t = engine_open(&config);
    engine_add(t, prompt[0], length[0], 1);
    uint64_t pages = lane_engine_counters(t->engine)->pages_total;
    engine_run(t, 1);
    engine_free(t);
    return config.kv_bytes / pages;
}

static char folder[64];

static void folder_begin(void) {
    strcpy(folder,
           access("/dev/shm", W_OK) == 0 ? "/dev/shm/rh-tiers-XXXXXX" : "/tmp/rh-tiers-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(folder));
}

static void folder_end(void) {
    char command[128];
    snprintf(command, sizeof command, "rm -rf %s", folder);
    ck_assert_int_eq(system(command), 0);
}

/* A device too small for the chats, and below it a RAM cache of some pages or a disk. */
static struct lane_engine_config small_device(uint32_t world, uint32_t lanes, uint32_t ram_pages,
                                              bool disk) {
    struct lane_engine_config config = engine_config();
    uint64_t page = page_bytes() / world;
    config.world = world;
    config.threads = 1;
    config.kv_bytes = page * 8 * lanes;
    config.ram_cache = ram_pages > 0 ? (page + 4095) / 4096 * 4096 * ram_pages : 0;
    config.disk_cache = disk ? folder : NULL;
    config.disk_budget = 256u << 20;
    config.disk_segment = 1u << 20;
    return config;
}

/* All turns from the reference's begin on; what each resumed is compared with what was left. */
static struct engine_test *turns(const struct lane_engine_config *config, uint32_t lanes,
                                 uint32_t from) {
    struct engine_test *t = engine_open(config);
    for (uint32_t i = from; i < CHATS * TURNS; i++)
        engine_add(t, prompt[i], length[i], NEW)->request.flags |= LANE_IGNORE_EOS;
    t->settle = lanes == 1; /* so that it does not depend on how fast the disk is */
    engine_run(t, lanes);
    for (uint32_t k = 0; k < t->n; k++) {
        const struct client_call *c = &t->call[k];
        engine_same(t, k, alone, from + k);
        ck_assert_uint_le(c->from_ram + c->from_disk, c->n_resumed);
        /* What the turn before left, its last token excepted, all resumes. */
        if (config->ram_cache > 0 && from == 0 && k >= CHATS && lanes == 1)
            ck_assert_uint_eq(c->n_resumed, length[k - CHATS] + NEW - 1);
    }
    return t;
}

static uint32_t sum_ram(const struct engine_test *t) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < t->n; i++)
        n += t->call[i].from_ram;
    return n;
}

static uint32_t sum_disk(const struct engine_test *t) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < t->n; i++)
        n += t->call[i].from_disk;
    return n;
}

static void check(uint32_t world, uint32_t lanes, bool with_ram) {
    reference();
    struct lane_engine_config config = small_device(world, lanes, with_ram ? 48 : 0, false);
    struct engine_test *t = turns(&config, lanes, 0);
    ck_assert_uint_eq(sum_disk(t), 0);
    ck_assert(with_ram ? sum_ram(t) > 1000 : sum_ram(t) == 0);
    engine_free(t);
}

/* Through the disk while it runs, and over a restart; the directory is then another model's. */
static void check_disk(uint32_t world, uint32_t lanes) {
    reference();
    folder_begin();
    struct lane_engine_config config = small_device(world, lanes, 12, true);
    struct engine_test *t = turns(&config, lanes, 0);
    ck_assert(sum_disk(t) > 500);
    engine_free(t);
    t = turns(&config, lanes, 2 * CHATS); /* the last turns again, by a new engine */
    for (uint32_t i = 0; lanes == 1 && i < CHATS; i++) {
        ck_assert_uint_eq(t->call[i].n_resumed, length[2 * CHATS + i] - 1);
        ck_assert_uint_eq(t->call[i].from_disk, t->call[i].n_resumed);
        ck_assert_uint_eq(t->call[i].reason, SES_HIT_CAPPED);
    }
    ck_assert(sum_disk(t) > 1000);
    engine_free(t);
    config.virtual_ranks = world; /* another profile: a miss that says so, and nothing is lost */
    t = engine_open(&config);
    engine_add(t, prompt[0], length[0], NEW)->request.flags |= LANE_IGNORE_EOS;
    engine_run(t, 1);
    ck_assert_uint_eq(t->call[0].n_resumed, 0);
    ck_assert_uint_eq(t->call[0].reason, SES_MISS_KEY);
    engine_free(t);
    config.virtual_ranks = 0;
    struct lane_engine_config longer = config; /* pages of another size are another layout */
    longer.page_tokens = 2 * 64;               /* 64: the default */
    longer.kv_bytes *= 2;
    longer.ram_cache *= 2;
    t = engine_open(&longer);
    engine_add(t, prompt[0], length[0], NEW)->request.flags |= LANE_IGNORE_EOS;
    engine_run(t, 1);
    ck_assert_uint_eq(t->call[0].n_resumed, 0);
    ck_assert_uint_eq(t->call[0].reason, SES_MISS_KEY);
    engine_free(t);
    t = turns(&config, lanes, 2 * CHATS);
    ck_assert(sum_disk(t) > 1000);
    engine_free(t);
    folder_end();
}

/* On any thread, but not on two at once: one engine after the other. */
struct heard {
    uint32_t drains, unsaved, pages;
};

static void hear(void *self, const char *text) {
    struct heard *h = self;
    h->unsaved += sscanf(text, "drain: %u pages of sessions were not saved", &h->pages) == 1;
    h->drains += strncmp(text, "drain:", 6) == 0;
}

/* A drain that saves all says nothing; one that could not says how much is lost. */
static void check_unsaved(void) {
    uint32_t other[FIRST];
    folder_begin();
    struct lane_engine_config config = engine_config();
    config.threads = 1;
    config.kv_bytes = 64u << 20;
    config.disk_cache = folder;
    config.disk_budget = 256u << 20;
    config.disk_segment = 1u << 20;
    config.say = hear;
    for (int full = 0; full < 2; full++) {
        struct heard heard = {.pages = 0};
        config.say_self = &heard;
        config.disk_floor = full ? UINT64_MAX / 2 : 0;
        struct engine_test *t = engine_open(&config);
        engine_fill(other, FIRST, 7 + (uint64_t)full);
        engine_add(t, other, FIRST, NEW)->request.flags |= LANE_IGNORE_EOS;
        engine_run(t, 1);
        engine_free(t);
        ck_assert_uint_eq(heard.drains, full);
        ck_assert_uint_eq(heard.unsaved, full);
        ck_assert_uint_eq(heard.pages, full ? (FIRST + NEW - 1 + 63) / 64 : 0);
    }
    folder_end();
}

static void edit(const char *name, const char *how) {
    char command[256];
    snprintf(command, sizeof command, "cd %s && for f in %s; do %s; done", folder, name, how);
    ck_assert_int_eq(system(command), 0);
}

/* What may befall a directory between two lives, and how much still comes from it. */
static const struct damage {
    const char *name, *how;
    enum { ALL, LESS, NONE } left;
} damages[] = {
    {"index/data.mdb", "truncate -s 9000 $f", ALL},
    {"index/data.mdb", "printf x | dd of=$f bs=1 seek=20 conv=notrunc status=none", ALL},
    {"index", "rm -r $f", ALL},
    {"index/lock.mdb", "head -c 5000 /dev/urandom >$f", ALL},
    {"segment-*", "printf xyz | dd of=$f bs=1 seek=150000 conv=notrunc status=none", LESS},
    {"segment-*", "truncate -s 300000 $f", LESS},
    {"segment-*", "rm $f", NONE},
};

/* Whatever is left is resumed and equals fresh, the rest is computed. */
static void check_damaged(void) {
    reference();
    folder_begin();
    struct lane_engine_config config = small_device(1, 1, 12, true);
    engine_free(turns(&config, 1, 0));
    uint32_t whole = 0;
    for (uint32_t c = 0; c < CHATS; c++)
        whole += length[2 * CHATS + c] - 1;
    for (size_t i = 0; i < sizeof damages / sizeof *damages; i++) {
        edit(damages[i].name, damages[i].how);
        struct engine_test *t = turns(&config, 1, 2 * CHATS);
        uint32_t n = sum_disk(t);
        ck_assert_msg(damages[i].left == ALL    ? n == whole
                      : damages[i].left == LESS ? n < whole
                                                : n == 0,
                      "%s after %s: %u tokens of %u", damages[i].name, damages[i].how, n, whole);
        engine_free(t);
    }
    folder_end();
}

START_TEST(tiers_memory_one_at_a_time) {
    check(1, 1, true);
}
END_TEST

START_TEST(tiers_memory_two_ranks) {
    check(2, 1, true);
}
END_TEST

START_TEST(tiers_memory_in_company) {
    check(1, 3, true);
}
END_TEST

START_TEST(tiers_none) {
    check(1, 1, false);
}
END_TEST

START_TEST(tiers_disk_one_at_a_time) {
    check_disk(1, 1);
}
END_TEST

START_TEST(tiers_disk_two_ranks) {
    check_disk(2, 1);
}
END_TEST

START_TEST(tiers_disk_in_company) {
    check_disk(1, 3);
}
END_TEST

START_TEST(tiers_disk_unsaved) {
    check_unsaved();
}
END_TEST

START_TEST(tiers_disk_damaged) {
    check_damaged();
}
END_TEST

int main(void) {
    Suite *suite = suite_create("lanes/tiers");
    TCase *tcase = tcase_create("tiers");
    tcase_set_timeout(tcase, 300);
    tcase_add_test(tcase, tiers_memory_one_at_a_time);
    tcase_add_test(tcase, tiers_memory_two_ranks);
    tcase_add_test(tcase, tiers_memory_in_company);
    tcase_add_test(tcase, tiers_none);
    tcase_add_test(tcase, tiers_disk_one_at_a_time);
    tcase_add_test(tcase, tiers_disk_two_ranks);
    tcase_add_test(tcase, tiers_disk_in_company);
    tcase_add_test(tcase, tiers_disk_unsaved);
    tcase_add_test(tcase, tiers_disk_damaged);
    suite_add_tcase(suite, tcase);
    int result = test_run(suite);
    if (alone != NULL)
        engine_free(alone);
    return result;
}
