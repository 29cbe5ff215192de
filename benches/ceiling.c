/* The physical limit: an HTTP server that parses nothing.
 *
 * It receives, counts bytes, and sends responses that it prepared in memory before the first
 * connection. Its cost is the kernel's cost of the same exchange with epoll; a real server's
 * additional cost is its own.
 *
 * It counts requests by length: every request of a workload has the length given on the command
 * line. The number of requests is the number of bytes received divided by that length; a remainder
 * waits for the rest. It inspects no byte, except with -t, where the byte at that offset of each
 * request ('0', '1', ...) chooses the file.
 *
 *   usage: ceiling [-c] [-k] [-p BYTES] [-s BYTES] [-t OFFSET] PORT REQUEST_BYTES FILE...
 *     -c         close the connection after each response
 *     -k         hold back segments of files that are not full (TCP_CORK)
 *     -p BYTES   send files through a pipe of this length with splice, instead of with sendfile
 *     -s BYTES   send files of at least this size from the file (default: never)
 *     -t OFFSET  choose the file by the byte at this offset of each request
 *
 * The loop is the cheapest known: it receives right after accept, sends at once, makes no second
 * receive after a short one, and registers a connection with epoll once, when it must wait.
 *
 *           accept
 *             |                  more bytes
 *             v              +---------------+
 *         RECEIVING ------> ANSWERING -------+-----> PARKED (epoll, edge-triggered)
 *             |  ^                |                    |
 *        EOF  |  +--- all sent ---+  would block       |
 *             v                   +------------------> |
 *           CLOSED <---- -c: all sent          readiness: back to where it left
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    FILES_MAX = 8,
    DESCRIPTORS_MAX = 65536,
    EVENTS_MAX = 512,
    INPUT_BYTES = 16 * 1024,
    OUTPUT_BYTES = 32 * 1024, /* limit on joined responses to pipelined requests */
    QUEUE_MAX = 64,           /* requests kept while a connection is blocked */
};

struct answer {
    char *bytes;     /* head and body */
    size_t one;      /* length of `bytes` */
    size_t joined;   /* limit on copies joined into one send */
    int file;        /* -1: all of it is in `bytes`; otherwise `bytes` is the head only */
    size_t file_len;
};

/* All zeros unless the connection is blocked. */
struct connection {
    uint32_t partial;        /* bytes of an incomplete request */
    uint16_t queued;         /* responses still to send, the first perhaps partly sent */
    uint8_t queue[QUEUE_MAX]; /* file of each response */
    bool registered;
    size_t sent;             /* bytes sent of the first queued response (or joined responses) */
};

static struct answer answers[FILES_MAX];
static struct connection *connections[DESCRIPTORS_MAX];
static char input[INPUT_BYTES], output[OUTPUT_BYTES];
static size_t request_len, select_at = SIZE_MAX, sendfile_from = SIZE_MAX;
static bool close_each, corks;
static size_t pipe_len;
static int epoll_fd, pipe_ends[2] = {-1, -1};

static void fail(const char *what) {
    fprintf(stderr, "ceiling: %s: %s\n", what, strerror(errno));
    exit(4);
}

static void load(struct answer *a, const char *path) {
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    struct stat st;
    if (fd < 0 || fstat(fd, &st) < 0) fail(path);
    size_t body = (size_t)st.st_size;
    char head[512];
    /* The fields, and about the length, of the other servers' responses. */
    int head_len = snprintf(head, sizeof head,
        "HTTP/1.1 200 OK\r\nServer: ceiling\r\nDate: Thu, 01 Jan 1970 00:00:00 GMT\r\n"
        "Content-Type: text/html\r\nContent-Length: %zu\r\n"
        "Last-Modified: Thu, 01 Jan 1970 00:00:00 GMT\r\nConnection: %s\r\n"
        "ETag: \"00000000-400\"\r\nAccept-Ranges: bytes\r\n\r\n",
        body, close_each ? "close" : "keep-alive");
    bool from_file = body >= sendfile_from;
    a->one = (size_t)head_len + (from_file ? 0 : body);
    a->joined = from_file || a->one > OUTPUT_BYTES ? 1 : OUTPUT_BYTES / a->one;
    a->bytes = malloc(a->one);
    if (!a->bytes) fail("malloc");
    memcpy(a->bytes, head, (size_t)head_len);
    a->file = -1;
    if (from_file) {
        a->file = fd;
        a->file_len = body;
    } else {
        for (size_t have = 0; have < body;) {
            ssize_t n = read(fd, a->bytes + head_len + have, body - have);
            if (n <= 0) fail(path);
            have += (size_t)n;
        }
        close(fd);
    }
}

