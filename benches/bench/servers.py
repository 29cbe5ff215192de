"""The servers: each one's command, configuration, version, start and stop.

A server runs on one core, ends with the script, and is measured only after it has returned every file of the row
completely. Knows nothing of clients or statistics.
"""

import ctypes
import hashlib
import os
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from dataclasses import dataclass, field

from . import machine, process
from .workloads import FILES, WEBSTONE_SELECTS_AT

HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
FIRST_PORT = 18080
START_S_MAX = 15
STOP_S_MAX = 5
# Up to this size, copying from memory costs less than sendfile on loopback (measured with this program).
CEILING_SENDFILE_FROM = 32768
PR_SET_PDEATHSIG = 1


class NotServing(Exception):
    """A server did not start, or returned a wrong response."""


@dataclass(frozen=True)
class Server:
    """A server to compare. `template` is its file in `peers/`; `command` gets the configuration's path."""

    name: str
    program: str
    package: str = ""
    template: str = ""
    command: object = None
    version: tuple = ("-v",)
    values: dict = field(default_factory=dict)
    environment: dict = field(default_factory=dict)
    logs: bool = True
    # Further arguments, of the ceiling.
    flags: tuple = ()

    @property
    def is_ceiling(self):
        return self.program == "ceiling"


SERVERS = [
    Server("weir", "weir", version=("--version",)),
    Server("nginx", "nginx", "nginx", "nginx.conf", lambda p, c, r: [p, "-p", r, "-c", c, "-e", f"{r}/error.log"],
           values={"NOPUSH": "on"}),
    Server("nginx-nopush-off", "nginx", "nginx", "nginx.conf",
           lambda p, c, r: [p, "-p", r, "-c", c, "-e", f"{r}/error.log"], values={"NOPUSH": "off"}),
    Server("h2o", "h2o", "h2o", "h2o.conf", lambda p, c, r: [p, "-m", "worker", "-c", c]),
    Server("lighttpd", "lighttpd", "lighttpd", "lighttpd.conf", lambda p, c, r: [p, "-D", "-f", c]),
    Server("apache", "apache2", "apache2-bin", "apache.conf", lambda p, c, r: [p, "-DFOREGROUND", "-f", c]),
    Server("caddy", "caddy", "caddy", "caddy.conf", lambda p, c, r: [p, "run", "--adapter", "caddyfile", "--config", c],
           version=("version",), environment={"GOMAXPROCS": "1"}),
    Server("ceiling", "ceiling", logs=False, flags=("-k", "-p", "524288")),
]
# How much each part of the ceiling's way of sending files is worth: measured only if named with --servers.
PARTS = [
    Server("ceiling-sendfile", "ceiling", logs=False),
    Server("ceiling-cork", "ceiling", logs=False, flags=("-k",)),
    Server("ceiling-pipe", "ceiling", logs=False, flags=("-p", "524288")),
]
# Not part of `run`: document 000 measured a process per connection.
PREFORK = Server("apache-prefork", "apache2", "apache2-bin", "apache-prefork.conf", lambda p, c, r: [p, "-DFOREGROUND", "-f", c])
BY_NAME = {server.name: server for server in SERVERS + PARTS}
SMOKE_SERVERS = ["weir", "nginx", "ceiling"]


def compiled(name, folder):
    """Compiles a C program of this directory into `folder`. Returns its path; raises OSError with the reason."""
    compiler = machine.find(os.environ.get("CC", "cc"))
    if not compiler:
        raise OSError(f"no C compiler (cc) for {name}.c")
    path = os.path.join(folder, name)
    built = subprocess.run([compiler, "-O2", "-Wall", "-Wextra", "-o", path, os.path.join(HERE, f"{name}.c")],
                           capture_output=True, text=True)
    if built.returncode != 0:
        raise OSError(f"{name}.c does not compile: {built.stderr.strip()[:300]}")
    return path


