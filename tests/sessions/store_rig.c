/* SPDX-License-Identifier: Apache-2.0
 * The keys' life, and the answers' judgement.
 */
#include "tests/sessions/store_rig.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

struct truth *truth;
struct rig rig;

static uint32_t rig_below(uint32_t n) {
    rig.rng = rig.rng * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)((rig.rng >> 33) % n);
}

static void rig_fill(unsigned char *page, uint32_t key, uint32_t version) {
    uint64_t x = (uint64_t)key << 32 | version;
    for (uint32_t i = 0; i < RIG_PAGE; i++) {
        x = x * 6364136223846793005u + 1442695040888963407u;
        page[i] = (unsigned char)(x >> 56);
    }
    memset(page + RIG_PAGE, 0, RIG_HOST - RIG_PAGE);
}

static bool rig_right(const unsigned char *page, uint32_t key, uint32_t version) {
    static unsigned char want[RIG_HOST];
    rig_fill(want, key, version);
    return memcmp(page, want, RIG_HOST) == 0;
}

struct ses_key rig_key(uint32_t model) {
    return (struct ses_key){.fingerprint = {model, 1}, .profile = 2, .world = 1};
}

static void rig_record_of(uint32_t key, uint32_t slot) {
    struct ses_space space;
    struct ses_key k = rig_key(1);
    space = ses_space_of(&k, key % 3);
    for (uint32_t i = 0; i < RIG_TOKENS; i++)
        rig.tokens[slot][i] = key * 100 + i;
    rig.record[slot] = (struct ses_record){.space = space,
                                           .name = {{key * 0x9e3779b97f4a7c15u, key}},
                                           .depth = key % 4,
                                           .n_tokens = 1 + key % RIG_TOKENS,
                                           .tokens = rig.tokens[slot]};
}

static void rig_on_stored(void *self, uint32_t slot, enum status status) {
    (void)self;
    uint32_t key = rig.slot_key[slot];
    EXPECT(rig.slot_busy[slot] && truth->key[key].state == KEY_PUTTING);
    rig.slot_busy[slot] = false;
    if (status == STATUS_OK) {
        truth->key[key].state = KEY_HELD;
        truth->puts++;
        return;
    }
    rig.failed_puts++;
    truth->key[key].state = rig.settled ? KEY_ABSENT : KEY_UNSURE;
    rig.number_busy[truth->key[key].number] = false;
}

static void rig_on_loaded(void *self, uint32_t slot, enum status status) {
    (void)self;
    uint32_t key = rig.slot_key[slot];
    EXPECT(rig.slot_busy[slot]);
    rig.slot_busy[slot] = false;
    rig.good_loads += status == STATUS_OK;
    rig.bad_loads += status != STATUS_OK;
    bool right = status != STATUS_OK;
    for (uint32_t v = rig.any_version ? 0 : truth->key[key].version;
         v <= truth->key[key].version && !right; v++)
        right = rig_right(rig.host + slot * RIG_HOST, key, v);
    EXPECT(right);
    truth->gets++;
}

static void rig_on_erased(void *self, uint32_t number) {
    (void)self;
    uint32_t key = rig.number_key[number];
    EXPECT(rig.number_busy[number] && truth->key[key].state == KEY_ERASING);
    truth->key[key].state = KEY_ABSENT;
    rig.number_busy[number] = false;
    truth->erases++;
}

const struct ses_store_answers rig_answers = {
    .stored = rig_on_stored, .loaded = rig_on_loaded, .erased = rig_on_erased};

static void rig_say(void *self, const char *sentence) {
    (void)self;
    rig.said += sentence[0] != 0;
}

struct ses_store_config rig_config(uint32_t model) {
    return (struct ses_store_config){.folder = rig.folder,
                                     .disk = fake_disk_open(),
                                     .budget = rig.budget != 0 ? rig.budget : 1 << 20,
                                     .segment_bytes = 4 * (4096 + RIG_HOST),
                                     .key = rig_key(model),
                                     .text = "a model of the tests",
                                     .profile = {.name = "tests", .version = 1, .virtual_ranks = 4},
                                     .page_tokens = RIG_TOKENS,
                                     .page_bytes = RIG_PAGE,
                                     .host = rig.host,
                                     .host_bytes = RIG_HOST,
                                     .n_host = RIG_SLOTS,
                                     .piece_bytes = (rig.rng >> 40 & 1) != 0 ? 4096 : 0,
                                     .n_numbers = RIG_NUMBERS,
                                     .say = rig_say};
}

