/* A client that keeps up with large responses: it drops bodies in the kernel.
 *
 * One thread sends the same request on N persistent connections, one at a time on each. It parses the head of each
 * response: status, Content-Length and `Connection: close`. It receives the body with MSG_TRUNC, which takes bytes from
 * a TCP socket without copying them (tcp(7)). A client that copies bodies is busier than a server that sends them
 * with sendfile, and then the server waits for the client. benches/bench/servers.py compares the bodies before.
 *
 *   usage: drain PORT CONNECTIONS SECONDS REQUEST
 *     REQUEST  file with the bytes of one request
 *
 * It prints one line in the form of benches/client.lua: `RESULT {...}`. `requests` counts complete responses, `bytes`
 * all bytes received. Errors:
 *
 *   connect  a connection could not be opened; it stays closed
 *   read     the server ended a connection within a response, or sent a head without Content-Length, a head above
 *            HEAD_BYTES or more than one response; the connection is opened anew
 *   write    a request could not be sent; the connection stays closed
 *   status   a status other than 200
 *   timeout  a response took, or at the end has taken, longer than TIMEOUT_US
 *
 *      open --> ask --> HEAD (left == 0) --> BODY (left > 0) --> complete --> ask
 *       ^                     | read error       |                  | Connection: close
 *       +---------------------+------------------+------------------+
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum {
    CONNECTIONS_MAX = 10000,
    EVENTS_MAX = 512,
    HEAD_BYTES = 2048, /* a part of the body that arrives with the head is copied up to here */
    REQUEST_BYTES = 16 * 1024,
    SINK_BYTES = 4 * 1024 * 1024, /* most that one receive drops */
    TIMEOUT_US = 10 * 1000 * 1000,
};

struct connection {
    int fd;           /* -1: closed for good */
    bool last;        /* the server closes after this response */
    size_t have;      /* bytes of the head so far */
    uint64_t left;    /* bytes of the body still to come */
    uint64_t sent_us; /* when the request was sent */
    char head[HEAD_BYTES + 1];
};

static struct { uint64_t connect, read, write, status, timeout; } errors;
static uint64_t requests, bytes, latency_max;
static uint32_t latencies[TIMEOUT_US + 1]; /* count for each microsecond; the last also for longer ones */
static char request[REQUEST_BYTES], sink[SINK_BYTES]; /* MSG_TRUNC never touches the pages of sink */
static size_t request_len;
static struct sockaddr_in server = {.sin_family = AF_INET};
static int epoll_fd;

static void fail(const char *what) {
    fprintf(stderr, "drain: %s: %s\n", what, strerror(errno));
    exit(4);
}

static uint64_t now_us(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_nsec / 1000;
}

static void ask(struct connection *c) {
    c->left = c->have = 0;
    c->sent_us = now_us();
    if (send(c->fd, request, request_len, MSG_NOSIGNAL | MSG_DONTWAIT) == (ssize_t)request_len) return;
    errors.write++;
    close(c->fd);
    c->fd = -1;
}

static void open_connection(struct connection *c) {
    struct epoll_event e = {.events = EPOLLIN, .data.ptr = c};
    c->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (c->fd < 0) fail("socket");
    if (connect(c->fd, (struct sockaddr *)&server, sizeof server) < 0) {
        errors.connect++;
        close(c->fd);
        c->fd = -1;
        return;
    }
    if (epoll_ctl(epoll_fd, EPOLL_CTL_ADD, c->fd, &e) < 0) fail("epoll_ctl");
    ask(c);
}

static void open_again(struct connection *c) {
    close(c->fd);
    open_connection(c);
}

static void complete(struct connection *c) {
    uint64_t took = now_us() - c->sent_us;
    if (took > TIMEOUT_US) errors.timeout++;
    if (took > latency_max) latency_max = took;
    latencies[took < TIMEOUT_US ? took : TIMEOUT_US]++;
    requests++;
    if (c->last) open_again(c);
    else ask(c);
}

