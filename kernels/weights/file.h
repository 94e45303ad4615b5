/* SPDX-License-Identifier: Apache-2.0
 * A regular file mapped read-only. Nothing but a regular, non-empty file opens; a FIFO never blocks
 * the opener. A file that another process cuts while it is mapped is outside what can be guarded:
 * the machine raises SIGBUS.
 */
#ifndef KERNELS_WEIGHTS_FILE_H
#define KERNELS_WEIGHTS_FILE_H

#include <stdint.h>

#include "actors/status.h"

struct krn_file {
    const unsigned char *bytes;
    uint64_t size;
};

/* NOT_FOUND when there is no such file, TOO_LARGE above max bytes; the note names the path. */
enum status krn_file_open(const char *path, uint64_t max, struct krn_file *out,
                          struct status_note *note);
void krn_file_close(struct krn_file *file);

#endif
