/* SPDX-License-Identifier: Apache-2.0
 * Drawing panes with ANSI sequences.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "lanes/programs/show.h"

#define SHOW_ENTER "\033[?1049h\033[2J\033[?25l"

enum { SHOW_LINES_MAX = 256, SHOW_GAP = 3 };

void show_screen_open(struct show_screen *s, uint32_t n) {
    struct winsize w = {0};
    const char *term = getenv("TERM");
    *s = (struct show_screen){.columns = 100, .rows = 30};
    s->terminal = isatty(STDOUT_FILENO) != 0 && term != NULL && strcmp(term, "dumb") != 0;
    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &w) == 0 && w.ws_col >= 40 && w.ws_row >= 12) {
        s->columns = w.ws_col;
        s->rows = w.ws_row;
    }
    s->across = s->columns >= 96 ? 3 : s->columns >= 64 ? 2 : 1;
    if (s->across > n)
        s->across = n;
    s->down = (n + s->across - 1) / s->across;
    if (s->terminal)
        fputs(SHOW_ENTER, stdout);
}

/* Display columns of the character at text: bytes in *n. Every character counts as one column. */
static uint32_t show_char(const char *text, size_t left, size_t *n) {
    unsigned char c = (unsigned char)text[0];
    size_t k = c < 0x80 ? 1 : c >= 0xf0 ? 4 : c >= 0xe0 ? 3 : c >= 0xc0 ? 2 : 1;
    *n = k <= left ? k : left;
    return 1;
}

static void show_push(size_t *start, size_t *length, uint32_t *n, uint32_t max, size_t s,
                      size_t l) {
    if (*n == max) {
        memmove(start, start + 1, (max - 1) * sizeof *start);
        memmove(length, length + 1, (max - 1) * sizeof *length);
        (*n)--;
    }
    start[*n] = s;
    length[*n] = l;
    (*n)++;
}

uint32_t show_wrap(const char *text, size_t bytes, uint32_t width, size_t *start, size_t *length,
                   uint32_t max) {
    uint32_t n = 0;
    size_t line = 0, space = 0;
    uint32_t columns = 0;
    for (size_t i = 0; i < bytes;) {
        size_t k;
        if (text[i] == '\n') {
            show_push(start, length, &n, max, line, i - line);
            line = ++i;
            columns = 0;
            space = 0;
            continue;
        }
        if (text[i] == ' ')
            space = i;
        show_char(text + i, bytes - i, &k);
        if (columns == width) {
            size_t cut = space > line ? space : i;
            show_push(start, length, &n, max, line, cut - line);
            line = cut + (text[cut] == ' ');
            i = line;
            columns = 0;
            space = 0;
            continue;
        }
        columns++;
        i += k;
    }
    show_push(start, length, &n, max, line, bytes - line);
    return n;
}

static void show_at(uint32_t row, uint32_t column) {
    printf("\033[%u;%uH", row + 1, column + 1);
}

/* Writes at most width characters and pads with spaces; control bytes become spaces. */
static void show_fixed(const char *text, size_t bytes, uint32_t width) {
    uint32_t columns = 0;
    for (size_t i = 0; i < bytes && columns < width;) {
        size_t k;
        show_char(text + i, bytes - i, &k);
        if ((unsigned char)text[i] < 0x20 || text[i] == 0x7f)
            putchar(' ');
        else
            fwrite(text + i, 1, k, stdout);
        i += k;
        columns++;
    }
    while (columns++ < width)
        putchar(' ');
}

static void show_pane_draw(const struct show_screen *s, const struct show_pane *p, uint32_t index) {
    uint32_t width = (s->columns - SHOW_GAP * (s->across - 1)) / s->across;
    uint32_t height = (s->rows - 2) / s->down;
    uint32_t column = index % s->across * (width + SHOW_GAP);
    uint32_t row = index / s->across * height;
    uint32_t lines = height > 3 ? height - 3 : 1;
    if (lines > SHOW_LINES_MAX)
        lines = SHOW_LINES_MAX;
    size_t start[SHOW_LINES_MAX], length[SHOW_LINES_MAX];
    uint32_t n = show_wrap(p->text, p->shown, width, start, length, lines);
    show_at(row, column);
    fputs("\033[1m", stdout);
    show_fixed(p->title, strlen(p->title), width);
    fputs("\033[0m", stdout);
    for (uint32_t i = 0; i < lines; i++) {
        show_at(row + 1 + i, column);
        if (i < n)
            show_fixed(p->text + start[i], length[i], width);
        else
            show_fixed("", 0, width);
    }
    show_at(row + 1 + lines, column);
    fputs("\033[2m", stdout);
    show_fixed(p->status, strlen(p->status), width);
    fputs("\033[0m", stdout);
}

void show_screen_draw(const struct show_screen *s, const struct show_pane *panes, uint32_t n,
                      const char *footer) {
    if (!s->terminal)
        return;
    fputs("\033[?2026h", stdout); /* one picture, where the terminal knows synchronized output */
    for (uint32_t i = 0; i < n; i++)
        show_pane_draw(s, &panes[i], i);
    show_at(s->rows - 2, 0);
    show_fixed(footer, strlen(footer), s->columns - 1);
    fputs("\033[?2026l", stdout);
    fflush(stdout);
}

void show_screen_close(const struct show_screen *s) {
    if (!s->terminal)
        return;
    fputs(SHOW_LEAVE, stdout);
    fflush(stdout);
}
