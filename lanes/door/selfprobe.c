/* SPDX-License-Identifier: Apache-2.0
 * The wire of one request over ipc, by hand: 8 bytes of handshake each way, then frames of a 1, a
 * 64-bit length, the request's number and the body. By hand, because a client library would retry,
 * and this must not.
 */
#include "lanes/door/selfprobe.h"

#include <dirent.h>
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "actors/port.h"

enum { REPLY_MAX = 512, FRAME_HEAD = 9, ID_BYTES = 4 };

static int64_t now_ms(void) {
    return (int64_t)(act_port_now_ns() / 1000000);
}

/* Exactly n bytes in or out before the deadline. */
static bool move(int fd, unsigned char *bytes, size_t n, bool out, int64_t until_ms) {
    for (size_t done = 0; done < n;) {
        struct pollfd p = {.fd = fd, .events = out ? POLLOUT : POLLIN};
        int64_t left = until_ms - now_ms();
        if (left <= 0)
            return false;
        int ready = poll(&p, 1, (int)left);
        if (ready < 0 && errno == EINTR)
            continue;
        if (ready <= 0)
            return false;
        ssize_t k = out ? send(fd, bytes + done, n - done, MSG_NOSIGNAL)
                        : recv(fd, bytes + done, n - done, 0);
        if (k < 0 && (errno == EAGAIN || errno == EINTR))
            continue;
        if (k <= 0)
            return false;
        done += (size_t)k;
    }
    return true;
}

static bool ask(int fd, int64_t until_ms) {
    static const char body[] = "{\"cmd\":\"ping\"}";
    unsigned char hello[8] = {0, 'S', 'P', 0, 0, 0x30, 0, 0};
    unsigned char request[FRAME_HEAD + ID_BYTES + sizeof body - 1] = {1};
    unsigned char reply[REPLY_MAX];
    request[FRAME_HEAD - 1] = ID_BYTES + sizeof body - 1;
    request[FRAME_HEAD] = 0x80;
    request[FRAME_HEAD + ID_BYTES - 1] = 1;
    memcpy(request + FRAME_HEAD + ID_BYTES, body, sizeof body - 1);
    if (!move(fd, hello, sizeof hello, true, until_ms) ||
        !move(fd, hello, sizeof hello, false, until_ms) ||
        !move(fd, request, sizeof request, true, until_ms) ||
        !move(fd, reply, FRAME_HEAD, false, until_ms))
        return false;
    uint64_t n = 0;
    for (int i = 1; i < FRAME_HEAD; i++)
        n = n << 8 | reply[i];
    return reply[0] == 1 && n > ID_BYTES && n <= sizeof reply &&
           move(fd, reply, (size_t)n, false, until_ms) &&
           memcmp(reply, request + FRAME_HEAD, 4) == 0;
}

bool door_probe_ipc(const char *path, uint32_t deadline_ms) {
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    int64_t until = now_ms() + deadline_ms;
    if (strlen(path) >= sizeof a.sun_path)
        return false;
    strcpy(a.sun_path, path);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return true; /* out of descriptors: that says nothing about the listener */
    /* A full backlog fails at once here; a listener that accepts nothing fills it. */
    bool ok = connect(fd, (const struct sockaddr *)&a, sizeof a) == 0 && ask(fd, until);
    close(fd);
    return ok;
}

void door_probe_hang_up(const char *path) {
    DIR *fds = opendir("/proc/self/fd");
    if (fds == NULL)
        return;
    for (const struct dirent *e = readdir(fds); e != NULL; e = readdir(fds)) {
        struct sockaddr_un a = {.sun_family = AF_UNSPEC};
        socklen_t n = sizeof a, n_listens = sizeof(int);
        int fd = atoi(e->d_name), listens = 1;
        if (getsockname(fd, (struct sockaddr *)&a, &n) == 0 && a.sun_family == AF_UNIX &&
            strncmp(a.sun_path, path, sizeof a.sun_path) == 0 &&
            getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &n_listens) == 0 && listens == 0)
            shutdown(fd, SHUT_RDWR);
    }
    closedir(fds);
}
