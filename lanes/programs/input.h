/* SPDX-License-Identifier: Apache-2.0
 * Small helpers of the programs: whole files, stop strings, JSON text of any bytes.
 */
#ifndef LANES_PROGRAMS_INPUT_H
#define LANES_PROGRAMS_INPUT_H

#include <jansson.h>

#include "lanes/programs/options.h"

/* Reads a whole file, "-" for standard input, at most 64 MiB; *text is malloc'd and has a zero byte
 * behind it. */
enum status input_read(const char *path, char **text, size_t *bytes, struct status_note *note);
/* The --stop options as stop strings (malloc'd; NULL when there are none). */
enum status input_stops(const struct options *o, struct lane_stop **out, struct status_note *note);
/* A JSON string of the bytes; what is not valid UTF-8 becomes U+FFFD. New reference. */
json_t *input_json_text(const char *bytes, size_t n);

#endif
