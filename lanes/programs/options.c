/* SPDX-License-Identifier: Apache-2.0
 * Parsing and help from the option table.
 */
#include "lanes/programs/options.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

static const struct {
    const char *name, *value;
    uint32_t programs;
    const char *help;
} option_table[OPT_COUNT] = {
#define OPTION(id, name, value, programs, help) {name, value, programs, help},
#include "lanes/programs/options.def"
#undef OPTION
};

/* The row of that name for the program; OPT_COUNT when no program has it, else *elsewhere when only
 * others do. */
static uint32_t option_find(uint32_t program, const char *name, size_t n, bool *elsewhere) {
    *elsewhere = false;
    for (uint32_t i = 0; i < OPT_COUNT; i++) {
        if (strlen(option_table[i].name) != n || memcmp(option_table[i].name, name, n) != 0)
            continue;
        if ((option_table[i].programs & program) != 0)
            return i;
        *elsewhere = true;
    }
    return OPT_COUNT;
}

static enum status option_add(struct options *o, uint32_t id, const char *value,
                              struct status_note *note) {
    if (o->n[id] == OPT_REPEAT_MAX)
        return status_say(note, STATUS_BAD_REQUEST, "--%s is given more than %d times",
                          option_table[id].name, OPT_REPEAT_MAX);
    o->value[id][o->n[id]++] = value;
    return STATUS_OK;
}

enum status options_parse(uint32_t program, int argc, char **argv, struct options *out,
                          struct status_note *note) {
    *out = (struct options){.program = program, .name = argv[0]};
    bool rest = false;
    for (int i = 1; i < argc; i++) {
        const char *word = argv[i];
        if (!rest && word[0] == '-' && word[1] != '-' && word[1] != '\0')
            return status_say(note, STATUS_BAD_REQUEST,
                              "'%s' is no option of %s; text that begins with - goes after --",
                              word, out->name);
        if (rest || strncmp(word, "--", 2) != 0) {
            if (out->n_args == OPT_ARGS_MAX)
                return status_say(note, STATUS_BAD_REQUEST, "more than %d words at '%s'",
                                  OPT_ARGS_MAX, word);
            out->args[out->n_args++] = word;
            continue;
        }
        if (word[2] == '\0') {
            rest = true;
            continue;
        }
        const char *equals = strchr(word, '=');
        size_t n = equals != NULL ? (size_t)(equals - word) - 2 : strlen(word) - 2;
        bool elsewhere;
        uint32_t id = option_find(program, word + 2, n, &elsewhere);
        if (id == OPT_COUNT)
            return status_say(note, STATUS_BAD_REQUEST,
                              elsewhere ? "'%.*s' is no option of %s; see roundhouse %s --help"
                                        : "'%.*s' is unknown to %s; see roundhouse %s --help",
                              (int)n + 2, word, out->name, out->name);
        if (option_table[id].value == NULL) {
            if (equals != NULL)
                return status_say(note, STATUS_BAD_REQUEST, "--%s takes no value",
                                  option_table[id].name);
            TRY(option_add(out, id, "", note));
        } else if (equals != NULL) {
            TRY(option_add(out, id, equals + 1, note));
        } else if (i + 1 < argc) {
            TRY(option_add(out, id, argv[++i], note));
        } else {
            return status_say(note, STATUS_BAD_REQUEST, "--%s needs a value: %s",
                              option_table[id].name, option_table[id].value);
        }
    }
    return STATUS_OK;
}

bool options_has(const struct options *o, enum option_id id) {
    return o->n[id] > 0;
}

const char *options_text(const struct options *o, enum option_id id, const char *otherwise) {
    return o->n[id] > 0 ? o->value[id][o->n[id] - 1] : otherwise;
}

