"""Server and client of Heidemann, "Performance Interactions Between P-HTTP and TCP Implementations" (1997), on today's
sockets.

    phttp.py serve PORT [--separate-headers] [--no-delay] [--close] [--pace] [--report FILE]
    phttp.py pages ADDRESS PORT PAGES [--close]      the three documents, one after the other; milliseconds per page
    phttp.py resume ADDRESS PORT PAUSE               40,000 bytes, a pause, 40,000 bytes again; seconds of the second

The server writes as Apache 1.1b4 did according to the paper: header and body in calls of 4,096 bytes or, before the
paper's first fix, the header in a separate call. `--pace` is the paper's proposal for an idle connection: n segments
seen in time t are sent t/n apart until the first acknowledgment can be back. Decides nothing about the network in
between.
"""

import argparse
import json
import socket
import struct
import sys
import time

DOCUMENTS = [6_651, 3_883, 1_866]
RESUMED = 40_000
HEADER, CALL = 226, 4_096
BUFFER = 32_768
PAUSE_BETWEEN_PAGES_S = 0.005
IDLE_S = 1.0
SO_MAX_PACING_RATE = 47
UNPACED = 2**32 - 1
# A longer wait within a response is a timer's: no path here explains it.
STALL_S = 0.1


def tcp_info(s):
    """State of a connection: segment size, smoothed round-trip time in s, congestion window in segments,
    retransmitted segments.
    """
    words = struct.unpack("=8B24I", s.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 104))[8:]
    return {"mss": words[2], "rtt_s": words[15] / 1e6, "cwnd": words[18], "repeated": words[23]}


def pace(s, bytes_per_s):
    s.setsockopt(socket.SOL_SOCKET, SO_MAX_PACING_RATE, struct.pack("=I", min(int(bytes_per_s), UNPACED)))


def reply(length, close):
    """A response whose header has the paper's 226 bytes."""
    head = (f"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: {length}\r\n"
            f"Connection: {'close' if close else 'keep-alive'}\r\nX-Pad: ")
    return (head + "p" * (HEADER - len(head) - 4) + "\r\n\r\n").encode() + b"b" * length


def serve(a):
    with socket.create_server(("0.0.0.0", a.port), backlog=64) as listener:
        while True:
            s, _ = listener.accept()
            with s:
                converse(s, a)


def converse(s, a):
    """Serves one connection until it ends."""
    s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, a.no_delay)
    s.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 8 * BUFFER)
    answered, seen = time.monotonic(), {}
    while request := s.recv(4096):
        was_idle = time.monotonic() - answered > IDLE_S
        before = tcp_info(s)
        if was_idle and a.pace:
            pace(s, before["cwnd"] * before["mss"] / before["rtt_s"])
        out = reply(int(request.split()[1][1:]), a.close)
        begin = HEADER if a.separate_headers else 0
        if begin:
            s.sendall(out[:begin])
        for at in range(begin, len(out), CALL):
            s.sendall(out[at:at + CALL])
        if was_idle:
            seen = {"before": before["cwnd"], "after": tcp_info(s)["cwnd"], "repeated": before["repeated"]}
            if a.pace:
                time.sleep(before["rtt_s"])
                pace(s, UNPACED)
        answered = time.monotonic()
        if a.close:
            break
    if seen and a.report:
        seen["repeated"] = tcp_info(s)["repeated"] - seen["repeated"]
        with open(a.report, "w") as f:
            json.dump(seen, f)


def connected(a, buffer=None):
    s = socket.socket()
    s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if buffer:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
    s.connect((a.address, a.port))
    return s


def ask(s, length):
    """Sends a request and reads the whole response; returns the places in it where it stalled, in bytes. The client
    acknowledges at once: only the link delays acknowledgments, if anything does.
    """
    s.sendall(f"GET /{length} HTTP/1.1\r\nHost: a\r\n\r\n".encode())
    left, stalls = HEADER + length, []
    while left:
        s.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)
        began = time.monotonic()
        piece = s.recv(65536)
        if not piece:
            raise OSError(f"closed with {left} bytes to come")
        if time.monotonic() - began > STALL_S:
            stalls.append(HEADER + length - left)
        left -= len(piece)
    return stalls


def pages(a):
    took, stalls = [], {}
    for _ in range(a.pages):
        began, s = time.monotonic(), None
        for length in DOCUMENTS:
            s = s or connected(a)
            for at in ask(s, length):
                place = f"{length:,} at {at:,}"
                stalls[place] = stalls.get(place, 0) + 1
            if a.close:
                s.close()
                s = None
        took.append((time.monotonic() - began) * 1e3)
        if s:
            s.close()
        time.sleep(PAUSE_BETWEEN_PAGES_S)
    print(json.dumps({"pages_ms": took, "stalls": stalls}))


def resume(a):
    with connected(a, BUFFER) as s:
        ask(s, RESUMED)
        time.sleep(a.pause)
        began = time.monotonic()
        ask(s, RESUMED)
        print(json.dumps({"seconds": time.monotonic() - began}))


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = p.add_subparsers(required=True)
    one = commands.add_parser("serve")
    one.add_argument("port", type=int)
    for flag in ("--separate-headers", "--no-delay", "--close", "--pace"):
        one.add_argument(flag, action="store_true")
    one.add_argument("--report")
    one.set_defaults(run=serve)
    one = commands.add_parser("pages")
    one.add_argument("address")
    one.add_argument("port", type=int)
    one.add_argument("pages", type=int)
    one.add_argument("--close", action="store_true")
    one.set_defaults(run=pages)
    one = commands.add_parser("resume")
    one.add_argument("address")
    one.add_argument("port", type=int)
    one.add_argument("pause", type=float)
    one.set_defaults(run=resume)
    a = p.parse_args()
    a.run(a)


if __name__ == "__main__":
    sys.exit(main())
