/* SPDX-License-Identifier: Apache-2.0
 * A fake NCCL for ranks of one process whose device memory is the host's: moves what NCCL moves, at
 * once, and fails as told. Communicators whose calls return at once are "in progress" until all
 * ranks have come.
 */
#ifndef TESTS_FABRIC_NCCL_FAKE_H
#define TESTS_FABRIC_NCCL_FAKE_H

#include "fabric/nccl.h"

/* Anew: nothing fails, no communicators. The table of a whole library. */
const struct fab_nccl *nccl_fake(void);
/* For fab_nccl_fill: the functions of a library of this version, but for one symbol (NULL: all). */
void *nccl_fake_find(void *lacks, const char *symbol);
void nccl_fake_version(int version);

/* From now on, of every rank: */
void nccl_fake_flip(bool on);                  /* a bit of what arrives from another rank */
void nccl_fake_fail(fab_nccl_result_t gather); /* gathers give this */
void nccl_fake_state(fab_nccl_result_t state); /* looking at a communicator gives this */
uint32_t nccl_fake_live(void);                 /* communicators that were not ended */

#endif