bool rig_begin(void) {
    bool fine = rig_try_begin();
    EXPECT_FINE(fine || fake_disk_dead(), rig.note);
    return fine;
}

bool rig_try_begin(void) {
    struct ses_store_config c = rig_config(1);
    struct ses_store_counts counts;
    rig.note.text[0] = '\0';
    enum status s = ses_store_open(&c, &rig.store, &rig.note);
    memset(rig.slot_busy, 0, sizeof rig.slot_busy);
    memset(rig.number_busy, 0, sizeof rig.number_busy);
    if (s != STATUS_OK)
        return false;
    ses_store_count(rig.store, &counts);
    ses_store_answer_to(rig.store, &rig_answers);
    bool there[RIG_KEYS] = {false};
    uint64_t missing = 0;
    for (uint32_t i = 0; i < ses_store_n_found(rig.store); i++) {
        const struct ses_record *r = ses_store_found(rig.store, i);
        uint32_t key = (uint32_t)r->name.word[1];
        EXPECT(key < RIG_KEYS && !there[key]);
        EXPECT(r->tokens[0] == key * 100 && r->n_tokens == 1 + key % RIG_TOKENS);
        if (truth->key[key].state == KEY_ABSENT && counts.rebuilt > 0)
            continue;
        EXPECT(truth->key[key].state != KEY_ABSENT);
        EXPECT(r->use <= truth->key[key].use && r->flags <= SES_RECORD_PINNED);
        there[key] = true;
        truth->key[key].number = i;
        rig.number_key[i] = key;
        rig.number_busy[i] = true;
        ses_store_bind(rig.store, i, i);
    }
    for (uint32_t key = 0; key < RIG_KEYS; key++) {
        missing += !there[key] && truth->key[key].state == KEY_HELD;
        truth->key[key].state = there[key] ? KEY_HELD : KEY_ABSENT;
    }
    EXPECT(missing <= truth->counts.dropped); /* what was acknowledged is there */
    s = ses_store_settle(rig.store, &rig.note);
    if (s != STATUS_OK && !fake_disk_dead())
        rig_end();
    return s == STATUS_OK || fake_disk_dead();
}

bool rig_cycle(void) {
    return ses_store_cycle(rig.store);
}

void rig_finish(void) {
    for (uint32_t i = 0; rig_cycle(); i++)
        EXPECT(i < 100000);
}

void rig_act(void) {
    uint32_t slot = rig_below(RIG_SLOTS), key = rig_below(RIG_KEYS),
             number = rig_below(RIG_NUMBERS);
    enum key_state state = truth->key[key].state;
    if (rig.slot_busy[slot])
        return;
    for (uint32_t i = 0; i < RIG_SLOTS; i++) /* one thing at a time with a key */
        if (rig.slot_busy[i] && rig.slot_key[i] == key)
            return;
    if (state == KEY_ABSENT && !rig.number_busy[number]) {
        truth->key[key].state = KEY_PUTTING;
        truth->key[key].version++;
        truth->key[key].number = number;
        rig_record_of(key, slot);
        rig_fill(rig.host + slot * RIG_HOST, key, truth->key[key].version);
        rig.slot_key[slot] = key;
        rig.slot_busy[slot] = true;
        rig.number_busy[number] = true;
        rig.number_key[number] = key;
        ses_store_put(rig.store, &rig.record[slot], number, slot);
    } else if (state == KEY_HELD && rig_below(4) == 0) {
        ses_store_mark(rig.store, truth->key[key].number, ++truth->key[key].use, rig_below(2));
    } else if (state == KEY_HELD && rig_below(3) > 0) {
        rig.slot_key[slot] = key;
        rig.slot_busy[slot] = true;
        memset(rig.host + slot * RIG_HOST, 0xee, RIG_HOST);
        ses_store_get(rig.store, truth->key[key].number, slot);
    } else if (state == KEY_HELD) {
        truth->key[key].state = KEY_ERASING;
        ses_store_erase(rig.store, truth->key[key].number);
    }
}