enum status options_u64(const struct options *o, enum option_id id, uint64_t min, uint64_t max,
                        bool sizes, uint64_t *out, struct status_note *note) {
    const char *text = options_text(o, id, NULL);
    if (text == NULL)
        return STATUS_OK;
    char *end;
    errno = 0;
    unsigned long long v = strtoull(text, &end, 10);
    bool wrong = text[0] < '0' || text[0] > '9' || errno != 0;
    unsigned shift = 0;
    if (!wrong && sizes && *end != '\0' && end[1] == '\0') {
        shift = *end == 'K' ? 10 : *end == 'M' ? 20 : *end == 'G' ? 30 : 0;
        if (shift > 0)
            end++;
        wrong = v > UINT64_MAX >> shift;
    }
    if (wrong || *end != '\0' || (v << shift) < min || (v << shift) > max)
        return status_say(
            note, STATUS_BAD_REQUEST, "--%s '%s' is not a whole number from %llu to %llu",
            option_table[id].name, text, (unsigned long long)min, (unsigned long long)max);
    *out = v << shift;
    return STATUS_OK;
}

enum status options_bytes(const struct options *o, enum option_id id, uint64_t of, uint64_t *out,
                          struct status_note *note) {
    const char *text = options_text(o, id, NULL);
    size_t n = text != NULL ? strlen(text) : 0;
    if (n < 2 || text[n - 1] != '%')
        return options_u64(o, id, 1, UINT64_MAX, true, out, note);
    char *end;
    unsigned long v = strtoul(text, &end, 10);
    if (text[0] < '0' || text[0] > '9' || end != text + n - 1 || v == 0 || v > 100)
        return status_say(note, STATUS_BAD_REQUEST,
                          "--%s '%s' is no size and no percentage from 1%% to 100%%",
                          option_table[id].name, text);
    *out = of / 100 * v;
    return STATUS_OK;
}

enum status options_u32(const struct options *o, enum option_id id, uint32_t min, uint32_t max,
                        uint32_t *out, struct status_note *note) {
    uint64_t v = *out;
    TRY(options_u64(o, id, min, max, false, &v, note));
    *out = (uint32_t)v;
    return STATUS_OK;
}

enum status options_float(const struct options *o, enum option_id id, float min, float max,
                          float *out, struct status_note *note) {
    const char *text = options_text(o, id, NULL);
    if (text == NULL)
        return STATUS_OK;
    char *end;
    float v = strtof(text, &end);
    if (end == text || *end != '\0' || !isfinite(v) || v < min || v > max)
        return status_say(note, STATUS_BAD_REQUEST, "--%s '%s' is not a number from %g to %g",
                          option_table[id].name, text, (double)min, (double)max);
    *out = v;
    return STATUS_OK;
}

void options_help(uint32_t program, FILE *to) {
    for (uint32_t i = 0; i < OPT_COUNT; i++) {
        if ((option_table[i].programs & program) == 0)
            continue;
        char head[64];
        snprintf(head, sizeof head, "--%s%s%s", option_table[i].name,
                 option_table[i].value != NULL ? " " : "",
                 option_table[i].value != NULL ? option_table[i].value : "");
        fprintf(to, "  %-26s %s\n", head, option_table[i].help);
    }
}

bool options_row(uint32_t i, const char **name, const char **value, uint32_t *programs,
                 const char **help) {
    if (i >= OPT_COUNT)
        return false;
    *name = option_table[i].name;
    *value = option_table[i].value;
    *programs = option_table[i].programs;
    *help = option_table[i].help;
    return true;
}

const char *options_default_model(void) {
    static char path[4096];
    const char *given = getenv("ROUNDHOUSE_MODEL");
    if (given != NULL && given[0] != '\0')
        return given;
    /* Beside a build tree, then installed, wherever that was moved to. */
    static const char *const places[] = {"/../share/fable-5m", "/../share/roundhouse/fable-5m"};
    ssize_t n = readlink("/proc/self/exe", path, sizeof path - 64);
    if (n > 0) {
        path[n] = '\0';
        char *slash = strrchr(path, '/');
        for (size_t i = 0; slash != NULL && i < sizeof places / sizeof *places; i++) {
            strcpy(slash, places[i]);
            if (access(path, R_OK) == 0)
                return path;
        }
    }
    return RH_DATADIR "/fable-5m";
}

enum status options_usual_url(char *url, size_t cap, struct status_note *note) {
    const char *folder = getenv("XDG_RUNTIME_DIR");
    if (folder == NULL || folder[0] != '/')
        return status_say(note, STATUS_BAD_REQUEST,
                          "XDG_RUNTIME_DIR is not set: say where, as ipc:///PATH");
    int n = snprintf(url, cap, "ipc://%s/roundhouse.sock", folder);
    return n > 0 && (size_t)n < cap
               ? STATUS_OK
               : status_say(note, STATUS_BAD_REQUEST, "XDG_RUNTIME_DIR is too long: %s", folder);
}

