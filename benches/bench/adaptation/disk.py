"""Little memory and a slow disk: how long connections may stay idle, and which thread reads files that are not in
memory.

Keep-alive (document 000): a server of pre-forked processes in a control group with limited memory and a disk of 100
reads a second. 320 Surge users with persistent connections and short think times request 6,000 files of 167 MB, and
hardly any file again soon. `short` is enough memory for the files or for the connections, not for both; `ample` is
enough for both. Settings: idle connections stay open for 65 s (long) or 15 s (apache), close after 250 ms (early), or
the server decides (adaptive). Measured after 30 s, in which the server adapts and evicted files are read again. The
plan predicts: short memory ruins long and apache but not early, ample memory none; adaptive begins like long and ends
like early.

The same with an event loop: an idle connection costs only the kernel's memory for a socket, about 3 KiB instead of
about 300, so connections displace files only in very large numbers: 18,000 users (a process may have 20,000 descriptors
here) with a mean think time of 23 s, over 2,000 files of 55 MB. Settings: long, early and adaptive. The plan predicts
the same.

Cold reads: the same site and group, one worker of an event loop whose own cache holds 1 MiB, 64 clients without think
time. `hot` is memory for all files, `cold` for a quarter of them. Settings: the loop reads itself (inline), a helper
reads (helper), or the loop asks the kernel first whether a read would block (auto, the server's normal way). The server
has one processor and the clients the other; otherwise helpers would gain from the clients' processor. The plan
predicts: hot, helper costs two wake-ups per file and auto none; cold, inline has one read pending where the disk could
take many, and auto equals helper.

All need root and control groups version 1 with memory and blkio. Before each run, caches are dropped and the files are
read inside the group. A run in which the out-of-memory killer ended a process is invalid.
"""

import os
import subprocess

from . import Experiment, Refused
from .. import machine
from ..load import response_ms
from .group import Group, drop
from .served import Served, load as put_load, trusted

READS = 100
USERS = 320
SITE = ["--seed", "3", "--zipf-exponent", "0.6", "--stack-distance", "lognormal(6,1.5)"]


class KeepAlive(Experiment):
    """Document 000: idle connections hold memory that files would need."""

    SITE = ["--files", "6000", "--off-time", "pareto(1,1.4)@..60", *SITE]
    # In MiB. Processes of 320 connections take about 260; with less, the system kills some of them.
    LOADS = {"short": 280, "ample": 600}
    # Time for the server to adapt and to read evicted files again.
    WARMUP_S = 30
    SETTINGS = {
        "long": ["--adapt", "off"],
        "apache": ["--adapt", "off", "--idle-timeout", "15s"],
        "early": ["--adapt", "off", "--early-close", "250ms"],
        "adaptive": ["--adapt", "auto"],
    }
    MEASURES = (("files_per_s", True),)
    # Processors of the server and of the load; None: both have all.
    PROCESSORS = None
    SERVER = ["--concurrency", "processes", "--workers", str(2 * USERS)]
    USERS = ["--users", str(USERS), "--stagger", "20ms"]
    HEAD = "Medians, lowest to highest; memory of the control group at the end."
    FIRST = ("memory", "idle connections")
    FIELDS = (("files_per_s", "files/s", 0, True), ("mean_ms", "mean ms", 1, True), ("p99_ms", "p99 ms", 0, True),
              ("connections", "connections", 0, False), ("files_mib", "files, MiB", 0, True),
              ("processes", "processes", 0, False))

    def __init__(self, a, scratch, results):
        self.group = Group(scratch)
        self.site = os.path.join(scratch, "site")
        subprocess.run([a.weir, "-q", "site", "surge", self.site, *self.SITE], check=True, stdout=subprocess.DEVNULL)

    @classmethod
    def named(cls, load):
        return f"{load}, {cls.LOADS[load]} MiB"

    def close(self):
        self.group.close()

    def measure(self, a, load, setting, repetition):
        group, site = self.group, self.site
        group.throttle(0)
        group.bound(self.LOADS[load])
        drop(site)
        kills = group.kills()
        subprocess.run("find . -type f -print0 | xargs -0 cat > /dev/null", shell=True, cwd=site, check=True,
                       preexec_fn=group.enter)

        def enter():
            group.enter()
            if self.PROCESSORS:
                os.sched_setaffinity(0, {self.PROCESSORS[0]})

        before = ["taskset", "-c", str(self.PROCESSORS[1])] if self.PROCESSORS else []
        try:
            with Served(a.weir, site, "--landlock", "off", *self.SERVER, *self.SETTINGS[setting],
                        preexec_fn=enter) as server:
                group.throttle(READS)
                try:
                    result = put_load(a, server.url, "--site", site, *self.USERS, "--mode", "serial", "--warmup",
                                      f"{self.WARMUP_S}s", "--duration", f"{a.seconds}s", "--timeout", "30s",
                                      "--lag-max", "1s", before=before)
                    state = group.state()
                finally:
                    group.throttle(0)
        finally:
            group.empty()
        if group.kills() > kills:
            raise OSError(f"{group.kills() - kills} processes were ended by the out-of-memory killer")
        trusted(result)
        return {"files_per_s": result["files_per_s"], "mean_ms": result["response_ms"]["mean"],
                "p99_ms": response_ms(result, "p99"), "connections": result["connections"],
                "decisions": server.decisions("idle-timeout"), **state}


class KeepAliveLoop(KeepAlive):
    """Keep-alive with an event loop, whose idle connections cost only kernel memory: a very large number of them."""

    SITE = ["--files", "2000", "--off-time", "pareto(10,1.4)@..120", *SITE]
    # In MiB. Sockets of 18,000 connections and the server's state for them take about 34, the server itself 7.
    LOADS = {"short": 80, "ample": 240}
    WARMUP_S = 40
    SETTINGS = {name: KeepAlive.SETTINGS[name] for name in ("long", "early", "adaptive")}
    SERVER = ["--workers", "1", "--cache-size", "1MiB", "--max-connections-per-address", "20000"]
    USERS = ["--users", "18000", "--stagger", "1ms"]

    def __init__(self, a, scratch, results):
        # BBR sends four packets and then none for 200 ms on a connection that was idle for ten seconds (PROBE_RTT), as
        # most are here: that would delay every response, whatever the memory.
        if why := machine.enter_private_network("cubic"):
            raise Refused(f"network namespace for its congestion control: {why}")
        super().__init__(a, scratch, results)


class ColdReads(KeepAlive):
    """Reads of files that are not in memory: by the loop, a helper, or as the kernel's answer decides."""

    # In MiB. The files are 167 MB, of which the server holds 1 MiB itself.
    LOADS = {"hot": 600, "cold": 48}
    # The files that fit were read before; the other reads have displaced some and settled by then.
    WARMUP_S = 10
    SETTINGS = {
        "inline": ["--cold-reads", "inline"],
        "helper": ["--cold-reads", "helper"],
        "auto": [],
    }
    JUDGED = "auto"
    PROCESSORS = (0, 1)
    SERVER = ["--adapt", "off", "--workers", "1", "--cache-size", "1MiB", "--max-turn", "off"]
    USERS = ["--clients", "64"]
    FIRST = ("files", "read by")
