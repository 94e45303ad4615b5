/* SPDX-License-Identifier: Apache-2.0
 * The picture of `bench --tiers`: seconds to the first token against prompt tokens, both
 * logarithmic, one line for each place that a session can come from. Colours follow the reader's
 * light or dark setting; every line is also named where it ends.
 */
#include <math.h>
#include <stdlib.h>

#include "lanes/programs/bench.h"

enum { WIDTH = 760, HEIGHT = 460, LEFT = 78, RIGHT = 120, TOP = 64, BOTTOM = 62 };

static const struct line {
    const char *name, *title, *mark;
} lines[] = {{"cold", "computed", "c"},
             {"disk", "from disk", "d"},
             {"ram", "from RAM", "r"},
             {"device", "on the device", "v"}};

struct axes {
    double x0, x1, y0, y1; /* logarithms to base 2 and 10 */
};

static double at_x(const struct axes *a, double tokens) {
    return LEFT + (log2(tokens) - a->x0) / (a->x1 - a->x0) * (WIDTH - LEFT - RIGHT);
}

static double at_y(const struct axes *a, double seconds) {
    return HEIGHT - BOTTOM - (log10(seconds) - a->y0) / (a->y1 - a->y0) * (HEIGHT - TOP - BOTTOM);
}

static double value_of(const json_t *row, const char *name) {
    return json_number_value(json_object_get(row, name));
}

static struct axes axes_of(const json_t *rows) {
    double x0 = 1e30, x1 = 1, y0 = 1e30, y1 = 1e-9;
    size_t i;
    json_t *row;
    json_array_foreach(rows, i, row) {
        double x = value_of(row, "tokens");
        x0 = fmin(x0, x);
        x1 = fmax(x1, x);
        for (size_t k = 0; k < sizeof lines / sizeof *lines; k++) {
            double y = value_of(row, lines[k].name);
            if (y > 0) {
                y0 = fmin(y0, y);
                y1 = fmax(y1, y);
            }
        }
    }
    struct axes a = {log2(x0), log2(x1), floor(log10(y0)), ceil(log10(y1))};
    a.x1 = a.x1 > a.x0 ? a.x1 : a.x0 + 1;
    a.y1 = a.y1 > a.y0 ? a.y1 : a.y0 + 1;
    return a;
}

static void put_text(FILE *f, const char *text) {
    for (const char *c = text != NULL ? text : ""; *c != '\0'; c++)
        if (*c == '<' || *c == '>' || *c == '&')
            fprintf(f, "&#%d;", *c);
        else
            fputc(*c, f);
}

static void put_head(FILE *f, const json_t *j) {
    fprintf(f,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" role=\"img\" "
            "font-family=\"system-ui, sans-serif\" font-size=\"13\">\n"
            "<title>Time to the first token, by where the session comes from</title>\n"
            "<style>\n"
            ":root { --paper: #ffffff; --ink: #1f2328; --soft: #59636e; --grid: #d1d9e0;\n"
            "  --c: #b3261e; --d: #9a6700; --r: #0969da; --v: #1a7f37 }\n"
            "@media (prefers-color-scheme: dark) {\n"
            "  :root { --paper: #0d1117; --ink: #f0f6fc; --soft: #9198a1; --grid: #3d444d;\n"
            "    --c: #ff7b72; --d: #d29922; --r: #58a6ff; --v: #3fb950 } }\n"
            "text { fill: var(--ink) } .soft { fill: var(--soft) }\n"
            ".grid { stroke: var(--grid); stroke-width: 1 }\n"
            ".line { fill: none; stroke-width: 2.5; stroke-linejoin: round }\n",
            WIDTH, HEIGHT);
    for (size_t k = 0; k < sizeof lines / sizeof *lines; k++)
        fprintf(f, ".%s { stroke: var(--%s) } .%sf { fill: var(--%s) }\n", lines[k].mark,
                lines[k].mark, lines[k].mark, lines[k].mark);
    fprintf(
        f,
        "</style>\n<rect width=\"%d\" height=\"%d\" fill=\"var(--paper)\"/>\n"
        "<text x=\"%d\" y=\"26\" font-size=\"17\" font-weight=\"600\">Time to the first token, by "
        "where the session comes from</text>\n<text class=\"soft\" x=\"%d\" y=\"46\">",
        WIDTH, HEIGHT, LEFT, LEFT);
    put_text(f, json_string_value(json_object_get(j, "title")));
    fprintf(f, "</text>\n");
}

