/* SPDX-License-Identifier: Apache-2.0
 * roundhouse ctl sessions: what a server remembers, for people: list, show, forget, pin, files.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "lanes/door/wire.h"
#include "lanes/programs/ctl.h"
#include "lanes/programs/output.h"

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
static json_t *list_all(struct ctl *c, bool others, enum program_exit *code) {
    json_t *all = json_array();
    int64_t from = 0;
    do {
        json_t *m = message(c, "stored", NULL);
        json_object_set_new(m, "from", json_integer(from));
        json_object_set_new(m, "others", json_boolean(others));
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

static void print_other(const json_t *s) {
    char size[32];
    size_text(number(s, "bytes"), size, sizeof size);
    printf("%-32s %9" PRId64 " %7" PRId64 " %8s  other %s: %s\n",
           json_string_value(json_object_get(s, "session")), number(s, "tokens"),
           number(s, "pages"), size, json_string_value(json_object_get(s, "why")),
           json_string_value(json_object_get(s, "made_by")));
}

/* The latest used first. */
static enum program_exit list(struct ctl *c, bool others) {
    enum program_exit code;
    json_t *all = list_all(c, others, &code);
    if (all == NULL)
        return code;
    size_t n = json_array_size(all);
    json_t **row = calloc(n + 1, sizeof *row);
    for (size_t i = 0; row != NULL && i < n; i++)
        row[i] = json_array_get(all, i);
    if (row != NULL && n > 0)
        qsort(row, n, sizeof *row, by_use);
    if (!c->json && others && n > 0)
        printf("\n%-32s %9s %7s %8s  why not\n", "stored, of no use here; see rebuild", "tokens",
               "pages", "size");
    if (!c->json && !others)
        printf("%-32s %9s %7s %8s %7s %7s %7s\n", "session, latest used first", "tokens", "pages",
               "size", "device", "RAM", "disk");
    for (size_t i = 0; row != NULL && i < n; i++)
        if (c->json)
            ctl_print_json(row[i]);
        else if (others)
            print_other(row[i]);
        else
            print_row(row[i]);
    free(row);
    json_decref(all);
    return row != NULL ? EXIT_DONE : EXIT_NO_RESOURCES;
}

/* ---- one session ---- */

/* All tokens of a session (json_decref); NULL: it failed and was said. */
static json_t *tokens_of(struct ctl *c, const char *session, bool others, enum program_exit *code) {
    json_t *all = json_array();
    int64_t from = 0;
    do {
        json_t *m = message(c, "tokens", session);
        json_object_set_new(m, "from", json_integer(from));
        json_object_set_new(m, "others", json_boolean(others));
        json_t *reply = ctl_call(c, m, 0, code);
        if (*code != EXIT_DONE)
            said(c, reply, *code);
        else
            json_array_extend(all, json_object_get(reply, "tokens"));
        from = *code == EXIT_DONE ? number(reply, "next") : 0;
        json_decref(reply);
    } while (from > 0);
    if (*code == EXIT_DONE)
        return all;
    json_decref(all);
    return NULL;
}

/* On one line, as --tokens of run takes them. */
static enum program_exit show(struct ctl *c, const char *session) {
    enum program_exit code;
    json_t *all = tokens_of(c, session, false, &code);
    if (all != NULL)
        ctl_print_json(all);
    json_decref(all);
    return code;
}

/* Reads until the request has ended; what its last event says. */
static enum program_exit wait_for(struct ctl *c, const char *name) {
    int64_t cursor = 0;
    for (;;) {
        enum program_exit code;
        json_t *reply = ctl_call(c,
                                 json_pack("{s:s, s:s, s:I, s:i}", "cmd", "read", "name", name,
                                           "cursor", (json_int_t)cursor, "wait_ms", 1000),
                                 1000, &code);
        const json_t *events = json_object_get(reply, "events");
        const json_t *last = json_array_get(events, json_array_size(events) - 1);
        const json_t *error = json_object_get(last, "error");
        const char *type = json_string_value(json_object_get(last, "type"));
        bool ended = type != NULL && strcmp(type, "ended") == 0;
        if (code != EXIT_DONE)
            said(c, reply, code);
        else if (error != NULL)
            ctl_print_error(error);
        cursor = number(reply, "cursor");
        code = code == EXIT_DONE && error != NULL ? EXIT_DIFFERS : code;
        json_decref(reply);
        if (ended || code != EXIT_DONE)
            return code;
    }
}

