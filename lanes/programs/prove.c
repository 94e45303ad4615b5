/* SPDX-License-Identifier: Apache-2.0
 * roundhouse prove: the command line, the table and the receipt.
 */
#include "lanes/programs/prove.h"

#include <openssl/evp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "config.h"
#include "lanes/programs/input.h"
#include "lanes/programs/options.h"
#include "lanes/programs/output.h"
#include "lanes/programs/scratch.h"

static void prove_progress(struct prove *p, const char *what, uint64_t rows) {
    static double last;
    (void)p;
    double now = prove_now();
    if (now - last < 0.1)
        return;
    last = now;
    fprintf(stderr, "\r\033[K%s: %llu rows", strcmp(what, "none") == 0 ? "alone" : what,
            (unsigned long long)rows);
}

static enum status prove_axes_parse(struct prove *p, const char *list, struct status_note *note) {
    if (list == NULL) {
        for (uint32_t a = PROVE_COMPANY; a < PROVE_AXES; a++)
            p->axes[a] = true;
        return STATUS_OK;
    }
    p->asked = true;
    if (list[strspn(list, ",")] == '\0')
        return status_say(note, STATUS_BAD_REQUEST, "--axes names no axis");
    while (*list != '\0') {
        size_t n = strcspn(list, ",");
        uint32_t a = 1;
        while (a < PROVE_AXES &&
               (strlen(prove_axis_names[a]) != n || memcmp(prove_axis_names[a], list, n) != 0))
            a++;
        if (a == PROVE_AXES)
            return status_say(
                note, STATUS_BAD_REQUEST,
                "--axes '%.*s' is no axis that this build can show; there are company, "
                "memory, drafts, pieces, threads, trouble, ranks, and on a GPU graphs",
                (int)n, list);
        p->axes[a] = true;
        list += n + (list[n] == ',');
    }
    return STATUS_OK;
}

static enum status prove_settle(struct prove *p, const struct options *o,
                                struct status_note *note) {
    float seconds = 20.0f;
    TRY(output_writable(options_text(o, OPT_json, NULL), note));
    TRY(options_engine(o, &p->config, note));
    TRY(options_u64(o, OPT_seed, 0, UINT64_MAX, false, &p->seed, note));
    TRY(options_float(o, OPT_seconds, 0.1f, 1e6f, &seconds, note));
    TRY(prove_axes_parse(p, options_text(o, OPT_axes, NULL), note));
    p->seconds = seconds;
    const char *perturb = options_text(o, OPT_perturb, NULL);
    if (perturb != NULL) {
        uint32_t a = 1;
        while (a <= PROVE_TROUBLE && strcmp(prove_axis_names[a], perturb) != 0)
            a++;
        if (a > PROVE_TROUBLE)
            return status_say(note, STATUS_BAD_REQUEST,
                              "--perturb '%s' is no axis that can be perturbed; there are company, "
                              "memory, drafts, pieces, threads, trouble",
                              perturb);
        p->config.perturb = a;
    }
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    p->threads = p->config.threads > 0 ? p->config.threads : cores > 0 ? (uint32_t)cores : 1;
    if (!options_has(o, OPT_quiet) && isatty(2))
        p->progress = prove_progress;
    return STATUS_OK;
}

