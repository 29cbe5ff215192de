"""Eviction from a full cache: the server's policies over sequences generated from a seed (`weir cache replay`).

Three sequences of 200,000 requests for 20,000 files; the cache holds a twentieth of their bytes. `stationary`: single
files by Zipf's law (0.8), as in the textbook. `scans`: the same, but one request in five comes from a crawler that
takes file after file, each needed once. `moving`: pages with their embedded files; popularity moves to the next of
twenty sites every 10,000 requests. Settings: the policies. The best of them, known only in hindsight, is the limit; the
default is compared with it. The plan predicts: lru is worst with scans, lfu with moving popularity, and s3-fifo is
within 5 % of the best everywhere, so an adaptation has nothing to gain. `hinted` and `structured` load ahead: their
hits are not comparable, their reads from disk are.

No server and no clock: a replay is exact, and other load on the machine does not change it. Repetitions use other
seeds.
"""

import bisect
import json
import os
import random
import subprocess

from . import Experiment

FILES, SITES, MOVES = 20_000, 20, 20
REQUESTS, REQUESTS_QUICK = 200_000, 20_000
SHARE = "5%"


class CachePolicy(Experiment):
    """Hits and reads of every policy, and the best possible in hindsight."""

    LOADS = {"stationary": "Zipf 0.8", "scans": "a crawler among them", "moving": "pages, one site after another"}
    SETTINGS = {name: [] for name in ("lru", "lfu", "s3-fifo", "hinted", "structured")}
    JUDGED = "s3-fifo"
    MEASURES = (("loads", False), ("hits", True))
    HEAD = f"Medians over sequences of different seeds, lowest to highest; a cache of {SHARE} of all bytes."
    FIRST = ("sequence", "policy")
    FIELDS = (("hits", "hits, %", 2, True), ("byte_hits", "bytes, %", 2, True), ("loads", "files read", 0, True),
              ("ahead", "of them ahead", 0, False))

    def __init__(self, a, scratch, results):
        self.scratch = scratch
        self.made = None

    def measure(self, a, load, setting, repetition):
        if self.made != (load, repetition):
            with open(os.path.join(self.scratch, "access.log"), "w") as log:
                sequence(log, load, 1 + repetition, REQUESTS_QUICK if a.quick else REQUESTS)
            self.made = (load, repetition)
        run = subprocess.run([a.weir, "--json", "cache", "replay", os.path.join(self.scratch, "access.log"), "--size", SHARE,
                              "--policy", setting], capture_output=True, text=True, timeout=600)
        lines = [json.loads(line) for line in run.stdout.splitlines() if line.startswith("{")]
        row = next((line for line in lines if line.get("name") == setting), None)
        if run.returncode or not row:
            raise OSError(f"the replay ended with {run.returncode}: {(run.stderr or run.stdout).strip()[-200:]}")
        return {"hits": 100 * row["hit-ratio"], "byte_hits": 100 * row["byte-hit-ratio"], "loads": row["loads"],
                "ahead": row["ahead"], "decisions": []}


def zipf(count, exponent):
    total, sums = 0.0, []
    for rank in range(1, count + 1):
        total += rank ** -exponent
        sums.append(total)
    return sums


def draw(rng, sums):
    return min(bisect.bisect_left(sums, rng.random() * sums[-1]), len(sums) - 1)


def length(rng):
    """Sizes of Surge's files: lognormal with a Pareto tail, truncated at 5 MB."""
    if rng.random() < 0.93:
        return int(rng.lognormvariate(8.2, 1.4)) + 1
    return min(int(10_000 * rng.paretovariate(1.1)), 5_000_000)


def sequence(log, name, seed, requests):
    """Writes this number of lines in the Combined format."""
    rng = random.Random(f"{name}/{seed}")
    lengths = [length(rng) for _ in range(FILES)]
    scanned = [length(rng) for _ in range(FILES)]
    popular = zipf(FILES, 0.8)
    # Every file stands for a page; each embeds the next few files of its own site.
    per_site = FILES // SITES
    pages = zipf(per_site // 5, 1.0)
    at_scan = 0
    waiting = []

    def line(path, size, referer="-"):
        log.write(f'192.0.2.1 - - [01/Jan/2000:00:00:00 +0000] "GET {path} HTTP/1.1" 200 {size} "{referer}" "made up"\n')

    for number in range(requests):
        if name == "scans" and rng.random() < 0.2:
            line(f"/scan/{at_scan}.bin", scanned[at_scan])
            at_scan = (at_scan + 1) % FILES
        elif name == "moving":
            if not waiting:
                site = number * MOVES // requests if rng.random() < 0.8 else rng.randrange(SITES)
                first = site * per_site + 5 * draw(rng, pages)
                page = f"/{first}/"
                waiting = [(f"/{first}/{part}.png", lengths[first + part], f"http://www.example.org{page}")
                           for part in range(4, 0, -1)]
                line(page, lengths[first])
            else:
                line(*waiting.pop())
        else:
            file = draw(rng, popular)
            line(f"/{file}.bin", lengths[file])
