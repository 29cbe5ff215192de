"""A server for one run, a load on it, and the output of both."""

import json
import os
import signal
import subprocess


class Served:
    """`weir serve` as a context: its address, its resource usage, and after its end its decisions."""

    def __init__(self, weir, root, *more, preexec_fn=None):
        self.argv = [weir, "serve", root, "--listen", "127.0.0.1:0", "--json", *more]
        self.preexec_fn = preexec_fn
        self.said, self.cpu_s = "", None

    def __enter__(self):
        self.process = subprocess.Popen(self.argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                        preexec_fn=self.preexec_fn)
        line = self.process.stdout.readline()
        try:
            self.address = json.loads(line)["listeners"][0]["address"]
        except (ValueError, KeyError, IndexError):
            self.__exit__()
            raise OSError(f"the server did not start: {(line + self.said).strip()[-200:]}") from None
        self.url = f"http://{self.address}/"
        return self

    def used(self):
        """Processor seconds so far, of the server and its processes."""
        ticks = 0
        for pid in [self.process.pid, *children(self.process.pid)]:
            try:
                with open(f"/proc/{pid}/stat") as f:
                    fields = f.read().rpartition(")")[2].split()
            except OSError:
                continue
            ticks += sum(int(fields[at]) for at in (11, 12, 13, 14))
        return ticks / os.sysconf("SC_CLK_TCK")

    def resident_mib(self):
        """Memory of the server and its processes; shared memory counts in parts (PSS)."""
        kib = 0
        for pid in [self.process.pid, *children(self.process.pid)]:
            try:
                with open(f"/proc/{pid}/smaps_rollup") as f:
                    kib += next((int(line.split()[1]) for line in f if line.startswith("Pss:")), 0)
            except OSError:
                continue
        return kib / 1024

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            self.said = self.process.communicate(timeout=30)[1]
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.said = self.process.communicate()[1]

    def decisions(self, knob):
        """After its end: the lines that report decisions on this setting."""
        return [line for line in self.said.splitlines() if f"{knob} from" in line][:50]


def children(pid):
    try:
        with open(f"/proc/{pid}/task/{pid}/children") as f:
            return [int(child) for child in f.read().split()]
    except OSError:
        return []


def load(a, url, *options, before=(), seconds=None):
    """Runs `weir load` and returns its result. `before`: words before the command, such as those of `weir link`."""
    run = subprocess.run([*before, a.weir, "--json", "load", url, *options], capture_output=True, text=True,
                         timeout=(seconds or a.seconds) + 120)
    return result_of(run)


def result_of(run):
    lines = [json.loads(line) for line in run.stdout.splitlines() if line.startswith("{")]
    result = next((line for line in lines if line.get("event") == "result"), None)
    if run.returncode not in (0, 3) or not result:
        raise OSError(f"the load ended with {run.returncode}: {(run.stderr or run.stdout).strip()[-200:]}")
    return result


def trusted(result):
    """The same result, if the run is valid."""
    if not result["verdict"]["valid"]:
        raise OSError("; ".join(str(why) for why in result["verdict"]["reasons"])[:200])
    return result