/* --graphs, else the environment, else on where the device has graphs. */
static enum status options_graphs(const struct options *o, struct lane_engine_config *c,
                                  struct status_note *note) {
    const char *text = getenv("ROUNDHOUSE_GRAPHS"), *where = "ROUNDHOUSE_GRAPHS";
    if (options_has(o, OPT_graphs)) {
        text = options_text(o, OPT_graphs, NULL);
        where = "--graphs";
    }
    c->graphs = GPU_GRAPHS_MAX;
    c->graphs_asked = text != NULL && *text != '\0';
    return c->graphs_asked ? gpu_graph_parse(text, where, &c->graphs, note) : STATUS_OK;
}

static void options_say(void *self, const char *text) {
    (void)self;
    fprintf(stderr, "roundhouse: %s\n", text);
}

/* Threads and instruction sets are a CPU's: asking for one asks for it. */
static enum status options_device(const struct options *o, enum lane_device *out,
                                  struct status_note *note) {
    const char *name = options_text(o, OPT_device, "auto");
    bool cpu_only = options_has(o, OPT_threads) || options_has(o, OPT_isa);
    if (strcmp(name, "auto") == 0)
        *out = cpu_only ? LANE_DEVICE_CPU : LANE_DEVICE_AUTO;
    else if (strcmp(name, "cpu") == 0)
        *out = LANE_DEVICE_CPU;
    else if (strcmp(name, "cuda") == 0)
        *out = LANE_DEVICE_CUDA;
    else
        return status_say(note, STATUS_BAD_REQUEST,
                          "there is no device '%s'; there are auto, cpu and cuda", name);
    if (*out == LANE_DEVICE_CUDA && options_has(o, OPT_isa))
        return status_say(
            note, STATUS_BAD_REQUEST,
            "--isa names a CPU's instructions and --device cuda a GPU: leave one out");
    /* prove asks both kinds: its axis threads is the CPU's. */
    if (*out == LANE_DEVICE_CUDA && options_has(o, OPT_threads) && o->program != P_PROVE)
        return status_say(
            note, STATUS_BAD_REQUEST,
            "--threads is of the CPU device and --device cuda names a GPU: leave one out");
    return STATUS_OK;
}

/* Bytes of the file system that the path is, or will be, in. */
static uint64_t options_file_system(const char *path) {
    char at[4096];
    struct statvfs s;
    snprintf(at, sizeof at, "%s", path);
    while (statvfs(at, &s) != 0) {
        char *slash = strrchr(at, '/');
        if (strcmp(at, ".") == 0 || strcmp(at, "/") == 0)
            return 0;
        if (slash == NULL)
            snprintf(at, sizeof at, ".");
        else
            slash[slash == at] = '\0';
    }
    return (uint64_t)s.f_blocks * s.f_frsize;
}

static enum status options_disk(const struct options *o, struct lane_engine_config *c,
                                struct status_note *note) {
    c->disk_cache = options_text(o, OPT_disk_cache, NULL);
    if (c->disk_cache == NULL) {
        if (options_has(o, OPT_disk_budget) || options_has(o, OPT_disk_floor))
            return status_say(note, STATUS_BAD_REQUEST,
                              "--disk-budget and --disk-floor go with --disk-cache DIR");
        return STATUS_OK;
    }
    uint64_t all = options_file_system(c->disk_cache);
    c->disk_budget = all / 10;
    c->disk_floor = all / 20;
    TRY(options_bytes(o, OPT_disk_budget, all, &c->disk_budget, note));
    TRY(options_bytes(o, OPT_disk_floor, all, &c->disk_floor, note));
    if (all == 0 && c->disk_budget == 0)
        return status_say(
            note, STATUS_BAD_REQUEST,
            "--disk-cache %.200s: its file system says no size of which a share could "
            "be the budget; give a directory on a disk",
            c->disk_cache);
    return STATUS_OK;
}