static enum status prove_all(struct prove *p, struct status_note *note) {
    uint32_t n = 0;
    for (uint32_t a = 1; a < PROVE_AXES; a++)
        n += p->axes[a];
    TRY(prove_reference(p, p->seconds * 0.15, note));
    if (p->axes[PROVE_RANKS] && p->profile.virtual_ranks == 1) {
        if (p->asked)
            return status_say(note, STATUS_UNSUPPORTED,
                              "axis ranks cannot be shown: this model has one virtual rank");
        p->axes[PROVE_RANKS] = false;
        n--;
    }
    if (p->axes[PROVE_GRAPHS] && !p->has_graphs) {
        if (p->asked)
            return status_say(note, STATUS_UNSUPPORTED,
                              "axis graphs cannot be shown: the device %s has no graphs",
                              p->device);
        p->axes[PROVE_GRAPHS] = false;
        n--;
    }
    if (p->axes[PROVE_THREADS] && krn_profile_gpu(&p->profile)) {
        if (p->asked)
            return status_say(note, STATUS_UNSUPPORTED,
                              "axis threads cannot be shown: no CPU runs profile %s",
                              p->profile.name);
        p->axes[PROVE_THREADS] = false;
        n--;
    }
    if (p->config.perturb != PROVE_NONE && !p->axes[p->config.perturb])
        return status_say(note, STATUS_BAD_REQUEST,
                          "--perturb %s: that axis is not among those that are shown here",
                          prove_axis_names[p->config.perturb]);
    TRY(prove_run_oracle(p, p->seconds * 0.1, note));
    for (uint32_t a = 1; a < PROVE_AXES; a++)
        if (p->axes[a])
            TRY(prove_run_axis(p, (enum prove_axis)a, p->seconds * 0.75 / n, note));
    if (p->progress != NULL)
        fprintf(stderr, "\r\033[K");
    return STATUS_OK;
}

/* SHA-256 over all tokens of the reference: for each session its reply length and reply,
 * little-endian 32-bit words. */
static void prove_sha256(const struct prove *p, char hex[65]) {
    unsigned char digest[EVP_MAX_MD_SIZE];
    unsigned int bytes = 0;
    EVP_MD_CTX *ctx = EVP_MD_CTX_new();
    CHECK(ctx != NULL && EVP_DigestInit_ex(ctx, EVP_sha256(), NULL) == 1);
    for (uint32_t i = 0; i < p->n_sessions; i++)
        for (uint32_t k = 0; k <= p->sessions[i].n_out; k++) {
            uint32_t v = k == 0 ? p->sessions[i].n_out : p->sessions[i].out[k - 1];
            unsigned char le[4] = {(unsigned char)v, (unsigned char)(v >> 8),
                                   (unsigned char)(v >> 16), (unsigned char)(v >> 24)};
            EVP_DigestUpdate(ctx, le, sizeof le);
        }
    EVP_DigestFinal_ex(ctx, digest, &bytes);
    EVP_MD_CTX_free(ctx);
    for (unsigned i = 0; i < 32; i++)
        snprintf(hex + 2 * i, 3, "%02x", digest[i]);
}

static void prove_cpu_name(char *out, size_t n) {
    snprintf(out, n, "unknown");
    FILE *f = fopen("/proc/cpuinfo", "r");
    char line[256];
    while (f != NULL && fgets(line, sizeof line, f) != NULL)
        if (strncmp(line, "model name", 10) == 0 && strchr(line, ':') != NULL) {
            snprintf(out, n, "%s", strchr(line, ':') + 2);
            out[strcspn(out, "\n")] = '\0';
            break;
        }
    if (f != NULL)
        fclose(f);
}

static bool prove_pass(const struct prove *p) {
    bool pass = p->oracle.differ == 0 && p->oracle.rows > 0;
    for (uint32_t a = 1; a < PROVE_AXES; a++)
        if (p->axes[a])
            pass = pass && p->count[a].differ == 0 && p->count[a].rows > 0 &&
                   (a != PROVE_GRAPHS || p->count[a].replays > 0);
    return pass;
}

static const char *prove_verdict(const struct prove *p) {
    uint64_t differ = p->oracle.differ;
    for (uint32_t a = 1; a < PROVE_AXES; a++)
        differ += p->count[a].differ;
    if (prove_pass(p))
        return "pass: not a bit differs";
    if (differ > 0)
        return "FAIL: rows differ";
    if (p->axes[PROVE_GRAPHS] && p->count[PROVE_GRAPHS].replays == 0)
        return "FAIL: not a bit differs, but no graph was replayed, so axis graphs shows nothing";
    return "FAIL: not a bit differs, but an axis compared no row; give more --seconds";
}

