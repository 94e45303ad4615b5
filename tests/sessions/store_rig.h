/* SPDX-License-Identifier: Apache-2.0
 * A store of some keys that are put, read and erased at random, and the truth about them: what was
 * said to be stored, with which bytes. Whatever is read back is compared with it.
 */
#ifndef TESTS_SESSIONS_STORE_RIG_H
#define TESTS_SESSIONS_STORE_RIG_H

#include "sessions/store.h"
#include "tests/sessions/expect.h"
#include "tests/sessions/fake_disk.h"

enum {
    RIG_KEYS = 64,
    RIG_SLOTS = 8,
    RIG_TOKENS = 8,
    RIG_PAGE = 5000,
    RIG_HOST = 8192,
    RIG_NUMBERS = 96
};

enum key_state { KEY_ABSENT, KEY_PUTTING, KEY_HELD, KEY_ERASING, KEY_UNSURE };

/* Shared with a child that is killed. */
struct truth {
    struct {
        enum key_state state;
        uint32_t version, number;
        uint64_t use; /* it was marked with last */
    } key[RIG_KEYS];
    uint64_t points, puts, gets, erases;
    struct ses_store_counts counts;
};

extern struct truth *truth;
extern struct rig {
    char folder[64];
    unsigned char *host;
    struct ses_store *store;
    uint32_t slot_key[RIG_SLOTS], number_key[RIG_NUMBERS];
    bool slot_busy[RIG_SLOTS], number_busy[RIG_NUMBERS];
    uint32_t tokens[RIG_SLOTS][RIG_TOKENS];
    struct ses_record record[RIG_SLOTS];
    uint64_t rng;
    bool settled;     /* failures say that nothing happened, not that nobody knows */
    uint64_t budget;  /* 0: one with room for all keys */
    bool any_version; /* whatever was once stored under a key is right */
    struct status_note note;
    uint64_t bad_loads, good_loads, failed_puts, said;
} rig;

extern const struct ses_store_answers rig_answers;

/* An empty directory and nothing stored. */
void rig_world_begin(uint64_t seed);
void rig_world_end(void);
struct ses_key rig_key(uint32_t model);
struct ses_store_config rig_config(uint32_t model);
/* Opens it and binds everything that it knows; false: the power went, or with try it was refused as
 * rig.note says. An index that was made anew may know what was erased. */
bool rig_begin(void);
bool rig_try_begin(void);
void rig_end(void);
/* One thing that may be asked now; some of them, with work in between; everything that is asked. */
void rig_act(void);
void rig_work(uint32_t steps);
bool rig_cycle(void);
void rig_finish(void);
/* A last look: all that is held reads back right. */
void rig_read_back(void);
/* A store with some records, closed. Opens it, reads all that is held, closes it and leaves its
 * counts in truth. */
void rig_some_records(void);
/* Nearly all keys, some of them erased again: an index of several pages, some of them free. */
void rig_some_more(void);
/* One key, which must be absent or held, and the work until it is. */
void rig_put(uint32_t key);
void rig_erase(uint32_t key);
void rig_read_all(void);
int rig_segment(uint32_t n, uint64_t *bytes);

#endif
