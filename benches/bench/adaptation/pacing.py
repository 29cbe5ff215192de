"""First flight after an idle period (document 001): a window in one burst, a window over a round trip, or a small
start.

A server at the far end of `weir link wan` (1.5 Mbit/s, 90 ms: 12 packets fill the path), one persistent connection, and
a file of 24 KiB every 2 s, so that the window is open and used before each idle period. `shallow`: a queue of 8 packets
before the line; `deep`: one of 200. Settings, all with CUBIC except the last: Linux's default, which begins again with
slow start (restart); the whole window at once (burst); the same, paced over a round trip by the sender's own clock
(paced, `--pacing`); pacing with Linux's restart (paced-restart); and BBR, which always paces. The plan predicts:
shallow, burst loses packets after each pause and restart does not; deep, burst is fastest and restart costs some round
trips; paced is within 5 % of the better one on both, so no choice is needed.
"""

import os

from . import Experiment
from ..load import response_ms
from .linked import run as run_linked
from .served import trusted

SIZE = 24 << 10
EVERY_S = 2


class Pacing(Experiment):
    """Restart after idle periods, over a queue that holds a burst and over one that does not."""

    # Queue length in packets.
    LOADS = {"shallow": 8, "deep": 200}
    # Keys of the link, flags of the server.
    SETTINGS = {
        "restart": (["congestion=cubic", "idle-restart=yes"], []),
        "burst": (["congestion=cubic", "idle-restart=no"], []),
        "paced": (["congestion=cubic", "idle-restart=no"], ["--pacing"]),
        "paced-restart": (["congestion=cubic", "idle-restart=yes"], ["--pacing"]),
        "bbr": (["congestion=bbr"], []),
    }
    JUDGED = "paced"
    MEASURES = (("mean_ms", False),)
    HEAD = "Medians, lowest to highest."
    FIRST = ("queue", "after a pause")
    FIELDS = (("mean_ms", "mean ms", 0, True), ("p50_ms", "p50 ms", 0, True), ("p99_ms", "p99 ms", 0, True),
              ("dropped", "packets dropped per file", 2, True))

    def __init__(self, a, scratch, results):
        self.site = os.path.join(scratch, "site")
        os.mkdir(self.site)
        with open(os.path.join(self.site, "file.bin"), "wb") as f:
            f.write(os.urandom(SIZE))
        self.paths = os.path.join(scratch, "paths")
        with open(self.paths, "w") as f:
            f.write("/file.bin\n")

    @classmethod
    def named(cls, load):
        return f"{load}, {cls.LOADS[load]} packets"

    def measure(self, a, load, setting, repetition):
        words, flags = self.SETTINGS[setting]
        # Shorter runs contain no pause.
        seconds = max(a.seconds, 4 * EVERY_S)
        result, counters = run_linked(
            a, ["wan", f"queue={self.LOADS[load]}p", *words], self.site, flags,
            ["--urls", self.paths, "--rate", f"{1 / EVERY_S:g}", "--arrivals", "constant", "--connections", "1", "--duration",
             f"{seconds}s", "--timeout", "20s", "--lag-max", "1s", "--seed", str(1 + repetition)], seconds)
        trusted(result)
        return {"files_per_s": result["files_per_s"], "mean_ms": result["response_ms"]["mean"],
                "p50_ms": response_ms(result, "p50"), "p99_ms": response_ms(result, "p99"),
                "dropped": counters[-1]["up"]["dropped"]["full"] / max(1, result["files"])
                + counters[-1]["down"]["dropped"]["full"] / max(1, result["files"]), "decisions": []}
