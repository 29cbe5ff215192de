"""Strategies: how connections map to threads, under loads for which each was once recommended.

A Surge site. `few`: 4 clients without think time. `idle`: 900 Surge users over persistent connections, mostly thinking.
`each`: 32 clients with one connection per file. Settings: event loops over epoll or io_uring, 64 blocking threads, a
thread per connection, 64 blocking processes. The default is compared with the others. A running server does not change
its strategy; `weir tune` chooses it beforehand. The plan predicts (document 002): few, blocking needs no event loop and
costs no more; idle, waiting connections occupy all workers of blocking pools, and threads cost memory; each, the cost
of an accept decides.
"""

import os
import subprocess

from . import Experiment
from ..load import response_ms
from .served import Served, load as put_load, trusted

SITE = ["--files", "500", "--seed", "3", "--size-max", "200000", "--off-time", "pareto(1,1.4)@..20"]


class Strategy(Experiment):
    """Each strategy under loads that suit it and loads that do not."""

    LOADS = {"few": "4 busy connections", "idle": "900 connections, mostly idle", "each": "a connection for each file"}
    OPTIONS = {
        "few": ["--clients", "4", "--mode", "serial"],
        "idle": ["--users", "900", "--mode", "serial", "--stagger", "1ms"],
        "each": ["--clients", "32", "--mode", "http10"],
    }
    SETTINGS = {
        # A loop per processor, as by default; blocking strategies have enough threads for all processors, too.
        "epoll": ["--io", "epoll"],
        "uring": ["--io", "uring"],
        "pool": ["--concurrency", "pool", "--workers", "64"],
        "thread-per-connection": ["--concurrency", "thread-per-connection", "--workers", "1024"],
        "processes": ["--concurrency", "processes", "--workers", "64"],
    }
    JUDGED = "epoll"
    MEASURES = (("files_per_s", True), ("cpu_us", False), ("p99_ms", False))
    HEAD = "Medians, lowest to highest. Processor time is the server's."
    FIRST = ("load", "strategy")
    FIELDS = (("files_per_s", "files/s", 0, True), ("cpu_us", "CPU µs/file", 1, True), ("p50_ms", "p50 ms", 2, True),
              ("p99_ms", "p99 ms", 1, True), ("resident_mib", "resident, MiB", 0, False))

    def __init__(self, a, scratch, results):
        self.site = os.path.join(scratch, "site")
        subprocess.run([a.weir, "-q", "site", "surge", self.site, *SITE], check=True, stdout=subprocess.DEVNULL)

    def measure(self, a, load, setting, repetition):
        with Served(a.weir, self.site, "--adapt", "off", *self.SETTINGS[setting]) as server:
            before = server.used()
            result = put_load(a, server.url, "--site", self.site, *self.OPTIONS[load], "--duration", f"{a.seconds}s",
                              "--timeout", "20s", "--seed", str(1 + repetition), "--lag-max", "1s", "--failures-max", "0.01")
            used = server.used() - before
            resident = server.resident_mib()
        trusted(result)
        return {"files_per_s": result["files_per_s"], "cpu_us": 1e6 * used / max(1, result["files"]),
                "mean_ms": result["response_ms"]["mean"], "p50_ms": response_ms(result, "p50"),
                "p99_ms": response_ms(result, "p99"), "resident_mib": resident, "decisions": []}
