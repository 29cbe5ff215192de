"""Order of sending: whose bytes leave first if the line to the clients is the bottleneck.

A server at the far end of a link of 20 Mbit/s and 10 ms with a queue of 200 packets; Poisson arrivals. The load is a
share of the link's capacity, headers included. `heavy`: sizes from 1 kB to 1 MB by Pareto's law (1.2), most files small
and most bytes in large ones. `uniform`: all files have the same mean size. `surge`: sizes and popularity of Surge's
files (`weir site surge`, up to 1 MB). TCP is CUBIC, Linux's default, or BBR, whose congestion window follows the line's
rate, not its queue.

Settings: the default (turns: responses take turns, and TCP divides the line); send buffers of 32 KiB, slightly more
than the line holds (buffer-32k, `--send-buffer`); limited to the line's rate without an order (shared, `--line-rate 20M
--line-order shared`) and with the fewest bytes left first (line-rate, `--line-rate 20M`); nginx with sendfile and
tcp_nopush, which also takes turns. The table also has the queueing model's figures (`weir model srpt`) for sharing and
for shortest remaining first at that load. The model knows no round trips and no slow start; each measured mean contains
at least one round trip of 10 ms. A separate load requests the largest 1 % of the responses, so that their times are
known.

The plan predicts: the queue before the line costs more than an order saves; without a declared rate neither can be
gained; with it, the mean is at most half of nginx's, and the largest 1 % take at most a fifth longer.
"""

import json
import os
import random
import subprocess

from .. import machine, servers
from ..load import response_ms
from . import Experiment, Refused
from .linked import punctual, run_beside, serving
from .served import trusted
from .verdict import shown

LINK = ["rate=20M", "rtt=10ms", "queue=200p"]
LINE = ["--line-rate", "20M"]
BYTES_PER_S = 20e6 / 8
SMALLEST, LARGEST, TAIL = 1000, 1_000_000, 1.2
# Files that represent the distribution: its quantiles in equal steps.
STEPS = 400
SURGE_FILES = 1000
# The largest responses, requested by a separate load, as a share of all.
LARGE = 0.01
# Head size of both servers; headers per 1448 bytes of head and content.
HEAD_SIZE, SEGMENT, HEADERS = 250, 1448, 52
# Targets: the mean, and the time of the largest responses, as ratios to nginx's.
MEAN_MAX, LARGE_MAX = 0.5, 1.2
# With equal sizes there is nothing to order, and nothing may be lost either.
SAME_MAX = 1.05


def quantile(share):
    """Quantile of the bounded Pareto distribution."""
    return SMALLEST / (1 - share * (1 - (SMALLEST / LARGEST) ** TAIL)) ** (1 / TAIL)


