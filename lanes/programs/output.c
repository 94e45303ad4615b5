/* SPDX-License-Identifier: Apache-2.0
 * Files of the programs, whole or not at all.
 */
#include "lanes/programs/output.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

enum { LINKS_MAX = 40, TRIES_MAX = 16 };

static enum status unwritable(const char *path, int error, struct status_note *note) {
    return status_say(note, STATUS_IO, "%.300s cannot be written: %s", path, strerror(error));
}

/* Length of the folder in a path, with its slash; 0: the working directory. */
static size_t folder_bytes(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash != NULL ? (size_t)(slash - path) + 1 : 0;
}

/* Follows links to the name that is to be written, whether it is there or not; 0 or an errno. */
static int follow(char path[OUTPUT_PATH_BYTES]) {
    char to[OUTPUT_PATH_BYTES];
    for (int i = 0; i < LINKS_MAX; i++) {
        ssize_t n = readlink(path, to, sizeof to - 1);
        if (n < 0)
            return errno == EINVAL || errno == ENOENT ? 0 : errno;
        to[n] = '\0';
        size_t at = to[0] == '/' ? 0 : folder_bytes(path);
        if (at + (size_t)n >= OUTPUT_PATH_BYTES)
            return ENAMETOOLONG;
        memcpy(path + at, to, (size_t)n + 1);
    }
    return ELOOP;
}

/* A new file beside the path, with the mode and owner of the old one; its descriptor or -errno. */
static int part_make(struct output *o, const struct stat *old) {
    int fd = -1, n = (int)folder_bytes(o->path);
    for (int i = 0; i < TRIES_MAX && fd < 0; i++) {
        uint64_t random;
        if (getrandom(&random, sizeof random, 0) != (ssize_t)sizeof random)
            return -EIO;
        if ((size_t)snprintf(o->part, sizeof o->part, "%.*sroundhouse-%016" PRIx64 ".part", n,
                             o->path, random) >= sizeof o->part)
            fd = -ENAMETOOLONG;
        else
            fd = open(o->part, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, old == NULL ? 0666 : 0600);
        if (fd == -1 && errno != EEXIST)
            fd = -errno;
        if (fd < -1)
            break;
    }
    if (fd < 0) {
        o->part[0] = '\0';
        return fd;
    }
    if (old == NULL)
        return fd;
    /* Whose owner cannot be kept is readable to nobody else. */
    bool given = fchown(fd, old->st_uid, old->st_gid) == 0;
    if (fchmod(fd, old->st_mode & (given ? 0777 : 0700)) == 0)
        return fd;
    int error = errno;
    close(fd);
    unlink(o->part);
    o->part[0] = '\0';
    return -error;
}

enum status output_open(struct output *o, const char *path, struct status_note *note) {
    struct stat st, same;
    *o = (struct output){.asked = path};
    if (strlen(path) >= sizeof o->path)
        return unwritable(path, ENAMETOOLONG, note);
    strcpy(o->path, path);
    bool there = stat(path, &st) == 0;
    bool straight = there && !S_ISREG(st.st_mode);
    int error = straight ? 0 : follow(o->path);
    /* A link of /proc may lead to a file that has no name, or another's. */
    if (there && !straight)
        straight = error != 0 || stat(o->path, &same) != 0 || same.st_dev != st.st_dev ||
                   same.st_ino != st.st_ino;
    if (straight)
        strcpy(o->path, path);
    else if (error != 0 || (there && access(o->path, W_OK) != 0))
        return unwritable(path, error != 0 ? error : errno, note);
    int fd = straight ? -EACCES : part_make(o, there ? &st : NULL);
    if (there && (fd == -EACCES || fd == -EROFS)) { /* also where the folder takes no new file */
        straight = true;
        fd = open(path, O_WRONLY | O_TRUNC | O_CLOEXEC);
        fd = fd < 0 ? -errno : fd;
    }
    if (fd < 0)
        return unwritable(path, -fd, note);
    o->f = fdopen(fd, "wb");
    if (o->f != NULL)
        return STATUS_OK;
    error = errno;
    close(fd);
    if (!straight)
        unlink(o->part);
    return unwritable(path, error, note);
}

/* The new name is to last, too; not every file system knows how. */
static void folder_sync(const char *path) {
    char folder[OUTPUT_PATH_BYTES] = ".";
    size_t n = folder_bytes(path);
    if (n > 0) {
        memcpy(folder, path, n);
        folder[n] = '\0';
    }
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd >= 0) {
        fsync(fd);
        close(fd);
    }
}

enum status output_close(struct output *o, bool whole, struct status_note *note) {
    bool straight = o->part[0] == '\0';
    int error = !ferror(o->f) ? 0 : errno != 0 ? errno : EIO;
    errno = 0;
    if (fflush(o->f) != 0 && error == 0)
        error = errno != 0 ? errno : EIO;
    /* Pipes and terminals have no disk. */
    if (error == 0 && whole && fsync(fileno(o->f)) != 0 &&
        !(straight && (errno == EINVAL || errno == ENOTSUP || errno == EROFS)))
        error = errno;
    if (fclose(o->f) != 0 && error == 0)
        error = errno;
    o->f = NULL;
    if (error == 0 && whole && !straight && rename(o->part, o->path) != 0)
        error = errno;
    if (!straight && (error != 0 || !whole))
        unlink(o->part);
    else if (!straight)
        folder_sync(o->path);
    return error == 0 || !whole ? STATUS_OK : unwritable(o->asked, error, note);
}

enum status output_writable(const char *path, struct status_note *note) {
    struct stat st;
    struct output o;
    if (path == NULL || strcmp(path, "-") == 0)
        return STATUS_OK;
    if (stat(path, &st) == 0 && S_ISDIR(st.st_mode))
        return unwritable(path, EISDIR, note);
    if (stat(path, &st) == 0) /* not opened: a pipe may be opened once only */
        return access(path, W_OK) == 0 ? STATUS_OK : unwritable(path, errno, note);
    TRY(output_open(&o, path, note));
    return output_close(&o, false, note);
}

enum status output_json(const char *path, const json_t *j, size_t flags, struct status_note *note) {
    struct output o = {.f = stdout};
    bool console = strcmp(path, "-") == 0;
    if (!console)
        TRY(output_open(&o, path, note));
    bool fine = json_dumpf(j, o.f, flags) == 0 && fputc('\n', o.f) != EOF;
    enum status s = console ? STATUS_OK : output_close(&o, fine, note);
    return s == STATUS_OK && !fine
               ? status_say(note, STATUS_IO, "%.300s could not be written", path)
               : s;
}
