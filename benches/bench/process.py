"""The kernel's figures of a process and all its descendants: processor time, context switches, memory.

Reads /proc and process clocks; starts, stops and judges nothing.
"""

import os
import time

TICK_S = 1 / os.sysconf("SC_CLK_TCK")


def _fields(pid):
    """The fields of /proc/PID/stat after the name (which may contain anything), or None once the process has ended."""
    try:
        with open(f"/proc/{pid}/stat") as f:
            return f.read().rpartition(")")[2].split()
    except OSError:
        return None


def started(pid):
    """Start time of the process in ticks since boot; together with the pid it identifies a process for good."""
    fields = _fields(pid)
    return fields[19] if fields else None


def tree(root):
    """The process and all its living descendants."""
    children = {}
    for name in os.listdir("/proc"):
        if name.isdigit() and (fields := _fields(name)):
            children.setdefault(int(fields[1]), []).append(int(name))
    found, todo = [], [root] if _fields(root) else []
    while todo:
        pid = todo.pop()
        found.append(pid)
        todo += children.get(pid, [])
    return found


def usage(root):
    """Processor time and context switches of a whole tree since its start.

    `cpu_s` is exact: the scheduler's own clock of each process, including ended threads, plus ended
    children in ticks. `user_s` and `system_s` are the kernel's split of it, in ticks.
    """
    cpu = user = system = ended = 0.0
    voluntary = involuntary = 0
    for pid in tree(root):
        fields = _fields(pid)
        if not fields:
            continue
        try:
            cpu += time.clock_gettime((~pid << 3) | 2)
        except OSError:
            cpu += (int(fields[11]) + int(fields[12])) * TICK_S
        user += int(fields[11]) * TICK_S
        system += int(fields[12]) * TICK_S
        ended += (int(fields[13]) + int(fields[14])) * TICK_S
        for thread in os.listdir(f"/proc/{pid}/task"):
            try:
                with open(f"/proc/{pid}/task/{thread}/status") as f:
                    for line in f:
                        if line.startswith("voluntary_ctxt"):
                            voluntary += int(line.split()[1])
                        elif line.startswith("nonvoluntary_ctxt"):
                            involuntary += int(line.split()[1])
            except OSError:
                continue
    return {"cpu_s": cpu + ended, "user_s": user, "system_s": system,
            "voluntary": voluntary, "involuntary": involuntary}


def core_busy_s(core):
    """Seconds this core was not idle, by the kernel's ticks."""
    with open("/proc/stat") as f:
        for line in f:
            name, *ticks = line.split()
            if name == f"cpu{core}":
                idle, waiting = int(ticks[3]), int(ticks[4])
                return (sum(map(int, ticks[:8])) - idle - waiting) * TICK_S
    raise RuntimeError(f"/proc/stat has no cpu{core}")


def memory(root):
    """Memory of a whole tree in bytes: proportional set size, its anonymous part, and resident set size."""
    total = {"pss": 0, "anonymous": 0, "resident": 0}
    names = {"Pss:": "pss", "Pss_Anon:": "anonymous", "Rss:": "resident"}
    for pid in tree(root):
        try:
            with open(f"/proc/{pid}/smaps_rollup") as f:
                for line in f:
                    field = line.split()
                    if field[0] in names:
                        total[names[field[0]]] += int(field[1]) * 1024
        except OSError:
            continue
    return total


def kernel_memory():
    """Bytes of the kernel's slabs (sockets, descriptors, epoll entries) of the whole machine."""
    with open("/proc/meminfo") as f:
        return next(int(line.split()[1]) * 1024 for line in f if line.startswith("Slab:"))
