/* SPDX-License-Identifier: Apache-2.0
 * The picture of `roundhouse show`: panes of text side by side on a terminal, plain text
 * elsewhere. Pure drawing; show.c runs the sessions.
 */
#ifndef LANES_PROGRAMS_SHOW_H
#define LANES_PROGRAMS_SHOW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct show_pane {
    const char *title;   /* one line */
    const char *text;    /* whole story so far, UTF-8 */
    size_t bytes, shown; /* shown: bytes revealed so far */
    const char *status;  /* one line below */
};

/* Back from the terminal's second screen, where the drawing is, to the first as it was; for a
 * signal handler too. */
#define SHOW_LEAVE "\033[?25h\033[?1049l"

struct show_screen {
    bool terminal;
    uint32_t columns, rows; /* of the terminal */
    uint32_t across, down;  /* panes */
};

/* Looks at standard output; n panes. */
void show_screen_open(struct show_screen *s, uint32_t n);
/* Draws all panes at once from the top of the screen, footer below them. Does nothing when not on a
 * terminal. */
void show_screen_draw(const struct show_screen *s, const struct show_pane *panes, uint32_t n,
                      const char *footer);
/* Leaves the drawing; the terminal shows what it showed before. */
void show_screen_close(const struct show_screen *s);

/* Wraps text to lines of width columns: line i is text[start[i] .. start[i] + length[i]); returns
 * how many lines (at most max, the last ones are kept). */
uint32_t show_wrap(const char *text, size_t bytes, uint32_t width, size_t *start, size_t *length,
                   uint32_t max);

#endif