/* Computes a stored session's tokens anew, by an ordinary request that lets all others go first. */
static enum program_exit rebuild_one(struct ctl *c, const char *session) {
    enum program_exit code;
    char name[96];
    uint64_t random = 0;
    json_t *tokens = tokens_of(c, session, true, &code);
    if (tokens == NULL)
        return code;
    if (getrandom(&random, sizeof random, 0) != (ssize_t)sizeof random)
        random = (uint64_t)getpid();
    snprintf(name, sizeof name, "rebuild-%.32s-%016" PRIx64, session, random);
    size_t n = json_array_size(tokens);
    json_t *m = message(c, "submit", NULL);
    json_object_set_new(m, "name", json_string(name));
    json_object_set_new(m, "prompt_ids", tokens);
    json_object_set_new(m, "max_tokens", json_integer(1));
    json_object_set_new(m, "text", json_false());
    json_object_set_new(m, "priority", json_integer(0));
    json_t *reply = ctl_call(c, m, 0, &code);
    if (code != EXIT_DONE)
        said(c, reply, code);
    json_decref(reply);
    if (code == EXIT_DONE)
        code = wait_for(c, name);
    if (code == EXIT_DONE && !c->json)
        printf("rebuilt %s: %zu tokens\n", session, n);
    return code;
}