static void prove_row(const char *name, const struct prove_count *c, const char *extra) {
    printf("  %-9s %8llu %10llu %10llu  %s\n", name, (unsigned long long)c->cases,
           (unsigned long long)c->rows, (unsigned long long)c->differ, extra);
    if (c->differ > 0)
        printf("            first: session %u, row %u\n", c->first_session, c->first_row);
}

/* What of the axis threads was done, and what its time was too short for. */
static void prove_parts_words(const struct prove *p, char *out, size_t n) {
    size_t at = 0;
    for (int done = 1; done >= 0; done--)
        for (uint32_t i = 0, seen = 0; i < p->n_parts && at < n; i++) {
            if (p->parts[i].done != (done != 0))
                continue;
            const char *before = seen++ > 0 ? ", " : done != 0 ? "" : "; not within the time: ";
            at += (size_t)snprintf(out + at, n - at, "%s%s", before, p->parts[i].name);
        }
}

static void prove_table(const struct prove *p) {
    char extra[160], cpu[128];
    prove_cpu_name(cpu, sizeof cpu);
    printf("prove: profile %s, model %016llx%016llx, %u reference sessions, seed %llu\n",
           p->profile.name, (unsigned long long)p->fingerprint[1],
           (unsigned long long)p->fingerprint[0], p->n_sessions, (unsigned long long)p->seed);
    printf("machine: %s; %s: %s\n\n", cpu, p->device, p->device_words);
    printf("  %-9s %8s %10s %10s\n", "axis", "cases", "rows", "different");
    prove_row("oracle", &p->oracle, "scalar, one token at a time");
    for (uint32_t a = 1; a < PROVE_AXES; a++) {
        const struct prove_count *c = &p->count[a];
        if (!p->axes[a])
            continue;
        extra[0] = '\0';
        if (a == PROVE_MEMORY)
            snprintf(extra, sizeof extra, "%llu tokens resumed, %llu from RAM, %llu from disk",
                     (unsigned long long)c->resumed, (unsigned long long)c->from_ram,
                     (unsigned long long)c->from_disk);
        if (a == PROVE_DRAFTS)
            snprintf(extra, sizeof extra, "%llu drafted, %llu accepted",
                     (unsigned long long)c->drafted, (unsigned long long)c->accepted);
        if (a == PROVE_TROUBLE)
            snprintf(extra, sizeof extra, "%llu rounds failed, %llu sessions cancelled",
                     (unsigned long long)c->failed_rounds, (unsigned long long)c->cancelled);
        if (a == PROVE_GRAPHS)
            snprintf(extra, sizeof extra, "%llu rounds replayed, %llu graphs refused",
                     (unsigned long long)c->replays, (unsigned long long)c->refused_graphs);
        if (a == PROVE_THREADS)
            prove_parts_words(p, extra, sizeof extra);
        prove_row(prove_axis_names[a], c, extra);
    }
    printf("\n%s\n", prove_verdict(p));
}

static json_t *prove_axis_json(const char *name, const struct prove_count *c) {
    return json_pack("{s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "axis", name, "cases",
                     (json_int_t)c->cases, "rows", (json_int_t)c->rows, "differ",
                     (json_int_t)c->differ, "replays", (json_int_t)c->replays, "resumed",
                     (json_int_t)c->resumed, "from_ram", (json_int_t)c->from_ram, "from_disk",
                     (json_int_t)c->from_disk);
}

static json_t *prove_parts_json(const struct prove *p, bool done) {
    json_t *list = json_array();
    for (uint32_t i = 0; i < p->n_parts; i++)
        if (p->parts[i].done == done)
            json_array_append_new(list, json_string(p->parts[i].name));
    return list;
}