class Stand:
    """Starts servers: their programs, the document root, and a folder for their files."""

    def __init__(self, base, root, weir, weir_args, nice):
        self.base, self.root, self.weir_args, self.nice = base, root, weir_args, nice
        self.core = machine.cores()[0]
        self.weir = weir
        self.ceiling = None

    def build_ceiling(self):
        """Compiles the ceiling. Returns None, or the reason if not possible."""
        try:
            self.ceiling = compiled("ceiling", self.base)
        except OSError as error:
            return str(error)
        return None

    def program(self, server):
        """Path of a server's program, or None."""
        if server.name == "weir":
            return self.weir
        if server.is_ceiling:
            return self.ceiling
        return machine.find(server.program)

    def version(self, server):
        """The program's version output, in one line."""
        if server.is_ceiling:
            return "benches/ceiling.c"
        said = subprocess.run([self.program(server), *server.version], capture_output=True, text=True,
                              stdin=subprocess.DEVNULL, timeout=20)
        lines = [line for line in (said.stdout + said.stderr).splitlines() if "ersion" in line or "/" in line or "." in line]
        return lines[0].strip() if lines else "unknown"

    def identity(self, server):
        """Digest of the program and its configuration: results of different identities are not mixed."""
        digest = hashlib.sha256()
        paths = [self.program(server)] + ([os.path.join(HERE, "peers", server.template)] if server.template else [])
        if server.is_ceiling:
            paths = [os.path.join(HERE, "ceiling.c")]
        for path in paths:
            with open(path, "rb") as f:
                digest.update(f.read())
        digest.update(repr((sorted(server.values.items()), self.weir_args if server.name == "weir" else "")).encode())
        digest.update(repr(server.flags).encode() if server.flags else b"")
        return digest.hexdigest()[:16]

    def command(self, server, row, port, folder):
        """Command line of a server for a row; its configuration is written into `folder`."""
        program = self.program(server)
        if server.name == "weir":
            log = ["--access-log", f"{folder}/access.log", "--log-format", "combined"] if row.log else []
            return [program, "serve", self.root, "--listen", f"127.0.0.1:{port}", "--workers", "1",
                    "--concurrency", "loop", *([] if "--io" in self.weir_args else ["--io", "epoll"]),
                    *log, *self.weir_args]
        if server.is_ceiling:
            return [program, *(["-c"] if row.close else []), *(["-t", str(WEBSTONE_SELECTS_AT)] if row.mixed else []),
                    "-s", str(CEILING_SENDFILE_FROM), *server.flags, str(port), str(row.request_len),
                    *(os.path.join(self.root, file) for file in row.files)]
        path = os.path.join(folder, server.template)
        with open(os.path.join(HERE, "peers", server.template)) as f:
            text = f.read()
        with open(path, "w") as f:
            f.write(fill(text, row.log, {
                "PORT": port, "ROOT": self.root, "RUN": folder, "MODULES": "/usr/lib/apache2/modules",
                "DESCRIPTORS": machine.facts()["descriptors"], **server.values}))
        return server.command(program, path, folder)


def fill(text, log, values):
    """Fills in a template of `peers/`: its lines for log, no log and root, then the names."""
    keep = {"log": log, "nolog": not log, "root": os.geteuid() == 0}
    lines = []
    for line in text.splitlines():
        mark = re.match(r"\s*@(log|nolog|root)@ ", line)
        if not mark:
            lines.append(line)
        elif keep[mark.group(1)]:
            lines.append(line[mark.end():])
    filled = "\n".join(line for line in lines if not line.lstrip().startswith("#"))
    return re.sub(r"@([A-Z]+)@", lambda m: str(values[m.group(1)]), filled) + "\n"