static enum program_exit rebuild(struct ctl *c, const char *const *args, uint32_t n) {
    enum program_exit code = EXIT_DONE, one;
    for (uint32_t k = 0; k < n; k++) {
        one = rebuild_one(c, args[k]);
        code = one != EXIT_DONE ? one : code;
    }
    if (n > 0)
        return code;
    json_t *all = list_all(c, true, &code), *s;
    size_t i;
    if (all == NULL)
        return code;
    json_array_foreach(all, i, s) {
        const char *session = json_string_value(json_object_get(s, "session"));
        one = session != NULL ? rebuild_one(c, session) : EXIT_UNAVAILABLE;
        code = one != EXIT_DONE ? one : code;
    }
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
    const char *error = json_string_value(json_object_get(json_object_get(reply, "error"), "code"));
    if (strcmp(word, "forget") == 0 && error != NULL && strcmp(error, "not_found") == 0) {
        json_decref(reply); /* perhaps it is one of those that are of no use here */
        json_object_set_new(m, "others", json_true());
        reply = ctl_call_patiently(c, m, &code);
    }
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

/* ---- files ---- */

/* The session's bytes from the server to the file, *offset of them. */
static enum program_exit export_bytes(struct ctl *c, const char *session, FILE *f,
                                      int64_t *offset) {
    static unsigned char bytes[DOOR_DATA_MAX + 3];
    struct status_note note;
    enum program_exit code = EXIT_DONE;
    int64_t size = 1;
    bool fine = true;
    while (code == EXIT_DONE && *offset < size && !ferror(f)) {
        json_t *m = message(c, "export", session);
        json_object_set_new(m, "offset", json_integer(*offset));
        json_t *reply = ctl_call_patiently(c, m, &code);
        const json_t *data = json_object_get(reply, "data");
        size_t n = 0;
        json_decref(m);
        if (code == EXIT_DONE)
            fine = json_is_string(data) && json_string_length(data) / 4 * 3 <= sizeof bytes &&
                   door_base64_from(json_string_value(data), json_string_length(data), bytes, &n) &&
                   n > 0;
        else
            said(c, reply, code);
        size = number(reply, "size");
        *offset += (int64_t)n;
        json_decref(reply);
        if (!fine) {
            status_say(&note, STATUS_IO, "the answer is not what a roundhouse server says");
            return ctl_fail(&note, EXIT_UNAVAILABLE);
        }
        fwrite(bytes, 1, n, f); /* what fails here is seen above and when the file is closed */
    }
    return code;
}

/* Everything or nothing: the file gets its name when it is whole and on the disk. */
static enum program_exit export_to(struct ctl *c, const char *session, const char *path) {
    struct status_note note;
    struct output file;
    int64_t offset = 0;
    if (output_open(&file, path, &note) != STATUS_OK)
        return ctl_fail(&note, EXIT_IO);
    enum program_exit code = export_bytes(c, session, file.f, &offset);
    bool straight = file.part[0] == '\0';
    if (output_close(&file, code == EXIT_DONE, &note) != STATUS_OK)
        return ctl_fail(&note, EXIT_IO);
    if (code == EXIT_DONE && !c->json) /* standard output may be what was written */
        fprintf(straight ? stderr : stdout, "exported %s: %" PRId64 " bytes in %s\n", session,
                offset, path);
    return code;
}

static json_t *base64(const unsigned char *bytes, size_t n) {
    static char text[(DOOR_DATA_MAX + 2) / 3 * 4 + 8];
    struct door_out o;
    door_out_begin(&o, text, sizeof text);
    door_out_base64(&o, NULL, bytes, n);
    return json_stringn(text + 1, o.n - 2); /* without its quotes */
}

static enum program_exit import_from(struct ctl *c, const char *path) {
    static unsigned char bytes[DOOR_DATA_MAX];
    struct status_note note;
    char name[64];
    uint64_t random = 0;
    FILE *f = fopen(path, "rb");
    if (f == NULL || getrandom(&random, sizeof random, 0) != (ssize_t)sizeof random) {
        status_say(&note, STATUS_IO, "%s cannot be read: %s", path, strerror(errno));
        if (f != NULL)
            fclose(f);
        return ctl_fail(&note, EXIT_NO_INPUT);
    }
    snprintf(name, sizeof name, "ctl-%016" PRIx64, random);
    enum program_exit code = EXIT_DONE;
    int64_t offset = 0;
    const char *made = NULL;
    json_t *reply = NULL;
    size_t n;
    errno = 0;
    while (code == EXIT_DONE && made == NULL && (n = fread(bytes, 1, sizeof bytes, f)) > 0) {
        json_t *m = message(c, "import", NULL);
        json_object_set_new(m, "name", json_string(name));
        json_object_set_new(m, "offset", json_integer(offset));
        json_object_set_new(m, "data", base64(bytes, n));
        json_decref(reply);
        reply = ctl_call_patiently(c, m, &code);
        json_decref(m);
        made = json_string_value(json_object_get(reply, "session"));
        offset += (int64_t)n;
    }
    int error = ferror(f) ? errno : 0; /* a directory can be opened, not read */
    fclose(f);
    if (reply != NULL)
        said(c, reply, code);
    if (code == EXIT_DONE && made == NULL && error != 0) {
        status_say(&note, STATUS_IO, "%s cannot be read: %s", path, strerror(error));
        code = ctl_fail(&note, EXIT_NO_INPUT);
    } else if (code == EXIT_DONE && made == NULL) {
        status_say(&note, STATUS_BAD_FILE, "%s ends before its session does", path);
        code = ctl_fail(&note, EXIT_BAD_DATA);
    } else if (code == EXIT_DONE && !c->json) {
        printf("imported %s: %" PRId64 " bytes of %s\n", made, offset, path);
    }
    json_decref(reply);
    return code;
}

/* ---- without a server ---- */

static void offline_row(void *self, const struct ses_other_row *row, uint64_t tenant) {
    const struct ctl *c = self;
    char session[DOOR_SESSION_DIGITS + 1], size[32], whose[20];
    if (options_has(&c->o, OPT_tenant) &&
        tenant != door_tenant(options_text(&c->o, OPT_tenant, "")))
        return;
    door_session_text(&row->name, session);
    size_text((int64_t)row->bytes, size, sizeof size);
    snprintf(whose, sizeof whose, "%016" PRIx64, tenant);
    if (c->json) {
        json_t *v = json_pack("{s:s, s:i, s:i, s:I, s:b, s:I, s:s, s:s}", "session", session,
                              "tokens", (int)row->tokens, "pages", (int)row->pages, "bytes",
                              (json_int_t)row->bytes, "pinned", (int)row->pinned, "used",
                              (json_int_t)row->use, "tenant", whose, "made_by", row->text);
        ctl_print_json(v);
        json_decref(v);
        return;
    }
    printf("%-32s %9u %7u %8s  %-16s %s%s\n", session, row->tokens, row->pages, size,
           tenant != 0 ? whose : "-", row->pinned ? "pinned " : "", row->text);
}

enum program_exit ctl_sessions_offline(const struct ctl *c) {
    struct status_note note;
    const struct options *o = &c->o;
    if (strcmp(o->args[0], "sessions") != 0 || o->n_args > 2 ||
        (o->n_args == 2 && strcmp(o->args[1], "list") != 0)) {
        ctl_sessions_help(stderr);
        return EXIT_USAGE;
    }
    if (!c->json)
        printf("%-32s %9s %7s %8s  %-16s %s\n", "session", "tokens", "pages", "size", "tenant",
               "made by");
    enum status s = ses_store_offline(options_text(o, OPT_disk_cache, ""), (void *)(uintptr_t)c,
                                      offline_row, &note);
    return s == STATUS_OK ? EXIT_DONE : ctl_fail(&note, program_exit_of(s));
}

/* ---- words ---- */

void ctl_sessions_help(FILE *to) {
    fprintf(
        to,
        "usage: roundhouse ctl sessions [COMMAND] [--tenant NAME] [--json]\n"
        "what a server remembers: each session is named by 32 hex digits that last over\n"
        "restarts; one that goes on has another name. A tenant sees its own only.\n\n"
        "  list              tokens, pages, size, how many pages are on the device, in\n"
        "                    RAM and on disk; the latest used first (also without COMMAND)\n"
        "  show NAME         its token ids, as run --tokens takes them\n"
        "  forget NAME...    drop what no other session shares\n"
        "  pin NAME...       keep it in RAM or on disk, whatever else wants the room\n"
        "  unpin NAME...     let it go when its time comes\n"
        "  export NAME FILE  write it to a file with its keys and values\n"
        "  import FILE       take it in again, here or on another server with the same model\n"
        "                    and settings; it then resumes as if it had been computed here\n"
        "  rebuild [NAME...] compute sessions anew that are stored under another model, profile,\n"
        "                    number of ranks or layout, by requests of the lowest priority;\n"
        "                    without a NAME all that the list shows as of no use here\n\n"
        "With --disk-cache DIR the list is read from that directory, without a server or\n"
        "beside one; tenants are shown by their numbers.\n");
}

enum program_exit ctl_sessions(struct ctl *c, const char *const *args, uint32_t n) {
    static const char *const changes[] = {"forget", "pin", "unpin"};
    if (n == 0 || (n == 1 && strcmp(args[0], "list") == 0)) {
        enum program_exit code = list(c, false);
        return code == EXIT_DONE ? list(c, true) : code;
    }
    if (n > 0 && strcmp(args[0], "rebuild") == 0)
        return rebuild(c, args + 1, n - 1);
    if (n == 2 && strcmp(args[0], "show") == 0)
        return show(c, args[1]);
    if (n == 3 && strcmp(args[0], "export") == 0)
        return export_to(c, args[1], args[2]);
    if (n == 2 && strcmp(args[0], "import") == 0)
        return import_from(c, args[1]);
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
