"""The clients: wrk or, for large files, drain on its own core, and the holder of idle connections.

Decides whether results are valid; knows nothing of the servers.
"""

import json
import os
import resource
import signal
import socket
import subprocess
import time

from . import machine
from .servers import HERE, compiled, pinned, read_answer
from .workloads import FILES

HEAD_BYTES_MAX = 1024
# Spread over enough addresses that a server's per-address limit does not matter.
IDLE_PER_ADDRESS = 100
# Rows in which wrk is busier than the servers: it copies every body. benches/drain.c drops bodies in the kernel, so
# that the server is the bottleneck.
DRAINED = {"large"}


class Client:
    """wrk or drain, with one thread on the client's core."""

    def __init__(self, base, nice):
        self.base, self.nice = base, nice
        self.core = machine.cores()[1]
        self.program = machine.find("wrk")
        self.drain = None

    def version(self):
        said = subprocess.run([self.program, "-v"], capture_output=True, text=True)
        wrk = (said.stdout + said.stderr).splitlines()[0].split(" Copyright")[0]
        return f"{wrk}; benches/drain.c for {', '.join(sorted(DRAINED))}"

    def command(self, row, port, seconds):
        """Command line of the client for a row. Raises OSError if drain does not compile."""
        requests = os.path.join(self.base, f"{row.name}.requests")
        if not os.path.exists(requests):
            with open(requests, "wb") as f:
                f.write(row.script())
        if row.name in DRAINED:
            self.drain = self.drain or compiled("drain", self.base)
            return [self.drain, str(port), str(row.connections), str(seconds), requests]
        return [self.program, "-t1", f"-c{row.connections}", f"-d{whole(seconds)}s", "--timeout", "10s",
                "-s", os.path.join(HERE, "client.lua"), f"http://127.0.0.1:{port}/",
                "--", requests, str(row.request_len if row.mixed else 0)]

    def run(self, row, port, seconds):
        """Sends a row's load for some seconds. Returns the client's result plus its own processor time."""
        argv = self.command(row, port, seconds)
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        child = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                 stderr=subprocess.STDOUT, text=True, start_new_session=True,
                                 preexec_fn=pinned(self.core, self.nice),
                                 env={**os.environ, "CONNECTIONS": str(row.connections)})
        try:
            # A shorter run of wrk ends with SIGINT, on which it reports. drain ends by itself.
            if seconds < whole(seconds) and row.name not in DRAINED:
                time.sleep(seconds)
                child.send_signal(signal.SIGINT)
            said = child.communicate(timeout=whole(seconds) + 30)[0]
        finally:
            if child.poll() is None:
                child.kill()
                child.wait()
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        for line in said.splitlines():
            if line.startswith("RESULT "):
                result = json.loads(line[len("RESULT "):])
                result["client_cpu_s"] = (after.ru_utime + after.ru_stime) - (before.ru_utime + before.ru_stime)
                return result
        raise OSError(f"the client reported nothing: {said.strip()[-300:]}")


def whole(seconds):
    """Seconds as wrk takes them: whole ones, at least one."""
    return max(1, int(seconds + 0.999))


def fault(row, result):
    """Reason why a result is invalid, or None."""
    errors = {name: count for name, count in result["errors"].items() if count}
    if errors:
        return "client: " + ", ".join(f"{count} {name} errors" for name, count in errors.items())
    if result["requests"] == 0:
        return "client: no request was answered"
    mean = result["bytes"] / result["requests"]
    body = row.mean_body()
    if row.mixed or row.mean_body() > 65536:
        # Bodies are large compared with a short run: those in flight at the end count as bytes only.
        slack = row.connections * max(FILES[file] for file in row.files) / result["requests"]
        if not body * 0.8 - slack <= mean <= body * 1.2 + HEAD_BYTES_MAX + slack:
            return f"{mean:.0f} bytes per answer instead of about {body:.0f}"
    elif not body < mean <= body + HEAD_BYTES_MAX:
        return f"{mean:.0f} bytes per answer, but the body has {body:.0f}"
    return None


class IdleConnections:
    """Connections that each made one request and then stay idle, as a context."""

    def __init__(self, row, port, count):
        self.row, self.port, self.count = row, port, count
        self.held = []

    def __enter__(self):
        request = self.row.request(self.row.files[0])
        try:
            for i in range(self.count):
                s = socket.socket()
                self.held.append(s)
                s.settimeout(10)
                address = i // IDLE_PER_ADDRESS
                s.bind((f"127.0.{1 + address // 250}.{1 + address % 250}", 0))
                s.connect(("127.0.0.1", self.port))
                s.sendall(request)
                head, _ = read_answer(s)
                if not head.startswith(b"HTTP/1.1 200 "):
                    raise OSError(f"connection {i + 1}: {head[:60]!r}")
        except BaseException as error:
            self.__exit__()
            if isinstance(error, OSError):
                raise OSError(f"after {len(self.held) - 1} of {self.count} connections: {error}") from error
            raise
        return self

    def still_open(self):
        """Number of connections that the server has not closed."""
        count = 0
        for s in self.held:
            s.setblocking(False)
            try:
                count += s.recv(1, socket.MSG_PEEK) != b""
            except BlockingIOError:
                count += 1
            except OSError:
                pass
        return count

    def __exit__(self, *_):
        for s in self.held:
            s.close()