static enum status prove_write_json(const struct prove *p, const char *path,
                                    struct status_note *note) {
    char hex[65], model[40], profile[20], cpu[128];
    struct utsname un;
    snprintf(profile, sizeof profile, "%016llx",
             (unsigned long long)krn_profile_digest(&p->profile));
    prove_sha256(p, hex);
    prove_cpu_name(cpu, sizeof cpu);
    snprintf(model, sizeof model, "%016llx%016llx", (unsigned long long)p->fingerprint[1],
             (unsigned long long)p->fingerprint[0]);
    json_t *axes = json_array();
    uint64_t cases = 0, rows = 0;
    for (uint32_t a = 1; a < PROVE_AXES; a++)
        if (p->axes[a]) {
            json_t *axis = prove_axis_json(prove_axis_names[a], &p->count[a]);
            if (a == PROVE_THREADS) {
                json_object_set_new(axis, "done", prove_parts_json(p, true));
                json_object_set_new(axis, "left_out", prove_parts_json(p, false));
            }
            json_array_append_new(axes, axis);
            cases += p->count[a].cases;
            rows += p->count[a].rows;
        }
    bool known = uname(&un) == 0;
    json_t *j =
        json_pack("{s:o, s:b, s:s, s:s, s:s, s:i, s:s, s:o, s:s, s:{s:s, s:s, s:s, s:s, s:i}, s:I, "
                  "s:I, s:i, s:I}",
                  "axes", axes, "pass", prove_pass(p), "sha256", hex, "model", model, "profile",
                  p->profile.name, "profile_version", (int)p->profile.version, "profile_digest",
                  profile, "oracle", prove_axis_json("oracle", &p->oracle), "version",
                  PACKAGE_VERSION, "machine", "cpu", cpu, "system", known ? un.sysname : "unknown",
                  "arch", known ? un.machine : "unknown", "isa", krn_rowfn_pick(p->config.isa)->isa,
                  "threads", (int)p->threads, "cases", (json_int_t)cases, "rows", (json_int_t)rows,
                  "sessions", (int)p->n_sessions, "seed", (json_int_t)p->seed, "device", p->device,
                  "device_words", p->device_words);
    CHECK(j != NULL);
    if (strcmp(p->device, "cpu") != 0 && !p->axes[PROVE_THREADS]) { /* nothing ran on a CPU team */
        json_object_del(json_object_get(j, "machine"), "isa");
        json_object_del(json_object_get(j, "machine"), "threads");
    }
    enum status s = output_json(path, j, JSON_INDENT(2) | JSON_PRESERVE_ORDER, note);
    json_decref(j);
    return s;
}

int program_prove(int argc, char **argv) {
    struct status_note note = {{0}};
    struct options *o = calloc(1, sizeof *o);
    struct prove *p = calloc(1, sizeof *p);
    enum status s = o != NULL && p != NULL ? STATUS_OK : STATUS_NO_MEMORY;
    struct scratch scratch = {.pipe = -1};
    bool ran = false;
    if (s == STATUS_OK)
        s = options_parse(P_PROVE, argc, argv, o, &note);
    if (s == STATUS_OK)
        s = prove_settle(p, o, &note);
    /* Its sessions are nobody's, so they are not kept among a user's. */
    if (s == STATUS_OK && p->config.disk_cache != NULL) {
        s = scratch_make(&scratch, p->config.disk_cache, "prove", &note);
        p->config.disk_cache = scratch.folder;
    }
    if (s == STATUS_OK) {
        s = prove_all(p, &note);
        ran = s == STATUS_OK;
    }
    scratch_remove(&scratch);
    const char *json = o != NULL ? options_text(o, OPT_json, NULL) : NULL;
    if (ran && (json == NULL || strcmp(json, "-") != 0))
        prove_table(p);
    if (ran && json != NULL)
        s = prove_write_json(p, json, &note);
    if (s != STATUS_OK)
        fprintf(stderr, "roundhouse prove: %s\n",
                note.text[0] != '\0' ? note.text : status_text(s));
    int code = s != STATUS_OK ? (int)program_exit_of(s) : ran && prove_pass(p) ? 0 : EXIT_DIFFERS;
    if (p != NULL)
        prove_free(p);
    free(p);
    free(o);
    return code;
}
