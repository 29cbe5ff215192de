"""Servers of HTTP/3 on this machine: where they come from, how they start, when they serve.

Measures nothing. Caddy and nginx get the configurations in `peers`.
"""

import contextlib
import os
import re
import socket
import subprocess
import time

from . import load, machine, packages, study
from .load import Failed
from .servers import HERE, fill

WEIR, CADDY, NGINX = "weir", "caddy", "nginx"
PORT = 18443
DEBIAN, NGINX_PACKAGES = "trixie", ["nginx", "libc6", "libcrypt1", "libpcre2-8-0", "libssl3t64", "libzstd1", "zlib1g"]


def caddy(_):
    """How Caddy starts, and its version."""
    path = machine.find("caddy")
    if not path:
        raise study.Missing("caddy is not installed")
    said = subprocess.run([path, "build-info"], capture_output=True, text=True).stdout
    parts = re.findall(r"(caddy/v2|quic-go/quic-go)\t(v\S+)", said)
    return [path], ", ".join(f"{name.split('/')[0]} {number}" for name, number in dict(parts).items()) or "caddy of unknown version"


def nginx(a):
    """How an nginx with HTTP/3 starts, and its version."""
    path = machine.find("nginx")
    start = [path] if path else None
    if not start or "http_v3_module" not in built_with(start):
        if not a.debian:
            raise study.Missing("no nginx with HTTP/3 is installed; --debian DIR fetches that of Debian 13")
        folder = os.path.abspath(a.debian)
        packages.fetch(folder, DEBIAN, NGINX_PACKAGES)
        start = packages.program(folder, "usr/sbin/nginx")
    said = built_with(start)
    version = re.search(r"nginx/\S+", said)
    library = re.search(r"running with (\w+ \S+)", said) or re.search(r"built with (\w+ \S+)", said)
    if not version or not library:
        raise study.Missing(f"nginx does not start: {said.strip()[-200:]}")
    return start, f"{version[0].replace('/', ' ')} ({library[1]})"


def built_with(start):
    return subprocess.run([*start, "-V"], capture_output=True, text=True).stderr


PEERS = {CADDY: caddy, NGINX: nginx}


def prepared(a, wanted):
    """How each peer starts, with its version; or the exception that says why it does not."""
    starts = {}
    for name, prepare in wanted.items():
        try:
            starts[name] = prepare(a)
        except (study.Missing, packages.Unavailable) as error:
            starts[name] = error
            print(f"skipped: {name}: {error}")
    return starts


def weir(a, *more):
    """The command of Weir with one worker."""
    return [a.weir, "serve", a.site, "--listen", f"127.0.0.1:{PORT}", "--workers", "1", "--quiet", "--tls-cert", a.pem,
            "--tls-key", a.key, *more]


def peer(a, name, folder):
    """The command of a peer, and its version."""
    start, version = found(a, name)
    config = os.path.join(folder, f"{name}.conf")
    with open(os.path.join(HERE, "peers", f"{name}-http3.conf")) as f:
        text = f.read()
    with open(config, "w") as f:
        f.write(fill(text, False, {"PORT": PORT, "RUN": folder, "ROOT": a.site, "PEM": a.pem, "KEY": a.key,
                                   "DESCRIPTORS": machine.facts()["descriptors"]}))
    if name == CADDY:
        return [*start, "run", "--adapter", "caddyfile", "--config", config], version
    return [*start, "-p", folder, "-c", config, "-e", f"{folder}/error.log"], version


def found(a, name):
    """How a program starts, and its version."""
    start = a.starts[name]
    if isinstance(start, Exception):
        raise study.Missing(str(start))
    return start


@contextlib.contextmanager
def started(argv, folder, tcp=True, udp=True):
    """A server on the first core, until the end of the context. It listens over TCP, over UDP, or over both."""
    with open(os.path.join(folder, "output"), "wb") as said:
        child = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=said, stderr=said, cwd=folder,
                                 preexec_fn=load.prepared(machine.cores()[0]),
                                 env={**os.environ, "HOME": folder, "XDG_DATA_HOME": folder, "XDG_CONFIG_HOME": folder, "GOMAXPROCS": "1"})
    try:
        until = time.monotonic() + 15
        while not listens(tcp, udp):
            if child.poll() is not None or time.monotonic() > until:
                with open(os.path.join(folder, "output"), errors="replace") as f:
                    raise Failed(f"{argv[0]} does not serve: {f.read().strip()[-300:]}")
            time.sleep(0.02)
        yield child.pid
    finally:
        child.terminate()
        try:
            child.wait(10)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()


def listens(tcp, udp):
    """Whether a server has its sockets."""
    if udp and not any(has_socket(f"/proc/net/{table}") for table in ("udp", "udp6")):
        return False
    try:
        if tcp:
            socket.create_connection(("127.0.0.1", PORT), timeout=1).close()
        return True
    except OSError:
        return False


def has_socket(table):
    with open(table) as f:
        return any(line.split()[1].endswith(f":{PORT:04X}") for line in f)
