/* SPDX-License-Identifier: Apache-2.0
 * A file that a program writes: under its name stands what stood there before until the new one is
 * whole and on the disk. A link is followed, its target is written. What is no regular file (a
 * device, a pipe) is written straight into, and stays what it is; so is a file in a folder that
 * takes no new one, which alone can be left torn. Nothing that was there before is ever removed. A
 * program that is killed leaves at most the unfinished roundhouse-XXXXXXXXXXXXXXXX.part beside,
 * which is never looked at again and may be deleted.
 */
#ifndef LANES_PROGRAMS_OUTPUT_H
#define LANES_PROGRAMS_OUTPUT_H

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

#include "actors/status.h"

enum { OUTPUT_PATH_BYTES = 4096 };

struct output {
    FILE *f;           /* to write to; NULL after close */
    const char *asked; /* the path as it was given, the caller's */
    char path[OUTPUT_PATH_BYTES], part[OUTPUT_PATH_BYTES]; /* part "": written straight into path */
};

/* IO when it cannot be written. Every opened one is closed. */
enum status output_open(struct output *o, const char *path, struct status_note *note);
/* The file gets its name if whole, else all that was made for it goes. IO when any of the writing
 * failed. */
enum status output_close(struct output *o, bool whole, struct status_note *note);
/* IO when the file can not be written, said before long work and not after it; "-" and NULL always
 * can. Leaves everything as it was. */
enum status output_writable(const char *path, struct status_note *note);
/* One JSON value and a line's end (flags: jansson's); "-": to standard output. */
enum status output_json(const char *path, const json_t *j, size_t flags, struct status_note *note);

#endif