/* Where the name is in a table; n: nowhere. */
static uint32_t options_index(const char *name, const char *const *names, uint32_t n) {
    uint32_t at = 0;
    while (at < n && strcmp(name, names[at]) != 0)
        at++;
    return at;
}

static enum status options_exchange(const struct options *o, enum lane_exchange *out,
                                    struct status_note *note) {
    const char *name = options_text(o, OPT_exchange, "auto");
    static const char *const names[] = {[LANE_EXCHANGE_AUTO] = "auto",
                                        [LANE_EXCHANGE_HOST] = "host",
                                        [LANE_EXCHANGE_NCCL] = "nccl"};
    uint32_t at = options_index(name, names, sizeof names / sizeof *names);
    *out = (enum lane_exchange)at;
    return at < sizeof names / sizeof *names
               ? STATUS_OK
               : status_say(note, STATUS_BAD_REQUEST,
                            "there is no exchange '%s'; there are auto, nccl and host", name);
}

static enum status options_weights(const struct options *o, enum gpu_weights *out,
                                   struct status_note *note) {
    const char *name = options_text(o, OPT_weights, "auto");
    static const char *const names[] = {
        [GPU_WEIGHTS_AUTO] = "auto", [GPU_WEIGHTS_PACKED] = "packed", [GPU_WEIGHTS_WIDE] = "wide"};
    uint32_t at = options_index(name, names, sizeof names / sizeof *names);
    *out = (enum gpu_weights)at;
    return at < sizeof names / sizeof *names
               ? STATUS_OK
               : status_say(note, STATUS_BAD_REQUEST,
                            "weights cannot be '%s'; they are auto, packed or wide", name);
}

/* A size, or a share of the memory of a device that is not known yet. */
static enum status options_device_cache(const struct options *o, struct lane_engine_config *c,
                                        struct status_note *note) {
    const char *text = options_text(o, OPT_device_cache, "");
    uint64_t share = 0;
    if (strchr(text, '%') == NULL)
        return options_bytes(o, OPT_device_cache, 0, &c->kv_bytes, note);
    TRY(options_bytes(o, OPT_device_cache, 100, &share, note));
    c->kv_percent = (uint32_t)share;
    return STATUS_OK;
}

enum status options_engine(const struct options *o, struct lane_engine_config *c,
                           struct status_note *note) {
    *c = (struct lane_engine_config){.model_path =
                                         options_text(o, OPT_model, options_default_model())};
    TRY(options_device(o, &c->device, note));
    TRY(options_u32(o, OPT_threads, 1, 256, &c->threads, note));
    TRY(options_u32(o, OPT_context, 2, KRN_CONTEXT_MAX, &c->context, note));
    TRY(options_u64(o, OPT_kv_bytes, 1, UINT64_MAX, true, &c->kv_bytes, note));
    uint64_t memory = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
    if (options_has(o, OPT_device_cache) && options_has(o, OPT_kv_bytes))
        return status_say(note, STATUS_BAD_REQUEST,
                          "--device-cache and --kv-bytes mean the same: give one of them");
    TRY(options_device_cache(o, c, note));
    TRY(options_bytes(o, OPT_ram_cache, memory, &c->ram_cache, note));
    TRY(options_disk(o, c, note));
    TRY(options_u32(o, OPT_lanes, 1, 256, &c->lanes_max, note));
    TRY(options_u32(o, OPT_queue, 1, 768, &c->queue_max, note));
    TRY(options_u32(o, OPT_round_tokens, 1, 65536, &c->round_tokens, note));
    TRY(options_u32(o, OPT_piece_tokens, 1, 65536, &c->piece_tokens, note));
    TRY(options_u32(o, OPT_ranks, 1, GPU_WORLD_MAX, &c->world, note));
    TRY(options_exchange(o, &c->exchange, note));
    TRY(options_weights(o, &c->weights, note));
    TRY(options_u32(o, OPT_virtual_ranks, 1, KRN_V_MAX, &c->virtual_ranks, note));
    c->profile = options_text(o, OPT_profile, NULL);
    c->isa = options_text(o, OPT_isa, NULL);
    TRY(options_graphs(o, c, note));
    c->ahead = c->rank_thread = options_has(o, OPT_ahead);
    c->ahead_auto = !options_has(o, OPT_ahead) && !options_has(o, OPT_no_ahead);
    if (options_has(o, OPT_ahead) && options_has(o, OPT_no_ahead))
        return status_say(note, STATUS_BAD_REQUEST,
                          "--plan-ahead and --no-plan-ahead contradict each other: leave one out");
    c->no_reuse = options_has(o, OPT_no_reuse);
    if (!options_has(o, OPT_quiet))
        c->say = options_say;
    c->journal_path = options_text(o, OPT_journal, NULL);
    if (c->piece_tokens > 0 && c->round_tokens == 0 && c->piece_tokens > 512)
        c->round_tokens = c->piece_tokens;
    if (c->round_tokens > 0 && c->piece_tokens == 0 && c->round_tokens < 512)
        c->piece_tokens = c->round_tokens;
    return STATUS_OK;
}

