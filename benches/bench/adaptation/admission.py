"""Overload: which requests to refuse so that the others get their responses in time.

One worker of an event loop serves the WebStone mix of document 002 to an open loop with Poisson arrivals over at most
2,000 connections. Files are opened and checked for each request (`--lookup each-request`): with files in memory, a
worker could serve more than twice what the client on the other core can request. The worker's capacity is measured
first, with 32 clients without think time, once for the run. `half` is half of the capacity, `twice` is twice that.
Settings: no refusals (off), waits limited to 5 ms or 40 ms (fixed-5, fixed-40). A controller was a fourth
(docs/adaptation.md). Measured are whole files per second (goodput) and the 99th percentile of their times, after the
first third of the run.

The plan predicted: at half, all settings are equal. At twice, off responds late or not at all, and the others keep at
least 90 % of the worker's capacity with a p99 that off does not reach. The result: they do not, because a refusal costs
a third of a response.
"""

import json
import os
import subprocess
import urllib.request

from . import Experiment
from .served import Served, load as put_load

CONNECTIONS = 2000
# Enough clients to keep one worker busy without a relevant queue.
BUSY_CLIENTS = 32


class Admission(Experiment):
    """Goodput and response times below and above a worker's capacity."""

    JUDGED = "off"
    # Multiples of the worker's capacity.
    LOADS = {"half": 0.5, "twice": 2.0}
    SETTINGS = {
        "off": ["--adapt", "off", "--max-turn", "off"],
        "fixed-5": ["--adapt", "off", "--max-turn", "5ms"],
        "fixed-40": ["--adapt", "off", "--max-turn", "40ms"],
    }
    MEASURES = (("files_per_s", True), ("p99_ms", False))
    HEAD = "Medians, lowest to highest, of the last two thirds of each run."
    FIRST = ("load", "requests refused")
    FIELDS = (("capacity", "capacity, files/s", 0, False), ("files_per_s", "whole files/s", 0, True),
              ("p50_ms", "p50 ms", 1, True), ("p99_ms", "p99 ms", 1, True), ("refused_per_s", "refused/s", 0, True),
              ("dropped", "not sent", 0, False))

    def __init__(self, a, scratch, results):
        self.site = os.path.join(scratch, "site")
        subprocess.run([a.weir, "-q", "site", "webstone", self.site], check=True, stdout=subprocess.DEVNULL)
        # One capacity for all runs of a table, also if it was interrupted.
        self.capacity = next((cell["capacity"] for cell in results.cells.values() if cell.get("capacity")), None)

    @classmethod
    def named(cls, load):
        return f"{load}: {cls.LOADS[load]:g} times"

    def run(self, a, setting, loads, more=()):
        """Runs a server with this setting under one load after the other; returns the last result, and its number
        of refusals.
        """
        with Served(a.weir, self.site, "--workers", "1", "--lookup", "each-request", "--live", *setting, *more) as server:
            for options in loads:
                before = refused_so_far(server.url)
                result = put_load(a, server.url, "--site", self.site, "--mode", "serial", "--failures-max", "1",
                                  "--lag-max", "1s", *options)
                refused = refused_so_far(server.url) - before
        return result, refused

    def measure(self, a, load, setting, repetition):
        if self.capacity is None:
            busy = ["--clients", str(BUSY_CLIENTS), "--duration", f"{max(2, a.seconds // 6)}s"]
            self.capacity = self.run(a, self.SETTINGS["off"], [busy])[0]["files_per_s"]
        rate = f"{self.capacity * self.LOADS[load]:.0f}"
        third = max(1, a.seconds // 3)
        open_loop = ["--rate", rate, "--arrivals", "poisson", "--connections", str(CONNECTIONS), "--timeout", "5s", "--grace", "1s"]
        seeds = [["--seed", str(2 * repetition + part)] for part in (1, 2)]
        record = ["--record", os.path.join(a.out, f"admission-{load}-{setting}-{repetition}.jsonl")] if a.record else []
        # The first third lets queues settle; the same server continues.
        result, refused = self.run(a, self.SETTINGS[setting], [
            [*open_loop, *seeds[0], "--duration", f"{third}s"], [*open_loop, *seeds[1], "--duration", f"{2 * third}s"]], record)
        return {"capacity": self.capacity, "files_per_s": result["files"] / (2 * third),
                "mean_ms": result["answered_ms"]["mean"], "p50_ms": result["answered_ms"]["p50"],
                "p99_ms": result["answered_ms"]["p99"], "refused_per_s": refused / (2 * third),
                "dropped": result["dropped"], "decisions": []}


def refused_so_far(url):
    with urllib.request.urlopen(f"{url}.weir/live.json", timeout=60) as answer:
        return json.load(answer)["totals"]["overloaded"]