/* Parses the head once it is complete. Returns false if the connection is of no more use. */
static bool parse(struct connection *c) {
    char *end = memmem(c->head, c->have, "\r\n\r\n", 4);
    if (!end) return c->have < HEAD_BYTES;
    size_t body = c->have - (size_t)(end + 4 - c->head);
    end[2] = 0; /* every field line still ends with CRLF */
    char *length = strcasestr(c->head, "\r\ncontent-length:");
    if (!length) return false;
    length += strlen("\r\ncontent-length:");
    while (*length == ' ') length++;
    if (!isdigit((unsigned char)*length)) return false;
    uint64_t all = strtoull(length, NULL, 10);
    if (body > all) return false;
    if (strncmp(c->head, "HTTP/1.1 200 ", 13) != 0) errors.status++;
    c->last = strcasestr(c->head, "\r\nconnection: close\r\n") != NULL;
    c->left = all - body;
    if (c->left == 0) complete(c);
    return true;
}

/* Receives what has arrived. A receive that gets less than it asks for is the last: epoll reports the rest. */
static void take(struct connection *c) {
    for (;;) {
        bool in_body = c->left > 0;
        size_t wanted = in_body ? (c->left < SINK_BYTES ? c->left : SINK_BYTES) : HEAD_BYTES - c->have;
        ssize_t n = in_body ? recv(c->fd, sink, wanted, MSG_DONTWAIT | MSG_TRUNC)
                            : recv(c->fd, c->head + c->have, wanted, MSG_DONTWAIT);
        if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
        if (n <= 0) { errors.read++; open_again(c); return; }
        bytes += (uint64_t)n;
        if (in_body) {
            c->left -= (uint64_t)n;
            if (c->left == 0) { complete(c); return; }
        } else {
            c->have += (size_t)n;
            if (!parse(c)) { errors.read++; open_again(c); return; }
        }
        if ((size_t)n < wanted || c->left == 0) return;
    }
}

static uint64_t percentile(uint64_t percent) {
    uint64_t wanted = (requests * percent + 99) / 100, seen = 0;
    for (uint64_t us = 0; us < TIMEOUT_US && us < latency_max; us++) {
        seen += latencies[us];
        if (seen > 0 && seen >= wanted) return us;
    }
    return latency_max;
}

int main(int argc, char **argv) {
    int port = argc == 5 ? atoi(argv[1]) : 0, count = argc == 5 ? atoi(argv[2]) : 0;
    double seconds = argc == 5 ? strtod(argv[3], NULL) : 0;
    if (port <= 0 || port > 65535 || count <= 0 || count > CONNECTIONS_MAX || !(seconds > 0 && seconds <= 86400)) {
        fprintf(stderr, "usage: drain PORT CONNECTIONS SECONDS REQUEST\n");
        return 2;
    }
    FILE *file = fopen(argv[4], "rb");
    if (!file) fail(argv[4]);
    request_len = fread(request, 1, sizeof request, file);
    if (request_len == 0 || request_len == sizeof request) { errno = EFBIG; fail(argv[4]); }
    fclose(file);
    server.sin_port = htons((uint16_t)port);
    server.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    struct epoll_event ready[EVENTS_MAX];
    struct connection *connections = calloc((size_t)count, sizeof *connections);
    epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (!connections || epoll_fd < 0) fail("start");
    uint64_t began = now_us(), end = began + (uint64_t)(seconds * 1e6), now;
    for (int i = 0; i < count; i++) open_connection(&connections[i]);
    while ((now = now_us()) < end) {
        int n = epoll_wait(epoll_fd, ready, EVENTS_MAX, (int)((end - now) / 1000) + 1);
        if (n < 0 && errno != EINTR) fail("epoll_wait");
        for (int i = 0; i < n; i++) take(ready[i].data.ptr);
    }
    for (int i = 0; i < count; i++)
        if (connections[i].fd >= 0 && now - connections[i].sent_us > TIMEOUT_US) errors.timeout++;
    printf("RESULT {\"requests\":%ju,\"bytes\":%ju,\"duration_us\":%ju,\"p50_us\":%ju,\"p90_us\":%ju,\"p99_us\":%ju,"
           "\"max_us\":%ju,\"latency_as_measured\":true,\"errors\":{\"connect\":%ju,\"read\":%ju,\"write\":%ju,"
           "\"status\":%ju,\"timeout\":%ju}}\n",
           requests, bytes, now - began, percentile(50), percentile(90), percentile(99), latency_max, errors.connect,
           errors.read, errors.write, errors.status, errors.timeout);
    return 0;
}