class Running:
    """A running server, as a context: started and checked on entry, ended on exit."""

    def __init__(self, stand, server, row):
        self.stand, self.server, self.row = stand, server, row
        # A separate port for each, so that none meets another's closed connections.
        every = SERVERS + PARTS
        self.port = FIRST_PORT + (every.index(server) if server in every else len(every))

    def __enter__(self):
        self.folder = tempfile.mkdtemp(prefix=f"{self.server.name}-", dir=self.stand.base)
        os.chmod(self.folder, 0o777)
        self.argv = self.stand.command(self.server, self.row, self.port, self.folder)
        self.output = open(os.path.join(self.folder, "output"), "w+b")
        self.process = subprocess.Popen(
            self.argv, stdin=subprocess.DEVNULL, stdout=self.output, stderr=subprocess.STDOUT, cwd=self.folder,
            start_new_session=True, preexec_fn=pinned(self.stand.core, self.stand.nice),
            env={**os.environ, "HOME": self.folder, "XDG_DATA_HOME": self.folder, "XDG_CONFIG_HOME": self.folder,
                 **self.server.environment})
        self.pid = self.process.pid
        try:
            self._wait_until_it_listens()
            for file in self.row.files:
                self._check(file)
        except BaseException:
            self.__exit__()
            raise
        return self

    def _said(self):
        self.output.flush()
        texts = []
        for name in ("output", "error.log"):
            try:
                with open(os.path.join(self.folder, name), errors="replace") as f:
                    texts.append(f.read()[-400:].strip())
            except OSError:
                continue
        return " | ".join(text.replace("\n", " ") for text in texts if text) or "it printed nothing"

    def _wait_until_it_listens(self):
        until = time.monotonic() + START_S_MAX
        while time.monotonic() < until:
            if self.process.poll() is not None:
                raise NotServing(f"{self.server.name} ended with {self.process.returncode}: {self._said()}")
            try:
                socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
                return
            except OSError:
                time.sleep(0.02)
        raise NotServing(f"{self.server.name} does not listen after {START_S_MAX} s: {self._said()}")

    def _check(self, file):
        """Sends the client's exact requests and compares each response with its file."""
        with open(os.path.join(self.stand.root, file), "rb") as f:
            wanted = f.read()
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=10) as s:
                s.sendall(self.row.request(file))
                head, body = read_answer(s)
        except OSError as error:
            raise NotServing(f"{self.server.name}: GET /{file}: {error}: {self._said()}") from error
        if not head.startswith(b"HTTP/1.1 200 "):
            raise NotServing(f"{self.server.name}: GET /{file}: {head[:60]!r}: {self._said()}")
        if body != wanted:
            raise NotServing(f"{self.server.name}: GET /{file}: {len(body)} bytes that differ from the file's {FILES[file]}")

    def __exit__(self, *_):
        members = [(pid, process.started(pid)) for pid in process.tree(self.pid)]
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(STOP_S_MAX)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        # Only processes that this server started, each identified by pid and start time.
        for pid, born in members:
            if born is not None and process.started(pid) == born:
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
        self.output.close()
        shutil.rmtree(self.folder, ignore_errors=True)


def pinned(core, nice=0):
    """Setup of a child before exec: pins it to one core and ends it with the script."""
    libc = ctypes.CDLL(None)

    def prepare():
        os.sched_setaffinity(0, {core})
        if nice:
            os.setpriority(os.PRIO_PROCESS, 0, nice)
            # The kernel may weigh sessions, not processes, against each other; this session is separate.
            try:
                with open("/proc/self/autogroup", "w") as f:
                    f.write(str(nice))
            except OSError:
                pass
        libc.prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
    return prepare


def read_answer(s):
    """One response with a Content-Length: its head and its body."""
    data = bytearray()
    while b"\r\n\r\n" not in data:
        piece = s.recv(65536)
        if not piece:
            raise OSError(f"closed after {len(data)} bytes")
        data += piece
    head, _, body = bytes(data).partition(b"\r\n\r\n")
    length = re.search(rb"(?im)^content-length: *(\d+)", head)
    if not length:
        raise OSError(f"an answer without Content-Length: {head[:80]!r}")
    pieces, have, length = [body], len(body), int(length.group(1))
    while have < length:
        piece = s.recv(1 << 20)
        if not piece:
            raise OSError(f"closed after {have} of {length} bytes")
        pieces.append(piece)
        have += len(piece)
    return head, b"".join(pieces)