static void put_axes(FILE *f, const struct axes *a, const json_t *rows) {
    static const char *const units[] = {"ns", "\302\265s", "ms", "s"};
    for (int e = (int)a->y0; e <= (int)a->y1; e++) {
        double y = at_y(a, pow(10, e));
        int unit = e < 0 ? (e - 2) / 3 : 0; /* towards seconds: -1 is ms */
        if (unit < -3)
            unit = -3;
        fprintf(f,
                "<path class=\"grid\" d=\"M%d %.1fH%d\"/><text x=\"%d\" y=\"%.1f\" "
                "text-anchor=\"end\">%g %s</text>\n",
                LEFT, y, WIDTH - RIGHT, LEFT - 8, y + 4, pow(10, e - 3 * unit), units[3 + unit]);
    }
    size_t i;
    json_t *row;
    json_array_foreach(rows, i, row) {
        double tokens = value_of(row, "tokens"), x = at_x(a, tokens);
        fprintf(f,
                "<path class=\"grid\" d=\"M%.1f %dV%d\"/><text x=\"%.1f\" y=\"%d\" "
                "text-anchor=\"middle\">%.0f</text>\n",
                x, TOP, HEIGHT - BOTTOM, x, HEIGHT - BOTTOM + 20, tokens);
    }
    fprintf(f,
            "<text class=\"soft\" x=\"%d\" y=\"%d\" text-anchor=\"middle\">prompt, tokens</text>\n"
            "<text class=\"soft\" transform=\"translate(20 %d) rotate(-90)\" "
            "text-anchor=\"middle\">time to the first token</text>\n",
            (LEFT + WIDTH - RIGHT) / 2, HEIGHT - 16, (TOP + HEIGHT - BOTTOM) / 2);
}

/* Names at the lines' ends, moved apart where lines end close together. */
static void put_lines(FILE *f, const struct axes *a, const json_t *rows) {
    double used[sizeof lines / sizeof *lines], place;
    for (size_t k = 0; k < sizeof lines / sizeof *lines; k++) {
        double x = 0, y = 0;
        size_t i, n = 0;
        json_t *row;
        fprintf(f, "<path class=\"line %s\" d=\"", lines[k].mark);
        json_array_foreach(rows, i, row) {
            double seconds = value_of(row, lines[k].name);
            if (seconds <= 0)
                continue;
            x = at_x(a, value_of(row, "tokens"));
            y = at_y(a, seconds);
            fprintf(f, "%c%.1f %.1f", n++ == 0 ? 'M' : 'L', x, y);
        }
        fprintf(f, "\"/>\n");
        used[k] = -1000;
        if (n == 0)
            continue;
        json_array_foreach(rows, i, row) {
            double seconds = value_of(row, lines[k].name);
            if (seconds > 0)
                fprintf(f, "<circle class=\"%sf\" cx=\"%.1f\" cy=\"%.1f\" r=\"3.5\"/>\n",
                        lines[k].mark, at_x(a, value_of(row, "tokens")), at_y(a, seconds));
        }
        place = y;
        for (size_t o = 0; o < k; o++)
            if (fabs(place - used[o]) < 16)
                place = used[o] + 16;
        used[k] = place;
        fprintf(
            f,
            "<text x=\"%.1f\" y=\"%.1f\" font-weight=\"600\" style=\"fill: var(--%s)\">%s</text>\n",
            x + 10, place + 4, lines[k].mark, lines[k].title);
    }
}

void bench_svg(FILE *f, const json_t *j) {
    const json_t *rows = json_object_get(j, "first_token_s");
    struct axes a = axes_of(rows);
    put_head(f, j);
    put_axes(f, &a, rows);
    put_lines(f, &a, rows);
    fprintf(f, "</svg>\n");
}
