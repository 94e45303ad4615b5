/* SPDX-License-Identifier: Apache-2.0
 * Mapping of a regular file.
 */
#include "kernels/weights/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "kernels/weights/json.h"

static enum status file_errno(const char *label, const char *what, int error,
                              struct status_note *note) {
    enum status status = STATUS_IO;
    if (error == ENOENT || error == ENOTDIR)
        status = STATUS_NOT_FOUND;
    else if (error == ENOMEM)
        status = STATUS_NO_MEMORY;
    return status_say(note, status, "%s: cannot %s: %s", label, what, strerror(error));
}

enum status krn_file_open(const char *path, uint64_t max, struct krn_file *out,
                          struct status_note *note) {
    char label[KRN_LABEL_BYTES];
    krn_label(label, path);
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return file_errno(label, "open", errno, note);
    enum status status = STATUS_OK;
    struct stat st;
    void *map = NULL;
    if (fstat(fd, &st) != 0)
        status = file_errno(label, "read its size", errno, note);
    else if (S_ISDIR(st.st_mode))
        status = status_say(note, STATUS_BAD_FILE, "%s: is a directory, a file is expected", label);
    else if (!S_ISREG(st.st_mode))
        status = status_say(note, STATUS_BAD_FILE, "%s: is not a regular file", label);
    else if (st.st_size <= 0)
        status = status_say(note, STATUS_BAD_FILE, "%s: is empty", label);
    else if ((uint64_t)st.st_size > max)
        status = status_say(note, STATUS_TOO_LARGE, "%s: %llu bytes, at most %llu are allowed",
                            label, (unsigned long long)st.st_size, (unsigned long long)max);
    if (status == STATUS_OK) {
        map = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
        if (map == MAP_FAILED)
            status = file_errno(label, "map", errno, note);
    }
    if (status == STATUS_OK)
        *out = (struct krn_file){.bytes = map, .size = (uint64_t)st.st_size};
    close(fd);
    return status;
}

void krn_file_close(struct krn_file *file) {
    if (file->bytes != NULL)
        munmap((void *)(uintptr_t)file->bytes, (size_t)file->size);
    *file = (struct krn_file){0};
}
