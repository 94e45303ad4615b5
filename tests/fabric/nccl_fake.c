/* SPDX-License-Identifier: Apache-2.0
 * One meeting place a communicator; operations are two meetings: all have come, all have copied.
 */
#include "tests/fabric/nccl_fake.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "actors/check.h"

enum { PLACES = 64, RANKS = 8, OPS = 2 * RANKS };
enum { FAKE_INVALID = 4, FAKE_REMOTE = 6 };

/* The ranks of one communicator. */
struct place {
    uint32_t world, come, round; /* of the meeting under way */
    uint32_t joined;
    bool broken;
    const void *from[RANKS];
    const void *sent[RANKS][RANKS]; /* by whom, to whom */
    struct place *child;
};

struct fab_nccl_comm {
    struct place *at;
    uint32_t rank;
    bool blocking, split;
};

static struct {
    pthread_mutex_t lock;
    pthread_cond_t moved;
    struct place places[PLACES];
    uint32_t n_places, live;
    int version;
    bool flip;
    fab_nccl_result_t gather, state;
} fake = {.lock = PTHREAD_MUTEX_INITIALIZER, .moved = PTHREAD_COND_INITIALIZER};

/* Sends and receives between group_begin and group_end, of a thread. */
static _Thread_local struct {
    struct fab_nccl_comm *comm;
    const void *send[RANKS];
    void *receive[RANKS];
    size_t bytes;
} group;

static struct place *place_new(uint32_t world) {
    CHECK(fake.n_places < PLACES);
    fake.places[fake.n_places] = (struct place){.world = world};
    return &fake.places[fake.n_places++];
}

/* All ranks of a communicator come; false: it was ended. With the lock held. */
static bool meet(struct place *p) {
    uint32_t round = p->round;
    if (++p->come == p->world) {
        p->come = 0;
        p->round++;
        pthread_cond_broadcast(&fake.moved);
    }
    while (p->round == round && !p->broken)
        pthread_cond_wait(&fake.moved, &fake.lock);
    return !p->broken;
}

static fab_nccl_result_t fake_get_version(int *version) {
    *version = fake.version;
    return FAB_NCCL_SUCCESS;
}

static fab_nccl_result_t fake_unique_id(struct fab_nccl_id *id) {
    memset(id, 0, sizeof *id);
    pthread_mutex_lock(&fake.lock);
    CHECK(fake.n_places < PLACES);
    id->bytes[0] = (char)fake.n_places;
    fake.places[fake.n_places++] = (struct place){.world = 0};
    pthread_mutex_unlock(&fake.lock);
    return FAB_NCCL_SUCCESS;
}

static struct fab_nccl_comm *comm_new(struct place *p, uint32_t rank,
                                      const struct fab_nccl_settings *settings) {
    struct fab_nccl_comm *c = calloc(1, sizeof *c);
    CHECK(c != NULL && settings->magic == 0xcafebeef && settings->size == sizeof *settings);
    *c = (struct fab_nccl_comm){.at = p, .rank = rank, .blocking = settings->blocking != 0};
    p->joined++;
    fake.live++;
    return c;
}

static fab_nccl_result_t fake_join(struct fab_nccl_comm **comm, int ranks, struct fab_nccl_id id,
                                   int rank, struct fab_nccl_settings *settings) {
    pthread_mutex_lock(&fake.lock);
    struct place *p = &fake.places[(unsigned char)id.bytes[0]];
    p->world = (uint32_t)ranks;
    *comm = comm_new(p, (uint32_t)rank, settings);
    pthread_mutex_unlock(&fake.lock);
    return FAB_NCCL_IN_PROGRESS;
}

static fab_nccl_result_t fake_split(struct fab_nccl_comm *comm, int color, int key,
                                    struct fab_nccl_comm **out,
                                    struct fab_nccl_settings *settings) {
    (void)color;
    pthread_mutex_lock(&fake.lock);
    struct place *p = comm->at;
    CHECK(p->joined == p->world);
    if (p->child == NULL)
        p->child = place_new(p->world);
    *out = comm_new(p->child, (uint32_t)key, settings);
    comm->split = true;
    pthread_mutex_unlock(&fake.lock);
    return FAB_NCCL_IN_PROGRESS;
}

static fab_nccl_result_t fake_state(struct fab_nccl_comm *comm, fab_nccl_result_t *state) {
    pthread_mutex_lock(&fake.lock);
    const struct place *p = comm->at;
    bool all = p->joined == p->world && (!comm->split || p->child->joined == p->world);
    *state = fake.state;
    if (fake.state == FAB_NCCL_SUCCESS && p->broken)
        *state = FAKE_REMOTE;
    else if (fake.state == FAB_NCCL_SUCCESS && !comm->blocking && !all)
        *state = FAB_NCCL_IN_PROGRESS;
    pthread_mutex_unlock(&fake.lock);
    return FAB_NCCL_SUCCESS;
}

static fab_nccl_result_t fake_abort(struct fab_nccl_comm *comm) {
    pthread_mutex_lock(&fake.lock);
    comm->at->broken = true;
    fake.live--;
    pthread_cond_broadcast(&fake.moved);
    pthread_mutex_unlock(&fake.lock);
    free(comm);
    return FAB_NCCL_SUCCESS;
}