void rig_work(uint32_t steps) {
    for (uint32_t i = 0; i < steps && !fake_disk_dead(); i++) {
        rig_act();
        if (rig_below(3) == 0)
            rig_cycle();
    }
}

void rig_end(void) {
    if (rig.store == NULL)
        return;
    ses_store_count(rig.store, &truth->counts);
    ses_store_close(rig.store);
    rig.store = NULL;
}

void rig_world_begin(uint64_t seed) {
    if (truth == NULL) {
        truth =
            mmap(NULL, sizeof *truth, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        rig.host = mmap(NULL, RIG_SLOTS * RIG_HOST, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        /* Thousands of syncs: in memory where that is possible. */
        strcpy(rig.folder,
               access("/dev/shm", W_OK) == 0 ? "/dev/shm/rh-store-XXXXXX" : "/tmp/rh-store-XXXXXX");
        EXPECT(truth != MAP_FAILED && rig.host != MAP_FAILED && mkdtemp(rig.folder) != NULL);
    }
    fake_disk_clear(rig.folder);
    memset(truth, 0, sizeof *truth);
    rig.rng = seed * 2 + 1;
    rig.settled = false;
    rig.budget = 0;
    rig.bad_loads = rig.good_loads = rig.failed_puts = rig.said = 0;
}

void rig_world_end(void) {
    fake_disk_clear(rig.folder);
    rmdir(rig.folder);
    truth = NULL;
}

/* A last look: all that is held reads back right. */
void rig_read_back(void) {
    struct fake_disk_faults none = {.seed = 1};
    fake_disk_set(&none);
    EXPECT(rig_begin());
    uint64_t bad = rig.bad_loads;
    for (uint32_t key = 0; key < RIG_KEYS; key++) {
        if (truth->key[key].state != KEY_HELD)
            continue;
        rig.slot_key[0] = key;
        rig.slot_busy[0] = true;
        ses_store_get(rig.store, truth->key[key].number, 0);
        rig_finish();
    }
    EXPECT_EQ(rig.bad_loads, bad);
    rig_end();
}

void rig_some_records(void) {
    struct fake_disk_faults none = {.seed = 3};
    rig_world_begin(3);
    fake_disk_set(&none);
    EXPECT(rig_begin());
    for (uint32_t i = 0; i < 40; i++)
        rig_act();
    rig_finish();
    rig_end();
}

void rig_put(uint32_t key) {
    uint32_t number = 0;
    while (rig.number_busy[number])
        number++;
    truth->key[key].state = KEY_PUTTING;
    truth->key[key].version++;
    truth->key[key].number = number;
    rig_record_of(key, 0);
    rig_fill(rig.host, key, truth->key[key].version);
    rig.slot_key[0] = key;
    rig.slot_busy[0] = rig.number_busy[number] = true;
    rig.number_key[number] = key;
    ses_store_put(rig.store, &rig.record[0], number, 0);
    rig_finish();
}

void rig_erase(uint32_t key) {
    truth->key[key].state = KEY_ERASING;
    ses_store_erase(rig.store, truth->key[key].number);
    rig_finish();
}

void rig_some_more(void) {
    EXPECT(rig_begin());
    for (uint32_t key = 0; key < RIG_KEYS; key++)
        if (truth->key[key].state == KEY_ABSENT)
            rig_put(key);
    for (uint32_t key = 0; key < RIG_KEYS; key += 3)
        rig_erase(key);
    rig_end();
}

void rig_read_all(void) {
    struct fake_disk_faults none = {.seed = 3};
    fake_disk_set(&none);
    EXPECT(rig_begin());
    rig.good_loads = rig.bad_loads = 0;
    for (uint32_t key = 0; key < RIG_KEYS; key++) {
        if (truth->key[key].state != KEY_HELD)
            continue;
        rig.slot_key[0] = key;
        rig.slot_busy[0] = true;
        ses_store_get(rig.store, truth->key[key].number, 0);
        rig_finish();
    }
    ses_store_count(rig.store, &truth->counts);
    rig_end();
}

int rig_segment(uint32_t n, uint64_t *bytes) {
    char path[128];
    struct stat s;
    snprintf(path, sizeof path, "%s/segment-%05u", rig.folder, n);
    int fd = open(path, O_RDWR);
    EXPECT(fd >= 0 && fstat(fd, &s) == 0);
    *bytes = (uint64_t)s.st_size;
    return fd;
}