static void drop(int fd) {
    free(connections[fd]);
    connections[fd] = NULL;
    close(fd);
}

static void park(int fd, struct connection *c) {
    if (c->registered) return;
    struct epoll_event e = {.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET, .data.fd = fd};
    if (epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &e) < 0) fail("epoll_ctl");
    c->registered = true;
}

static void cork(int fd, int on) {
    if (corks) setsockopt(fd, IPPROTO_TCP, TCP_CORK, &on, sizeof on);
}

/* Sends bytes of a file, through the pipe if there is one. What the socket does not take is dropped with the pipe. */
static ssize_t send_file(int fd, const struct answer *a, off_t at, size_t left) {
    if (!pipe_len) return sendfile(fd, a->file, &at, left);
    if (pipe_ends[0] < 0) {
        if (pipe2(pipe_ends, O_NONBLOCK | O_CLOEXEC) < 0) fail("pipe2");
        if (fcntl(pipe_ends[1], F_SETPIPE_SZ, (int)pipe_len) < 0) fail("F_SETPIPE_SZ");
    }
    ssize_t held = splice(a->file, &at, pipe_ends[1], NULL, left < pipe_len ? left : pipe_len, SPLICE_F_NONBLOCK);
    if (held < 0) return held;
    ssize_t n = splice(pipe_ends[0], NULL, fd, NULL, (size_t)held, SPLICE_F_NONBLOCK);
    if (n < held) {
        int why = errno;
        close(pipe_ends[0]);
        close(pipe_ends[1]);
        pipe_ends[0] = -1;
        errno = why;
    }
    return n;
}

enum progress { ALL_SENT, BLOCKED, GONE };

/* Sends the queued responses. A single response is sent from its place; several in memory are copied
 * together and sent at once. */
static enum progress answer(int fd, struct connection *c) {
    size_t first = 0;
    while (first < c->queued) {
        const struct answer *a = &answers[c->queue[first]];
        size_t run = 1;
        while (run < a->joined && first + run < c->queued && c->queue[first + run] == c->queue[first]) run++;
        const char *from = a->bytes;
        if (run > 1) {
            for (size_t i = 0; i < run; i++) memcpy(output + i * a->one, a->bytes, a->one);
            from = output;
        }
        size_t in_memory = a->one * run, total = in_memory + (a->file >= 0 ? a->file_len : 0);
        if (a->file >= 0 && c->sent == 0) cork(fd, 1);
        while (c->sent < total) {
            ssize_t n;
            if (c->sent < in_memory) {
                n = send(fd, from + c->sent, in_memory - c->sent,
                         MSG_NOSIGNAL | (a->file >= 0 ? MSG_MORE : 0));
            } else {
                n = send_file(fd, a, (off_t)(c->sent - in_memory), total - c->sent);
            }
            if (n < 0) {
                if (errno != EAGAIN) return GONE;
                /* Remove completely sent responses from the queue; the rest is joined again later. */
                if (a->file < 0) { first += c->sent / a->one; c->sent %= a->one; }
                memmove(c->queue, c->queue + first, c->queued - first);
                c->queued = (uint16_t)(c->queued - first);
                return BLOCKED;
            }
            c->sent += (size_t)n;
        }
        if (a->file >= 0) cork(fd, 0);
        c->sent = 0;
        first += run;
    }
    c->queued = 0;
    return ALL_SENT;
}

