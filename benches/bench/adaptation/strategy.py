"""How connections are spread and bytes are moved, under loads for which each way was once recommended.

A Surge site. `few`: 4 clients that ask without pause. `idle`: 900 Surge users over persistent connections, who mostly think.
`each`: 32 clients with a connection for each file. Settings: event loops over epoll or the ring, 64 threads that block,
a thread for each connection, 64 processes that block. The default is judged; a server cannot change this while it runs, `weir tune`
chooses it before. The plan predicts (document 002): few, whoever blocks needs no event loop and costs no more; idle, blocking
pools have all workers taken by connections that wait, and threads cost memory; each, what an accept costs decides.
"""

import os
import subprocess

from . import Experiment
from ..load import response_ms
from .served import Served, load as put_load, trusted

SITE = ["--files", "500", "--seed", "3", "--size-max", "200000", "--off-time", "pareto(1,1.4)@..20"]


class Strategy(Experiment):
    """Each strategy where it should shine and where it should not."""

    LOADS = {"few": "4 busy connections", "idle": "900 connections, mostly idle", "each": "a connection for each file"}
    OPTIONS = {
        "few": ["--clients", "4", "--mode", "serial"],
        "idle": ["--users", "900", "--mode", "serial", "--stagger", "1ms"],
        "each": ["--clients", "32", "--mode", "http10"],
    }
    SETTINGS = {
        # A loop for each processor, as by default: those that block have threads enough for all processors, too.
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