def on_the_line(size):
    return size + HEAD_SIZE + -(-(size + HEAD_SIZE) // SEGMENT) * HEADERS


SIZES = [round(quantile((step + 0.5) / STEPS)) for step in range(STEPS)]
MEAN = round(sum(SIZES) / STEPS)


class Order(Experiment):
    """Cost of the queue before the line and of sharing it; savings by a declared rate and an order."""

    LOADS = {"heavy": f"{SMALLEST} B to {LARGEST // 1000} kB, mean {MEAN} B, 70 %", "heavy-90": "the same, 90 %",
             "heavy-90-bbr": "the same with BBR, 90 %", "surge": "Surge's files and popularity, 80 %", "uniform": f"all {MEAN} B, 70 %"}
    SHARES = {"heavy": 0.7, "heavy-90": 0.9, "heavy-90-bbr": 0.9, "surge": 0.8, "uniform": 0.7}
    SETTINGS = {"turns": [], "buffer-32k": ["--send-buffer", "32768"], "shared": [*LINE, "--line-order", "shared"], "line-rate": LINE,
                "nginx": None}
    JUDGED = "line-rate"
    HEAD = "Medians, lowest to highest. The models' figures are for the same sizes, rate and load."
    FIRST = ("sizes", "setting")
    FIELDS = (("mean_ms", "mean ms", 1, True), ("p99_ms", "p99 ms of the smaller 99 %", 0, True),
              ("large_ms", "mean ms of the largest 1 %", 0, True),
              ("sharing_ms", "model: sharing, mean ms", 1, False), ("smallest_ms", "smallest first, mean ms", 1, False))

    def __init__(self, a, scratch, results):
        self.nginx = machine.find("nginx")
        if "nginx" in a.only and not self.nginx:
            raise Refused("nginx is not installed; install it, or omit it with --only")
        self.site = os.path.join(scratch, "site")
        # Load: the paths with their sizes and numbers of requests, the largest last.
        self.files = {}
        if any(load != "surge" for load in a.loads):
            os.mkdir(self.site)
            for step, size in enumerate(SIZES):
                self.write(f"{step}.bin", size)
            self.write("mean.bin", MEAN)
        if "surge" in a.loads:
            folder = os.path.join(self.site, "surge")
            subprocess.run([a.weir, "-q", "site", "surge", folder, "--files", str(SURGE_FILES), "--size-max", str(LARGEST)], check=True)
            with open(os.path.join(folder, "manifest.json")) as f:
                files = json.load(f)["files"]
            self.files["surge"] = sorted(((f"/surge/{file['path']}", file["bytes"], file["references"]) for file in files),
                                         key=lambda file: file[1])
        heavy = [(f"/{step}.bin", size, 1) for step, size in enumerate(SIZES)]
        for load in ("heavy", "heavy-90", "heavy-90-bbr"):
            self.files[load] = heavy
        self.files["uniform"] = [("/mean.bin", MEAN, 1)]

    def write(self, name, size):
        with open(os.path.join(self.site, name), "wb") as f:
            f.write(os.urandom(size))

    def versions(self):
        if not self.nginx:
            return {}
        said = subprocess.run([self.nginx, "-v"], capture_output=True, text=True, check=True).stderr.strip()
        version = f"nginx {said.rpartition('/')[2]}"
        return {"nginx": {"identity": version, "version": version}}

    def predicted(self, a, load):
        if load == "surge":
            return {"sharing_ms": None, "smallest_ms": None}
        # The same two distributions in the other program's syntax.
        sizes = f"fixed({MEAN})" if load == "uniform" else f"pareto({SMALLEST},{LARGEST},{TAIL})"
        said = subprocess.run([a.weir, "--json", "model", "srpt", "--sizes", sizes, "--rate", "20M", "--load", str(self.SHARES[load])],
                              capture_output=True, text=True, check=True).stdout
        answer = json.loads(said)["answers"][0]["answer"]
        return {"sharing_ms": 1e3 * answer["ps"], "smallest_ms": 1e3 * answer["srpt"]}

    def parts(self, load):
        """The files with their shares of all responses: the smaller ones, and the largest if they differ."""
        files = self.files[load]
        whole = sum(weight for _, _, weight in files)
        at, part = len(files), 0
        while part < LARGE * whole and at > 1:
            at -= 1
            part += files[at][2]
        return [(files[:at], 1 - part / whole), (files[at:], part / whole)] if part else [(files, 1)]

    def measure(self, a, load, setting, repetition):
        files = self.files[load]
        whole = sum(weight for _, _, weight in files)
        rate = self.SHARES[load] * BYTES_PER_S / (sum(on_the_line(size) * weight for _, size, weight in files) / whole)
        rng = random.Random(f"{load}/{repetition}")
        loads = []
        for number, (some, part) in enumerate(self.parts(load)):
            paths = os.path.join(a.scratch, f"paths-{number}")
            with open(paths, "w") as f:
                drawn = rng.choices([path for path, _, _ in some], [weight for _, _, weight in some], k=50_000)
                f.writelines(f"{path}\n" for path in drawn)
            loads.append(["--urls", paths, "--rate", f"{rate * part:.4f}", "--arrivals", "poisson", "--connections", "500", "--seed",
                          str(1 + repetition), "--duration", f"{a.seconds}s", "--grace", "30s", "--timeout", "20s", "--lag-max", "1s"])
        far = self.nginx_serving(a) if setting == "nginx" else serving(a, self.site, self.SETTINGS[setting])
        link = [*LINK, f"congestion={'bbr' if load.endswith('bbr') else 'cubic'}"]
        results, counters = run_beside(a, link, far, loads, a.seconds)
        for result in results:
            trusted(result)
        count = sum(result["files"] for result in results)
        mean = sum(result["files"] * result["response_ms"]["mean"] for result in results) / count
        large = results[1]["response_ms"]["mean"] if len(results) > 1 else None
        return {"files_per_s": count / a.seconds, "mean_ms": mean, "p99_ms": response_ms(results[0], "p99"), "large_ms": large,
                "large": results[1]["files"] if len(results) > 1 else 0, "late_max_ms": punctual(counters),
                "decisions": [], **self.predicted(a, load)}

    def nginx_serving(self, a):
        """nginx as in the comparison with peers, with one worker, on weir's port."""
        folder = os.path.join(a.scratch, "nginx")
        os.makedirs(folder, exist_ok=True)
        template = os.path.join(servers.HERE, "peers", "nginx.conf")
        with open(template) as f:
            text = servers.fill(f.read(), False, {"PORT": 8080, "ROOT": self.site, "RUN": folder, "NOPUSH": "on",
                                                  "DESCRIPTORS": machine.facts()["descriptors"]})
        path = os.path.join(folder, "nginx.conf")
        with open(path, "w") as f:
            f.write(text.replace("127.0.0.1:8080", "0.0.0.0:8080"))
        return [self.nginx, "-p", folder, "-c", path, "-e", os.path.join(folder, "error.log")]

    @classmethod
    def compared(cls, results, row, load):
        """A line for each target."""
        out = []
        mean_max = SAME_MAX if load == "uniform" else MEAN_MAX
        for field, what, most in (("mean_ms", "the mean", mean_max), ("large_ms", "the largest 1 %", LARGE_MAX)):
            if not results.values(row, cls.JUDGED, field) or not results.values(row, "nginx", field):
                continue
            ratio = results.ratio(row, cls.JUDGED, "nginx", field)
            if ratio:
                out.append(f"- {cls.named(load)}, {what}: {cls.JUDGED} has {shown(ratio)} of nginx's; at most {most}: "
                           f"{'yes' if ratio[0] <= most else '**no**'}.")
        return out