/* Serves a connection until it would block. */
static void run(int fd, struct connection *c) {
    for (;;) {
        switch (answer(fd, c)) {
        case GONE: drop(fd); return;
        case BLOCKED: park(fd, c); return;
        case ALL_SENT: break;
        }
        /* Receive no more requests than the queue can hold. */
        size_t room = request_len * QUEUE_MAX - c->partial;
        if (room > sizeof input) room = sizeof input;
        ssize_t n = recv(fd, input, room, 0);
        if (n < 0 && errno == EAGAIN) { park(fd, c); return; }
        if (n <= 0) { drop(fd); return; }
        size_t have = c->partial + (size_t)n, requests = have / request_len;
        for (size_t i = 0; i < requests; i++) {
            if (select_at == SIZE_MAX) { c->queue[i] = 0; continue; }
            size_t at = i * request_len + select_at;
            if (at < c->partial) { errno = EPROTO; fail("a request came in pieces: -t cannot choose"); }
            c->queue[i] = (uint8_t)((input[at - c->partial] - '0') & (FILES_MAX - 1));
        }
        c->partial = (uint32_t)(have % request_len);
        c->queued = (uint16_t)requests;
        bool drained = (size_t)n < room;
        switch (answer(fd, c)) {
        case GONE: drop(fd); return;
        case BLOCKED: park(fd, c); return;
        case ALL_SENT: break;
        }
        if (close_each && requests) { drop(fd); return; }
        if (drained) { park(fd, c); return; }
    }
}

static void accept_all(int listener) {
    for (;;) {
        int fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd < 0) return;
        if (fd >= DESCRIPTORS_MAX) { close(fd); return; }
        struct connection *c = connections[fd] = calloc(1, sizeof *c);
        if (!c) fail("calloc");
        run(fd, c);
    }
}

int main(int argc, char **argv) {
    for (int o; (o = getopt(argc, argv, "ckp:s:t:")) != -1;) {
        if (o == 'c') close_each = true;
        else if (o == 'k') corks = true;
        else if (o == 'p') pipe_len = strtoull(optarg, NULL, 10);
        else if (o == 's') sendfile_from = strtoull(optarg, NULL, 10);
        else if (o == 't') select_at = strtoull(optarg, NULL, 10);
        else return 2;
    }
    int files = argc - optind - 2;
    if (files < 1 || files > FILES_MAX) {
        fprintf(stderr, "usage: ceiling [-c] [-k] [-p BYTES] [-s BYTES] [-t OFFSET] PORT REQUEST_BYTES FILE...\n");
        return 2;
    }
    int port = atoi(argv[optind]);
    request_len = strtoull(argv[optind + 1], NULL, 10);
    if (port <= 0 || request_len == 0 || (select_at != SIZE_MAX && select_at >= request_len)) {
        fprintf(stderr, "ceiling: the port, the length of a request and -t must fit each other\n");
        return 2;
    }
    for (int i = 0; i < FILES_MAX; i++) load(&answers[i], argv[optind + 2 + i % files]);
    signal(SIGPIPE, SIG_IGN); /* sendfile has no MSG_NOSIGNAL */
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        limit.rlim_cur = limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit);
    }
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), one = 1;
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    setsockopt(listener, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one); /* inherited by accept */
    setsockopt(listener, IPPROTO_TCP, TCP_DEFER_ACCEPT, &one, sizeof one);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (bind(listener, (struct sockaddr *)&address, sizeof address) < 0) fail("bind");
    if (listen(listener, 4096) < 0) fail("listen");
    epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    struct epoll_event e = {.events = EPOLLIN, .data.fd = listener}, ready[EVENTS_MAX];
    if (epoll_fd < 0 || epoll_ctl(epoll_fd, EPOLL_CTL_ADD, listener, &e) < 0) fail("epoll");
    for (;;) {
        int n = epoll_wait(epoll_fd, ready, EVENTS_MAX, -1);
        if (n < 0 && errno != EINTR) fail("epoll_wait");
        for (int i = 0; i < n; i++) {
            int fd = ready[i].data.fd;
            if (fd == listener) { accept_all(listener); continue; }
            struct connection *c = connections[fd];
            /* The registration reports room to send, which is not news for an idle connection. */
            if (c && (c->queued || ready[i].events & ~(unsigned)EPOLLOUT)) run(fd, c);
        }
    }
}
