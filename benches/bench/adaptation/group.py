"""A control group with limits on memory and disk reads; version 1, as root."""

import os
import signal
import time

from . import Refused

MEMORY, BLKIO = "/sys/fs/cgroup/memory", "/sys/fs/cgroup/blkio"


def write(path, value):
    with open(path, "w") as f:
        f.write(str(value))


def read(path):
    with open(path) as f:
        return f.read()


class Group:
    """A control group whose processes end with it."""

    def __init__(self, folder):
        name = f"weir-adaptation-{os.getpid()}"
        self.memory, self.blkio = f"{MEMORY}/{name}", f"{BLKIO}/{name}"
        status = os.stat(folder)
        self.device = f"{os.major(status.st_dev)}:{os.minor(status.st_dev)}"
        try:
            for path in (self.memory, self.blkio):
                os.mkdir(path)
            self.throttle(0)
        except OSError as error:
            raise Refused(f"control groups version 1 with memory and blkio, as root: {error}") from error

    def bound(self, mib):
        write(f"{self.memory}/memory.limit_in_bytes", mib << 20)

    def throttle(self, reads):
        write(f"{self.blkio}/blkio.throttle.read_iops_device", f"{self.device} {reads}")

    def enter(self):
        for path in (self.memory, self.blkio):
            write(f"{path}/cgroup.procs", os.getpid())

    def kills(self):
        fields = read(f"{self.memory}/memory.oom_control").split()
        return int(fields[fields.index("oom_kill") + 1])

    def state(self):
        stat = dict(line.split() for line in read(f"{self.memory}/memory.stat").splitlines())
        return {"files_mib": int(stat["total_cache"]) / 2**20, "anonymous_mib": int(stat["total_rss"]) / 2**20,
                "kernel_mib": int(read(f"{self.memory}/memory.kmem.usage_in_bytes")) / 2**20,
                "processes": len(read(f"{self.memory}/cgroup.procs").split())}

    def empty(self):
        """Ends the remaining processes, all of which were started in the group."""
        for _ in range(100):
            left = [int(pid) for pid in read(f"{self.memory}/cgroup.procs").split()]
            if not left:
                return
            for pid in left:
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
            time.sleep(0.1)
        raise Refused("the control group does not become empty")

    def close(self):
        self.empty()
        for path in (self.memory, self.blkio):
            os.rmdir(path)


def drop(site):
    """Drops the site's files from the page cache. Syncs first, because dirty pages stay."""
    os.sync()
    for folder, _, files in os.walk(site):
        for name in files:
            fd = os.open(os.path.join(folder, name), os.O_RDONLY)
            try:
                os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
            finally:
                os.close(fd)
