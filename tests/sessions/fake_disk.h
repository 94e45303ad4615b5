/* SPDX-License-Identifier: Apache-2.0
 * A disk with a machine around it that can lose its power: what was written and not synced is kept,
 * dropped or torn by sectors, in any order; new names may vanish. It also fails by the way: EIO,
 * short transfers, a full file system. Real files and the real index lie below it.
 */
#ifndef TESTS_SESSIONS_FAKE_DISK_H
#define TESTS_SESSIONS_FAKE_DISK_H

#include "sessions/disk.h"

struct fake_disk_faults {
    uint64_t seed;
    uint64_t cut_at; /* the power goes at this point, counted from 1; 0: never */
    bool kill;       /* then the process dies by SIGKILL instead, and nothing unsynced is lost */
    uint64_t fail_at, fail_for; /* so many points from that one on fail */
    int fail_error;             /* with this errno; 0: none does */
    uint64_t call_at;           /* before this point, counted from 1; 0: never */
    void (*call)(void);
    uint32_t io_error; /* of 1000 transfers */
    uint32_t shorter;
    uint32_t no_space; /* of 1000 new files */
    uint64_t space;    /* bytes that the file system says are free; 0: the truth */
};

/* Points passed so far: each creation, removal, sync, write and both sides of each commit. */
uint64_t fake_disk_points(void);
bool fake_disk_dead(void);
void fake_disk_set(const struct fake_disk_faults *faults);
struct ses_disk *fake_disk_open(void);
/* Empties a directory. */
void fake_disk_clear(const char *folder);

#endif
