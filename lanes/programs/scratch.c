/* SPDX-License-Identifier: Apache-2.0
 * The directory, and the process that outlives the program by what removing it takes.
 */
#include "lanes/programs/scratch.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { REMOVE_TRIES = 3 };

static int remove_one(const char *path, const struct stat *s, int kind, struct FTW *walk) {
    (void)s;
    (void)kind;
    (void)walk;
    (void)remove(path); /* what cannot be removed stays, and the rest goes */
    return 0;
}

static void remove_all(const char *folder) {
    for (int i = 0; i < REMOVE_TRIES && access(folder, F_OK) == 0; i++)
        nftw(folder, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

/* The pipe ends with the program, however that ends. */
static void keep(const char *folder, int from) {
    char byte;
    setsid(); /* an interrupt at the terminal is not meant for it */
    dup2(from, 0);
    close_range(1, ~0u, 0); /* nobody's output, device or lock waits for it */
    while (read(0, &byte, 1) < 0 && errno == EINTR)
        ;
    remove_all(folder);
    _exit(0);
}

enum status scratch_make(struct scratch *s, const char *base, const char *what,
                         struct status_note *note) {
    int ends[2];
    *s = (struct scratch){.pipe = -1};
    int n = snprintf(s->folder, sizeof s->folder, "%s/rh-%s-XXXXXX", base, what);
    mkdir(base, 0700); /* what is wrong with it is said next */
    if (n < 0 || (size_t)n >= sizeof s->folder - 64 || mkdtemp(s->folder) == NULL) {
        s->folder[0] = '\0';
        return status_say(note, STATUS_IO, "no directory can be made in %s: %s", base,
                          strerror(errno));
    }
    if (pipe2(ends, O_CLOEXEC) != 0)
        return STATUS_OK; /* it is removed at the end, unless that comes too soon */
    s->keeper = fork();
    if (s->keeper == 0) {
        close(ends[1]);
        keep(s->folder, ends[0]);
    }
    close(ends[0]);
    if (s->keeper > 0)
        s->pipe = ends[1];
    else
        close(ends[1]);
    return STATUS_OK;
}

void scratch_remove(struct scratch *s) {
    if (s->folder[0] == '\0')
        return;
    if (s->pipe >= 0) {
        close(s->pipe);
        while (waitpid(s->keeper, NULL, 0) < 0 && errno == EINTR)
            ;
    }
    remove_all(s->folder);
    s->folder[0] = '\0';
}
