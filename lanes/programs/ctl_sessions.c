/* SPDX-License-Identifier: Apache-2.0
 * roundhouse ctl sessions: what a server remembers, for people: list, show, forget, pin.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "lanes/door/wire.h"
#include "lanes/programs/ctl.h"

/* {"cmd": cmd} with the tenant, and the session when there is one. */
static json_t *message(const struct ctl *c, const char *cmd, const char *session) {
    json_t *m = json_pack("{s:s}", "cmd", cmd);
    if (options_has(&c->o, OPT_tenant))
        json_object_set_new(m, "tenant", json_string(options_text(&c->o, OPT_tenant, "")));
    if (session != NULL)
        json_object_set_new(m, "session", json_string(session));
    return m;
}

static enum program_exit said(const struct ctl *c, json_t *reply, enum program_exit code) {
    if (reply != NULL && c->json)
        ctl_print_json(reply);
    else if (reply != NULL && code != EXIT_DONE)
        ctl_print_error(json_object_get(reply, "error"));
    return code;
}

static int64_t number(const json_t *v, const char *key) {
    return json_integer_value(json_object_get(v, key));
}

/* ---- list ---- */

static int by_use(const void *a, const void *b) {
    int64_t x = number(*(json_t *const *)a, "used"), y = number(*(json_t *const *)b, "used");
    return x < y ? 1 : x > y ? -1 : 0;
}

static void size_text(int64_t bytes, char *text, size_t n) {
    static const char units[] = "KMGT";
    double v = (double)bytes / 1024;
    int u = 0;
    while (v >= 1000 && units[u + 1] != '\0') {
        v /= 1024;
        u++;
    }
    snprintf(text, n, "%.1f%c", v, units[u]);
}

/* Every page of a list, in one array (json_decref); NULL: it failed and was said. */
static json_t *list_all(struct ctl *c, enum program_exit *code) {
    json_t *all = json_array();
    int64_t from = 0;
    do {
        json_t *m = message(c, "stored", NULL);
        json_object_set_new(m, "from", json_integer(from));
        json_t *reply = ctl_call(c, m, 0, code);
        if (*code != EXIT_DONE) {
            said(c, reply, *code);
            json_decref(reply);
            json_decref(all);
            return NULL;
        }
        json_array_extend(all, json_object_get(reply, "stored"));
        from = number(reply, "next");
        json_decref(reply);
    } while (from > 0);
    return all;
}

static void print_row(const json_t *s) {
    char size[32];
    size_text(number(s, "bytes"), size, sizeof size);
    printf("%-32s %9" PRId64 " %7" PRId64 " %8s %7" PRId64 " %7" PRId64 " %7" PRId64 "  %s%s\n",
           json_string_value(json_object_get(s, "session")), number(s, "tokens"),
           number(s, "pages"), size, number(s, "device"), number(s, "ram"), number(s, "disk"),
           json_is_true(json_object_get(s, "pinned")) ? "pinned " : "",
           json_is_true(json_object_get(s, "in_use")) ? "in use" : "");
}

/* The latest used first. */
static enum program_exit list(struct ctl *c) {
    enum program_exit code;
    json_t *all = list_all(c, &code);
    if (all == NULL)
        return code;
    size_t n = json_array_size(all);
    json_t **row = calloc(n + 1, sizeof *row);
    for (size_t i = 0; row != NULL && i < n; i++)
        row[i] = json_array_get(all, i);
    if (row != NULL && n > 0)
        qsort(row, n, sizeof *row, by_use);
    if (!c->json)
        printf("%-32s %9s %7s %8s %7s %7s %7s\n", "session, latest used first", "tokens", "pages",
               "size", "device", "RAM", "disk");
    for (size_t i = 0; row != NULL && i < n; i++)
        if (c->json)
            ctl_print_json(row[i]);
        else
            print_row(row[i]);
    free(row);
    json_decref(all);
    return row != NULL ? EXIT_DONE : EXIT_NO_RESOURCES;
}

/* ---- one session ---- */

/* Its tokens on one line, as --tokens of run takes them. */
static enum program_exit show(struct ctl *c, const char *session) {
    json_t *all = json_array();
    enum program_exit code;
    int64_t from = 0;
    do {
        json_t *m = message(c, "tokens", session);
        json_object_set_new(m, "from", json_integer(from));
        json_t *reply = ctl_call(c, m, 0, &code);
        if (code != EXIT_DONE)
            said(c, reply, code);
        else
            json_array_extend(all, json_object_get(reply, "tokens"));
        from = code == EXIT_DONE ? number(reply, "next") : 0;
        json_decref(reply);
    } while (from > 0);
    if (code == EXIT_DONE)
        ctl_print_json(all);
    json_decref(all);
    return code;
}

static enum program_exit change(struct ctl *c, const char *word, const char *session) {
    bool pins = strcmp(word, "pin") == 0;
    enum program_exit code;
    json_t *m = message(c, strcmp(word, "forget") == 0 ? "forget" : "pin", session);
    if (strcmp(word, "unpin") == 0)
        json_object_set_new(m, "on", json_false());
    json_t *reply = ctl_call_patiently(c, m, &code);
    json_decref(m);
    said(c, reply, code);
    if (code == EXIT_DONE && !c->json)
        printf("%s %s: %" PRId64 " pages\n",
               pins                         ? "pinned"
               : strcmp(word, "unpin") == 0 ? "unpinned"
                                            : "forgot",
               session, number(reply, "pages"));
    json_decref(reply);
    return code;
}

/* ---- words ---- */

void ctl_sessions_help(FILE *to) {
    fprintf(to,
            "usage: roundhouse ctl sessions [COMMAND] [--tenant NAME] [--json]\n"
            "what a server remembers: each session is named by 32 hex digits that last over\n"
            "restarts; one that goes on has another name. A tenant sees its own only.\n\n"
            "  list              tokens, pages, size, how many pages are on the device, in\n"
            "                    RAM and on disk; the latest used first (also without COMMAND)\n"
            "  show NAME         its token ids, as run --tokens takes them\n"
            "  forget NAME...    drop what no other session shares\n"
            "  pin NAME...       keep it in RAM or on disk, whatever else wants the room\n"
            "  unpin NAME...     let it go when its time comes\n");
}

enum program_exit ctl_sessions(struct ctl *c, const char *const *args, uint32_t n) {
    static const char *const changes[] = {"forget", "pin", "unpin"};
    if (n == 0 || (n == 1 && strcmp(args[0], "list") == 0))
        return list(c);
    if (n == 2 && strcmp(args[0], "show") == 0)
        return show(c, args[1]);
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
        enum program_exit code = EXIT_DONE;
        if (n < 2 || strcmp(args[0], changes[i]) != 0)
            continue;
        for (uint32_t k = 1; k < n; k++) {
            enum program_exit one = change(c, args[0], args[k]);
            code = one != EXIT_DONE ? one : code;
        }
        return code;
    }
    ctl_sessions_help(stderr);
    return EXIT_USAGE;
}
