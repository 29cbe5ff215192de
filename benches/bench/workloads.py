"""The workloads: files, rows, the exact bytes of every request, and the targets.

A row is one line of the table. Everything is deterministic: the same seed gives the same files and request sequence on
any machine. Starts and measures nothing.
"""

import os
import random
from dataclasses import dataclass

SEED = 20_260_101
KIB = 1024

# Path in the document root -> length. The names of the WebStone files differ in one byte, so that all requests of the
# mix have one length (the ceiling counts requests by their length).
FILES = {
    "1k.html": KIB,
    "1k.jpg": KIB,
    "1m.bin": KIB * KIB,
    "w/0.bin": 512,
    "w/1.bin": 5 * KIB,
    "w/2.bin": 50 * KIB,
    "w/3.bin": 5 * KIB * KIB,
}
# Number of requests for each WebStone file among 100.
WEBSTONE_MIX = {"w/0.bin": 35, "w/1.bin": 50, "w/2.bin": 14, "w/3.bin": 1}
WEBSTONE_HUNDREDS = 40
WEBSTONE_SELECTS_AT = len("GET /w/")

# Header fields of a desktop browser's request for an image of a page.
BROWSER_FIELDS = (
    "Connection: keep-alive\r\n"
    'sec-ch-ua: "Chromium";v="130", "Not?A_Brand";v="99"\r\n'
    "sec-ch-ua-mobile: ?0\r\n"
    "User-Agent: Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/130.0.0.0 Safari/537.36\r\n"
    'sec-ch-ua-platform: "Linux"\r\n'
    "Accept: image/avif,image/webp,image/apng,image/svg+xml,image/*,*/*;q=0.8\r\n"
    "Sec-Fetch-Site: same-origin\r\n"
    "Sec-Fetch-Mode: no-cors\r\n"
    "Sec-Fetch-Dest: image\r\n"
    "Referer: http://127.0.0.1/1k.html\r\n"
    "Accept-Encoding: gzip, deflate, br, zstd\r\n"
    "Accept-Language: en-US,en;q=0.9\r\n"
)


@dataclass(frozen=True)
class Row:
    """One line of the table."""

    name: str
    title: str
    files: tuple
    connections: int
    depth: int = 1
    fields: str = ""
    log: bool = False
    idle: bool = False
    default: bool = True

    @property
    def close(self):
        return "close" in self.fields

    @property
    def mixed(self):
        return len(self.files) > 1

    def request(self, file):
        """The exact bytes of one request."""
        return f"GET /{file} HTTP/1.1\r\nHost: 127.0.0.1\r\n{self.fields}\r\n".encode()

    @property
    def request_len(self):
        lengths = {len(self.request(file)) for file in self.files}
        assert len(lengths) == 1, "requests of one row have one length"
        return lengths.pop()

    def script(self):
        """The bytes that the client repeats: one pipeline of requests, or the whole mix in order."""
        if not self.mixed:
            return self.request(self.files[0]) * self.depth
        hundred = [file for file, times in WEBSTONE_MIX.items() for _ in range(times)]
        chance = random.Random(SEED)
        order = []
        for _ in range(WEBSTONE_HUNDREDS):
            chance.shuffle(hundred)
            order += hundred
        return b"".join(self.request(file) for file in order)

    def mean_body(self):
        """Mean length of the requested bodies in bytes."""
        if not self.mixed:
            return FILES[self.files[0]]
        return sum(FILES[file] * times for file, times in WEBSTONE_MIX.items()) / 100


ONE_KIB = ("1k.html",)
ROWS = [
    Row("keepalive-1", "1 KiB keep-alive, 1 connection", ONE_KIB, 1),
    Row("keepalive-64", "1 KiB keep-alive, 64 connections", ONE_KIB, 64),
    Row("keepalive-1000", "1 KiB keep-alive, 1,000 connections", ONE_KIB, 1000),
    Row("webstone", "WebStone mix 512 B/5 KB/50 KB/5 MB at 35/50/14/1 %, 64 connections", tuple(WEBSTONE_MIX), 64),
    Row("pipelined", "1 KiB pipelined 16 deep, 64 connections", ONE_KIB, 64, depth=16),
    Row("large", "1 MiB, 16 connections", ("1m.bin",), 16),
    Row("connection-each", "1 KiB, a connection per request, 64 at a time", ONE_KIB, 64, fields="Connection: close\r\n"),
    Row("logged", "1 KiB keep-alive, 64 connections, access log (combined)", ONE_KIB, 64, log=True),
    Row("idle", "10,000 idle connections", ONE_KIB, 10_000, idle=True),
    Row("browser", "1 KiB keep-alive, 64 connections, a browser's head", ("1k.jpg",), 64, fields=BROWSER_FIELDS,
        default=False),
]
BY_NAME = {row.name: row for row in ROWS}
SMOKE_ROWS = ["keepalive-64", "webstone", "pipelined", "connection-each", "idle"]


@dataclass(frozen=True)
class Target:
    """`weir` over `peer` in this row: at most (for throughput, at least) `bound`."""

    row: str
    peer: str
    bound: float
    measure: str = "cpu"

    def met(self, ratio):
        return ratio >= self.bound if self.measure == "throughput" else ratio <= self.bound


KEEPALIVE = ["keepalive-1", "keepalive-64", "keepalive-1000"]
TARGETS = [
    *(Target(row, peer, bound) for row in KEEPALIVE
      for peer, bound in (("nginx", 0.60), ("h2o", 0.80), ("ceiling", 1.05))),
    Target("webstone", "nginx", 0.90), Target("webstone", "h2o", 0.60), Target("webstone", "ceiling", 1.05),
    Target("pipelined", "nginx", 0.20), Target("pipelined", "ceiling", 1.2),
    Target("pipelined", "lighttpd", 5.0, "throughput"),
    Target("large", "nginx", 0.92), Target("large", "h2o", 0.45),
    Target("connection-each", "nginx", 0.80), Target("connection-each", "ceiling", 1.05),
]
# Cost of a log: the row with one over the row without.
LOGGED, UNLOGGED, LOG_MAX = "logged", "keepalive-64", 1.04
IDLE_BYTES_MAX = 128


def write_documents(root):
    """Writes the files that all servers serve: compressible text, the same every time."""
    chance = random.Random(SEED)
    os.makedirs(os.path.join(root, "w"), exist_ok=True)
    for file, length in FILES.items():
        text = chance.randbytes(length * 3 // 4 + 3).hex().encode()[:length]
        with open(os.path.join(root, file), "wb") as f:
            f.write(text)
    for folder in (root, os.path.join(root, "w")):
        os.chmod(folder, 0o755)
