"""Compression on first use: bytes on the line against processor time.

A site of 3,000 HTML pages of 20 to 60 kB of prose; the cache holds few of them, so codings are made again and again. A
reader requests pages not requested recently, one after the other, accepting Brotli; 50 a second. `idle`: no other load.
`busy`: 32 clients also request a small file without pause, which leaves no processor free. Settings: never (off),
always (on), or the server decides (adaptive): while its threads wait for processors, it begins no coding and sends
existing ones. The plan predicts: idle, on sends a third of off's bytes, and adaptive equals on; busy, making codings
costs throughput of the small file, and adaptive equals off.
"""

import http.client
import os
import random
import threading
import time

from . import Experiment
from .served import Served, load as put_load

PAGES = 3000
RATE = 50
WORDS = ("time server file window line queue page answer request connection load user rate memory disk cache byte link "
         "packet turn that which where while after before under over between because every other nothing something").split()


class Coding(Experiment):
    """Kilobytes per page and throughput of small files, with and without a free processor."""

    LOADS = {"idle": "processors free", "busy": "none free"}
    SETTINGS = {
        "off": ["--compress=false", "--adapt", "off"],
        "on": ["--adapt", "off"],
        "adaptive": ["--adapt", "auto"],
    }
    # Each load has the measure that is scarce there.
    MEASURES = (("page_kb", False, "idle"), ("files_per_s", True, "busy"))
    HEAD = "Medians, lowest to highest; of the second half of each run."
    FIRST = ("load", "codings")
    FIELDS = (("page_kb", "kB a page", 1, True), ("page_ms", "ms per page, mean", 2, True),
              ("files_per_s", "small files/s", 0, True), ("cpu_s", "CPU s/s", 2, True))

    def __init__(self, a, scratch, results):
        self.site = os.path.join(scratch, "site")
        os.mkdir(self.site)
        rng = random.Random(1)
        for page in range(PAGES):
            words = " ".join(rng.choices(WORDS, k=rng.randrange(3500, 10_000)))
            with open(os.path.join(self.site, f"{page}.html"), "w") as f:
                f.write(f"<!doctype html><title>{page}</title><p>{words}")
        with open(os.path.join(self.site, "small.bin"), "wb") as f:
            f.write(os.urandom(1024))
        self.paths = os.path.join(scratch, "paths")
        with open(self.paths, "w") as f:
            f.write("/small.bin\n")

    def measure(self, a, load, setting, repetition):
        with Served(a.weir, self.site, "--cache-size", "8MiB", "--cache-file-size", "64KiB", *self.SETTINGS[setting]) as server:
            reader = Reader(server.address, a.seconds, repetition)
            reader.start()
            before, began = server.used(), time.monotonic()
            files = 0.0
            # The first half lets the server adapt.
            for _ in range(2 if load == "busy" else 0):
                files = put_load(a, server.url, "--urls", self.paths, "--clients", "32", "--mode", "serial", "--duration",
                                 f"{a.seconds / 2:g}s", "--lag-max", "1s", "--failures-max", "0.01")["files_per_s"]
            reader.join(a.seconds + 60)
            used = (server.used() - before) / (time.monotonic() - began)
        if not reader.taken:
            raise OSError("the reader got no page")
        return {"files_per_s": files or None, "mean_ms": reader.mean_ms(), "page_ms": reader.mean_ms(),
                "page_kb": sum(size for _, size in reader.taken) / len(reader.taken) / 1e3, "cpu_s": used,
                "decisions": server.decisions("compression")}


class Reader(threading.Thread):
    """Requests a page at each due time over one connection; returns (seconds, bytes) of the second half."""

    def __init__(self, address, seconds, seed):
        super().__init__(daemon=True)
        self.address, self.seconds, self.rng = address, seconds, random.Random(seed)
        self.taken = []

    def mean_ms(self):
        return 1e3 * sum(took for took, _ in self.taken) / max(1, len(self.taken))

    def run(self):
        connection = http.client.HTTPConnection(self.address, timeout=20)
        began = time.monotonic()
        for number in range(RATE * self.seconds):
            due = began + number / RATE
            time.sleep(max(0.0, due - time.monotonic()))
            try:
                connection.request("GET", f"/{self.rng.randrange(PAGES)}.html", headers={"Accept-Encoding": "br"})
                size = len(connection.getresponse().read())
            except OSError:
                connection.close()
                continue
            if number >= RATE * self.seconds // 2:
                self.taken.append((time.monotonic() - due, size))
        connection.close()
