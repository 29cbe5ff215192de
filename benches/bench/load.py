"""`weir load` and other clients, and the servers they load: runs each on its own core to its end and reads its cost.

Starts, waits and reads; judges nothing. Processor time is the kernel's figure for the ended process, so it is complete.
Memory is the peak resident set of the program itself, sampled while it runs: the kernel's figure at the end would
include this script's memory before the fork.
"""

import json
import os
import re
import resource
import signal
import subprocess
import threading
import time

from . import machine
from .servers import pinned


class Failed(Exception):
    """A program failed, or did not do what it was started for."""


class Server:
    """`weir serve` on the first core, stopped at the end of the context."""

    def __init__(self, weir, root, *more):
        self.argv = [weir, "serve", root, "--listen", "127.0.0.1:0", "--json", "--workers", "1", *more]

    def __enter__(self):
        self.process = subprocess.Popen(self.argv, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                                        preexec_fn=prepared(machine.cores()[0]))
        line = self.process.stdout.readline()
        try:
            self.address = json.loads(line)["listeners"][0]["address"]
        except (ValueError, KeyError, IndexError) as error:
            self.__exit__()
            raise Failed(f"the server did not start: {line.strip()[:200]}") from error
        self.url = f"{'https' if '--tls=internal' in self.argv else 'http'}://{self.address}/"
        self.pid = self.process.pid
        return self

    def pause(self, after_s, seconds):
        """Stops the server for a while, after a delay, from a thread; the caller joins it."""
        def act():
            time.sleep(after_s)
            os.kill(self.pid, signal.SIGSTOP)
            time.sleep(seconds)
            os.kill(self.pid, signal.SIGCONT)
        thread = threading.Thread(target=act)
        thread.start()
        return thread

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGCONT)
            self.process.terminate()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()


def prepared(core):
    """Setup of a child before exec: its core, its end with this script, and the highest descriptor limit."""
    pin = pinned(core)

    def act():
        pin()
        hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return act


def run(argv, timeout_s):
    """Runs a client on the second core to its end: (exit code, output, processor seconds, peak resident bytes)."""
    began = time.monotonic()
    child = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                             preexec_fn=prepared(machine.cores()[1]))
    said, held = [], 0
    reader = threading.Thread(target=lambda: said.append(child.stdout.read()))
    reader.start()
    # Waiting with wait4 gives this child's own resource usage.
    while True:
        held = resident(child.pid) or held
        pid, status, used = os.wait4(child.pid, os.WNOHANG)
        if pid:
            break
        if time.monotonic() - began > timeout_s:
            child.send_signal(signal.SIGKILL)
        time.sleep(0.02)
    child.returncode = os.waitstatus_to_exitcode(status)
    reader.join()
    child.stdout.close()
    return child.returncode, said[0], used.ru_utime + used.ru_stime, held


def resident(pid):
    """Peak resident bytes of a process so far, or None once it has ended."""
    try:
        with open(f"/proc/{pid}/status") as f:
            return next((int(line.split()[1]) * 1024 for line in f if line.startswith("VmHWM:")), None)
    except OSError:
        return None


def weir_result(code, said):
    """The result line of `weir load --json`, and the reasons if the run is invalid, joined to one text."""
    lines = [json.loads(line) for line in said.splitlines() if line.startswith("{")]
    result = next((line for line in lines if line.get("event") == "result"), None)
    if code not in (0, 3) or not result:
        raise Failed(f"weir load ended with {code}: {said.strip()[-300:]}")
    why = [] if result["verdict"]["valid"] else [str(why) for why in result["verdict"]["reasons"]]
    return result, "; ".join(why)


def response_ms(result, quantile):
    """A quantile of response times in ms. If it falls among failed requests, the timeout, their minimum time."""
    found = result["response_ms"][quantile]
    return 1e3 * result["timeout_s"] if found is None else found


def version(argv):
    """First line of a program's output with a version number, or None if the program is missing."""
    try:
        said = subprocess.run(argv, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=20)
    except OSError:
        return None
    lines = [line.strip() for line in (said.stdout + said.stderr).splitlines() if re.search(r"\d+\.\d+", line)]
    return lines[0][:80] if lines else "unknown"
