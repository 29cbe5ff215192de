"""Whether text is compressed on first use: bytes of the line against time of the processors.

A site of 3,000 HTML pages of 20 to 60 kB of prose, of which the cache holds few, so that a coding is made again and again.
A reader asks for pages that nobody asked for lately, one after the other, and takes Brotli; 50 a second. `idle`: that is all.
`busy`: beside it 32 clients ask for a small file without pause, which leaves no processor free. Settings: never (off), always
(on), or the server decides (adaptive): while its threads wait for processors, no coding is begun, and what there is already is
sent. The plan predicts: idle, on sends a third of the bytes that off does, with adaptive as on; busy, what makes
codings is missing from the small files, with adaptive as off.
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
    """Kilobytes of a page and files beside it, with and without a processor to spare."""

    LOADS = {"idle": "processors free", "busy": "none free"}
    SETTINGS = {
        "off": ["--compress=false", "--adapt", "off"],
        "on": ["--adapt", "off"],
        "adaptive": ["--adapt", "auto"],
    }
    # On each load by what is short there.
    MEASURES = (("page_kb", False, "idle"), ("files_per_s", True, "busy"))
    HEAD = "Medians, lowest to highest; of the second half of each run."
    FIRST = ("load", "codings")
    FIELDS = (("page_kb", "kB a page", 1, True), ("page_ms", "ms a page, mean", 2, True),
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
            # The first half is for the server to find out.
            for _ in range(2 if load == "busy" else 0):
                files = put_load(a, server.url, "--urls", self.paths, "--clients", "32", "--mode", "serial", "--duration",
                                 f"{a.seconds / 2:g}s", "--lag-max", "1s", "--failures-max", "0.01")["files_per_s"]
            reader.join(a.seconds + 60)
            used = (server.used() - before) / (time.monotonic() - began)
        if not reader.taken:
            raise OSError("the reader got no page")
        return {"files_per_s": files or None, "mean_ms": reader.mean_ms(), "page_ms": reader.mean_ms(),
                "page_kb": sum(size for _, size in reader.taken) / len(reader.taken) / 1e3, "cpu_s": used,
                "decisions": server.decisions("coding")}


class Reader(threading.Thread):
    """Asks for a page at each instant that is due, over one connection; keeps (seconds, bytes) of the second half."""

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
