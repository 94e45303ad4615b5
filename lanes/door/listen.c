/* SPDX-License-Identifier: Apache-2.0
 * Addresses and lock files.
 */
#include "lanes/door/listen.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

enum { LOCK_TRIES = 16 };

static bool host_is_loopback(const char *host) {
    struct in_addr v4;
    struct in6_addr v6;
    if (strcmp(host, "localhost") == 0)
        return true;
    if (inet_pton(AF_INET, host, &v4) == 1)
        return ntohl(v4.s_addr) >> 24 == 127;
    return inet_pton(AF_INET6, host, &v6) == 1 && IN6_IS_ADDR_LOOPBACK(&v6);
}

static enum status parse_tcp(const char *url, const char *rest, struct status_note *note) {
    char host[DOOR_URL_MAX];
    const char *colon = strrchr(rest, ':');
    char *end;
    if (colon == NULL || colon == rest)
        return status_say(note, STATUS_BAD_REQUEST, "%s: must be tcp://HOST:PORT", url);
    size_t n = (size_t)(colon - rest);
    const char *from = rest;
    if (rest[0] == '[' && colon[-1] == ']') {
        from++;
        n -= 2;
    }
    memcpy(host, from, n);
    host[n] = 0;
    long port = strtol(colon + 1, &end, 10);
    if (colon[1] < '0' || colon[1] > '9' || *end != 0 || port > 65535)
        return status_say(note, STATUS_BAD_REQUEST, "%s: the port must be a number up to 65535",
                          url);
    if (!host_is_loopback(host))
        return status_say(note, STATUS_UNSUPPORTED,
                          "%s: listening beyond this machine needs TLS or a key, which this build "
                          "does not have; use tcp://127.0.0.1:PORT or ipc:///PATH",
                          url);
    return STATUS_OK;
}

enum status door_address_parse(const char *url, struct door_address *out,
                               struct status_note *note) {
    *out = (struct door_address){.lock = -1};
    if (strlen(url) >= sizeof out->url)
        return status_say(note, STATUS_BAD_REQUEST, "%.40s...: an address has at most %d bytes",
                          url, DOOR_URL_MAX - 1);
    snprintf(out->url, sizeof out->url, "%s", url);
    if (strncmp(url, "tcp://", 6) == 0)
        return parse_tcp(url, url + 6, note);
    if (strncmp(url, "ipc://", 6) == 0) {
        if (url[6] == 0)
            return status_say(note, STATUS_BAD_REQUEST, "%s: must be ipc://PATH", url);
        /* The lock file's name is longer than the socket's, but only the socket's is bounded. */
        if (strlen(url + 6) >= sizeof((struct sockaddr_un *)0)->sun_path)
            return status_say(note, STATUS_BAD_REQUEST, "%s: the path is longer than %zu bytes",
                              url, sizeof((struct sockaddr_un *)0)->sun_path - 1);
        snprintf(out->path, sizeof out->path, "%s", url + 6);
        return STATUS_OK;
    }
    return status_say(note, strstr(url, "://") == NULL ? STATUS_BAD_REQUEST : STATUS_UNSUPPORTED,
                      "%s: only ipc://PATH and tcp:// on a loopback address can be listened on",
                      url);
}

static enum status lock_taken(int fd, const char *path, struct status_note *note) {
    char pid[24] = "";
    ssize_t n = pread(fd, pid, sizeof pid - 1, 0);
    pid[n > 0 ? n : 0] = 0;
    pid[strcspn(pid, "\n")] = 0;
    close(fd);
    return status_say(note, STATUS_DUPLICATE, "%s is served by process %s already", path,
                      pid[0] != 0 ? pid : "(starting)");
}

enum status door_address_lock(struct door_address *a, struct status_note *note) {
    char name[DOOR_URL_MAX + 8], text[24];
    struct stat here, there;
    if (a->path[0] == 0)
        return STATUS_OK;
    snprintf(name, sizeof name, "%s.lock", a->path);
    for (int i = 0; i < LOCK_TRIES; i++) {
        int fd = open(name, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
        if (fd < 0)
            return status_say(note, STATUS_IO, "%s: %s", name, strerror(errno));
        if (flock(fd, LOCK_EX | LOCK_NB) != 0)
            return lock_taken(fd, a->path, note);
        /* The holder before us may have removed the file between our open and our lock. */
        if (fstat(fd, &here) != 0 || stat(name, &there) != 0 || here.st_ino != there.st_ino) {
            close(fd);
            continue;
        }
        int n = snprintf(text, sizeof text, "%ld\n", (long)getpid());
        if (ftruncate(fd, 0) != 0 || pwrite(fd, text, (size_t)n, 0) != n) {
            close(fd);
            return status_say(note, STATUS_IO, "%s: %s", name, strerror(errno));
        }
        a->lock = fd;
        if (lstat(a->path, &there) == 0) {
            if (!S_ISSOCK(there.st_mode)) {
                door_address_unlock(a);
                return status_say(note, STATUS_IO, "%s is there and is not a socket", a->path);
            }
            unlink(a->path);
        }
        return STATUS_OK;
    }
    return status_say(note, STATUS_AGAIN, "%s: changed hands too often", name);
}

void door_address_unlock(struct door_address *a) {
    char name[DOOR_URL_MAX + 8];
    if (a->lock < 0)
        return;
    snprintf(name, sizeof name, "%s.lock", a->path);
    unlink(name);
    close(a->lock);
    a->lock = -1;
}