enum status options_template(const struct options *o, bool chat, struct lane_template_options *out,
                             struct status_note *note) {
    const char *thinking = options_text(o, OPT_thinking, NULL);
    *out = (struct lane_template_options){.date = options_text(o, OPT_template_date, NULL)};
    if (!chat && (thinking != NULL || out->date != NULL))
        return status_say(note, STATUS_BAD_REQUEST, "--%s goes with --as-chat",
                          thinking != NULL ? "thinking" : "template-date");
    if (thinking == NULL)
        return STATUS_OK;
    bool on = strcmp(thinking, "on") == 0;
    if (!on && strcmp(thinking, "off") != 0)
        return status_say(note, STATUS_BAD_REQUEST, "--thinking '%s' is neither on nor off",
                          thinking);
    out->thinking = on ? LANE_THINKING_ON : LANE_THINKING_OFF;
    return STATUS_OK;
}

enum status options_sampling(const struct options *o, const struct krn_config *model,
                             struct krn_sampling *out, struct status_note *note) {
    *out = (struct krn_sampling){.temperature = 1.0f, .top_p = 1.0f, .repetition = 1.0f};
    if (model != NULL && model->has_sampling) {
        out->temperature = model->temperature;
        out->top_p = model->top_p;
        out->top_k = model->top_k;
    }
    TRY(options_float(o, OPT_temperature, 0.0f, 100.0f, &out->temperature, note));
    TRY(options_u32(o, OPT_top_k, 0, UINT32_MAX, &out->top_k, note));
    TRY(options_float(o, OPT_top_p, 0.0f, 1.0f, &out->top_p, note));
    TRY(options_float(o, OPT_min_p, 0.0f, 1.0f, &out->min_p, note));
    TRY(options_float(o, OPT_repetition, 0.01f, 100.0f, &out->repetition, note));
    TRY(options_float(o, OPT_presence, -100.0f, 100.0f, &out->presence, note));
    TRY(options_float(o, OPT_frequency, -100.0f, 100.0f, &out->frequency, note));
    TRY(options_u64(o, OPT_seed, 0, UINT64_MAX, false, &out->seed, note));
    if (options_has(o, OPT_greedy))
        out->temperature = 0.0f;
    return STATUS_OK;
}

enum program_exit program_exit_of(enum status s) {
    switch (s) {
    case STATUS_OK:
        return EXIT_DONE;
    case STATUS_BAD_REQUEST:
    case STATUS_EMPTY_PROMPT:
    case STATUS_PROMPT_TOO_LONG:
    case STATUS_BAD_TOKEN:
    case STATUS_UNSUPPORTED:
        return EXIT_USAGE;
    case STATUS_BAD_FILE:
    case STATUS_BAD_MODEL:
        return EXIT_BAD_DATA;
    case STATUS_NOT_FOUND:
        return EXIT_NO_INPUT;
    case STATUS_DUPLICATE: /* of a start: a store that is in use */
        return EXIT_UNAVAILABLE;
    case STATUS_NO_MEMORY:
    case STATUS_NO_PAGES:
    case STATUS_TOO_LARGE:
        return EXIT_NO_RESOURCES;
    case STATUS_IO:
        return EXIT_IO;
    case STATUS_DEVICE:
    case STATUS_DESYNC:
    case STATUS_TIMEOUT:
        return EXIT_INTERNAL;
    default:
        return EXIT_DIFFERS;
    }
}
