"""Whose bytes leave first, where the line to the clients is the bottleneck.

A server at the far end of a link of 20 Mbit/s and 10 ms, at 70 % of what the link carries, Poisson arrivals. `heavy`: sizes from
1 kB to 1 MB by Pareto's law (1.2), most files small and most bytes in large ones. `uniform`: all files of the same mean. The
server gives every answer its turn, and TCP divides the line; no setting changes the order. Settings: as it is by default
(turns), each answer spread over a round trip (paced, `--pacing`), and send buffers of 32 KiB, a little more than the line holds
(buffer-32k, `--send-buffer`). The latter do not order anything either: they shorten the queue before the line, in which the small
wait behind what was sent of the large. Beside them is what the queueing model (`weir model srpt`) says of sharing and of
smallest remaining first at that load; the ratio of these two is the most that a change of order could save of the mean. The model
knows no round trips and no slow start: the measured mean contains at least the 10 ms of one, and for large files some of
them. The plan predicts: what the line's queue costs is more than what an order could save.
"""

import json
import os
import random
import subprocess

from . import Experiment
from .linked import run as run_linked
from .served import trusted

LINK = ["rate=20M", "rtt=10ms", "queue=200p"]
BYTES_PER_S = 20e6 / 8
SHARE = 0.7
SMALLEST, LARGEST, TAIL = 1000, 1_000_000, 1.2
# Files that stand for the distribution: its quantiles in equal steps.
STEPS = 400


def quantile(share):
    """Of the bounded Pareto."""
    return SMALLEST / (1 - share * (1 - (SMALLEST / LARGEST) ** TAIL)) ** (1 / TAIL)


SIZES = [round(quantile((step + 0.5) / STEPS)) for step in range(STEPS)]
MEAN = round(sum(SIZES) / STEPS)


class Order(Experiment):
    """What sharing costs the mean, and what an order by size could save."""

    LOADS = {"heavy": f"{SMALLEST} B to {LARGEST // 1000} kB, mean {MEAN} B", "uniform": f"all {MEAN} B"}
    SETTINGS = {"turns": [], "paced": ["--pacing"], "buffer-32k": ["--send-buffer", "32768"]}
    JUDGED = "turns"
    HEAD = "Medians, lowest to highest. The models' figures are for the same sizes, rate and load."
    FIRST = ("sizes", "setting")
    FIELDS = (("mean_ms", "mean ms", 1, True), ("p50_ms", "p50 ms", 1, True), ("p99_ms", "p99 ms", 0, True),
              ("sharing_ms", "model: sharing, mean ms", 1, False), ("smallest_ms", "smallest first, mean ms", 1, False))

    def __init__(self, a, scratch, results):
        self.site = os.path.join(scratch, "site")
        os.mkdir(self.site)
        for step, size in enumerate(SIZES):
            with open(os.path.join(self.site, f"{step}.bin"), "wb") as f:
                f.write(os.urandom(size))
        with open(os.path.join(self.site, "mean.bin"), "wb") as f:
            f.write(os.urandom(MEAN))

    def predicted(self, a, load):
        # Another program's words for the same two distributions.
        sizes = f"pareto({SMALLEST},{LARGEST},{TAIL})" if load == "heavy" else f"fixed({MEAN})"
        said = subprocess.run([a.weir, "--json", "model", "srpt", "--sizes", sizes, "--rate", "20M", "--load", str(SHARE)],
                              capture_output=True, text=True, check=True).stdout
        answer = json.loads(said)["answers"][0]["answer"]
        return {"sharing_ms": 1e3 * answer["ps"], "smallest_ms": 1e3 * answer["srpt"]}

    def measure(self, a, load, setting, repetition):
        rng = random.Random(f"{load}/{repetition}")
        paths = os.path.join(a.scratch, "paths")
        with open(paths, "w") as f:
            for _ in range(50_000):
                f.write("/mean.bin\n" if load == "uniform" else f"/{rng.randrange(STEPS)}.bin\n")
        rate = SHARE * BYTES_PER_S / MEAN
        result, _ = run_linked(a, LINK, self.site, self.SETTINGS[setting],
                               ["--urls", paths, "--rate", f"{rate:.0f}", "--arrivals", "poisson", "--connections", "500", "--seed",
                                str(1 + repetition), "--duration", f"{a.seconds}s", "--timeout", "20s", "--lag-max", "1s"], a.seconds)
        trusted(result)
        return {"files_per_s": result["files_per_s"], "mean_ms": result["response_ms"]["mean"],
                "p50_ms": result["response_ms"]["p50"], "p99_ms": result["response_ms"]["p99"], "decisions": [],
                **self.predicted(a, load)}
