/* SPDX-License-Identifier: Apache-2.0
 * A chat template's text reduced to what it means, so that two spellings of one template compare
 * equal: white space between tags, quotes, message['role'] or message.role, and how outputs are
 * joined do not count; everything else does.
 */
#ifndef LANES_TEXT_JINJA_H
#define LANES_TEXT_JINJA_H

#include <stdbool.h>
#include <stddef.h>

/* Writes the reduced form, malloc'd, ended by a NUL. False when the text is not understood or
 * memory is out. */
bool lane_jinja_reduce(const char *text, size_t n, char **out, size_t *n_out);

/* In a reduced template of ours: the place of any one text, such as a default system prompt. */
#define JINJA_ANY "\x02"
/* Whether reduced equals pattern, where JINJA_ANY (at most one) stands for text inside one literal.
 */
bool lane_jinja_matches(const char *pattern, size_t n_pattern, const char *reduced,
                        size_t n_reduced, const char **any, size_t *n_any);

#endif