static void arrive(void *to, const void *from, size_t bytes, bool other) {
    memmove(to, from, bytes);
    if (fake.flip && other)
        ((unsigned char *)to)[bytes / 2] ^= 0x10;
}

static fab_nccl_result_t fake_gather(const void *from, void *to, size_t n, int type,
                                     struct fab_nccl_comm *comm, void *stream) {
    (void)stream;
    struct place *p = comm->at;
    size_t bytes = n * sizeof(float);
    CHECK(type == FAB_NCCL_FLOAT);
    pthread_mutex_lock(&fake.lock);
    fab_nccl_result_t result = fake.gather;
    p->from[comm->rank] = from;
    if (result == FAB_NCCL_SUCCESS && !meet(p))
        result = FAKE_REMOTE;
    for (uint32_t i = 0; i < p->world && result == FAB_NCCL_SUCCESS; i++)
        arrive((char *)to + i * bytes, p->from[i], bytes, i != comm->rank);
    if (result == FAB_NCCL_SUCCESS && !meet(p))
        result = FAKE_REMOTE;
    pthread_mutex_unlock(&fake.lock);
    return result;
}

static fab_nccl_result_t fake_group_begin(void) {
    memset(&group, 0, sizeof group);
    return FAB_NCCL_SUCCESS;
}

static fab_nccl_result_t fake_send(const void *from, size_t n, int type, int rank,
                                   struct fab_nccl_comm *comm, void *stream) {
    (void)stream;
    CHECK(type == FAB_NCCL_FLOAT && (uint32_t)rank < comm->at->world);
    group.comm = comm;
    group.bytes = n * sizeof(float);
    group.send[rank] = from;
    return FAB_NCCL_SUCCESS;
}

static fab_nccl_result_t fake_receive(void *to, size_t n, int type, int rank,
                                      struct fab_nccl_comm *comm, void *stream) {
    (void)stream;
    CHECK(type == FAB_NCCL_FLOAT && comm == group.comm && group.bytes == n * sizeof(float));
    group.receive[rank] = to;
    return FAB_NCCL_SUCCESS;
}

static fab_nccl_result_t fake_group_end(void) {
    fab_nccl_result_t result = FAB_NCCL_SUCCESS;
    if (group.comm == NULL)
        return FAKE_INVALID;
    pthread_mutex_lock(&fake.lock);
    struct place *p = group.comm->at;
    uint32_t me = group.comm->rank;
    memcpy(p->sent[me], group.send, sizeof group.send);
    if (!meet(p))
        result = FAKE_REMOTE;
    for (uint32_t i = 0; i < p->world && result == FAB_NCCL_SUCCESS; i++)
        arrive(group.receive[i], p->sent[i][me], group.bytes, i != me);
    if (result == FAB_NCCL_SUCCESS && !meet(p))
        result = FAKE_REMOTE;
    pthread_mutex_unlock(&fake.lock);
    return result;
}

static const char *fake_error_text(fab_nccl_result_t result) {
    return result == FAKE_REMOTE ? "remote process exited" : "some error";
}

static const char *fake_last_error(const struct fab_nccl_comm *comm) {
    (void)comm;
    return "";
}

void *nccl_fake_find(void *lacks, const char *symbol) {
    static const struct {
        const char *symbol;
        void (*function)(void);
    } all[] = {{"ncclGetVersion", (void (*)(void))fake_get_version},
               {"ncclGetUniqueId", (void (*)(void))fake_unique_id},
               {"ncclCommInitRankConfig", (void (*)(void))fake_join},
               {"ncclCommSplit", (void (*)(void))fake_split},
               {"ncclCommGetAsyncError", (void (*)(void))fake_state},
               {"ncclCommAbort", (void (*)(void))fake_abort},
               {"ncclAllGather", (void (*)(void))fake_gather},
               {"ncclSend", (void (*)(void))fake_send},
               {"ncclRecv", (void (*)(void))fake_receive},
               {"ncclGroupStart", (void (*)(void))fake_group_begin},
               {"ncclGroupEnd", (void (*)(void))fake_group_end},
               {"ncclGetErrorString", (void (*)(void))fake_error_text},
               {"ncclGetLastError", (void (*)(void))fake_last_error}};
    void *f = NULL;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (strcmp(all[i].symbol, symbol) == 0 && (lacks == NULL || strcmp(lacks, symbol) != 0))
            memcpy(&f, &all[i].function, sizeof f);
    return f;
}

const struct fab_nccl *nccl_fake(void) {
    static struct fab_nccl table;
    struct status_note note;
    fake.n_places = fake.live = 0;
    fake.version = 22809;
    fake.flip = false;
    fake.gather = fake.state = FAB_NCCL_SUCCESS;
    CHECK(fab_nccl_fill(&table, nccl_fake_find, NULL, &note) == STATUS_OK);
    return &table;
}

void nccl_fake_version(int version) {
    fake.version = version;
}

void nccl_fake_flip(bool on) {
    fake.flip = on;
}

void nccl_fake_fail(fab_nccl_result_t gather) {
    fake.gather = gather;
}

void nccl_fake_state(fab_nccl_result_t state) {
    fake.state = state;
}

uint32_t nccl_fake_live(void) {
    return fake.live;
}
