"""The machine: its facts, its cores, a private network namespace, and the packages of the peers.

Decides where server and client run and which facts accompany every result. Knows nothing of servers or rows.
"""

import ctypes
import fcntl
import os
import platform
import resource
import shutil
import socket
import struct
import subprocess

DESCRIPTORS_WANTED = 65536
CLONE_NEWNET = 0x40000000
CLONE_NEWUSER = 0x10000000


def cores():
    """Cores of the server and the client: the first two this process may run on, or the only one."""
    allowed = sorted(os.sched_getaffinity(0))
    return allowed[0], allowed[1 % len(allowed)]


def raise_descriptor_limit():
    """Raises the descriptor limit as far as allowed and returns it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = max(DESCRIPTORS_WANTED, hard)
    for limit in ((wanted, wanted), (hard, hard)):
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, limit)
            return limit[0]
        except (ValueError, OSError):
            continue
    return soft


def _write(path, text):
    try:
        with open(path, "w") as f:
            f.write(text)
        return True
    except OSError:
        return False


def _read(path):
    try:
        with open(path) as f:
            return f.read().strip()
    except OSError:
        return None


CONGESTION = "/proc/sys/net/ipv4/tcp_congestion_control"


def enter_private_network(congestion):
    """Moves this process into a private network namespace, so that other traffic is not measured and no setting
    outlives the run. Returns None, or the reason if it was not possible.

    A new namespace inherits the machine's congestion control at that moment, and may itself choose only among those
    that the machine permits to everyone. So the machine's setting is changed for the instant of the move and then
    restored. Until the next boot, everyone may choose this congestion control.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    usual = _read(CONGESTION)
    try:
        # Opened before the move, so that it still refers to the machine's setting afterwards.
        setting = os.open(CONGESTION, os.O_WRONLY)
    except OSError:
        setting = None
    try:
        if setting is not None:
            _write_to(setting, congestion)
        if why := _unshare(libc):
            return why
    finally:
        if setting is not None:
            _write_to(setting, usual)
            os.close(setting)
    get_flags, set_flags, up = 0x8913, 0x8914, 1
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        request = struct.pack("16sh14x", b"lo", 0)
        flags = struct.unpack("16sh14x", fcntl.ioctl(s, get_flags, request))[1]
        fcntl.ioctl(s, set_flags, struct.pack("16sh14x", b"lo", flags | up))
    # Server ports lie below this range, so that no client port collides with them.
    _write("/proc/sys/net/ipv4/ip_local_port_range", "20000 65535")
    _write("/proc/sys/net/core/somaxconn", "4096")
    _write(CONGESTION, congestion)
    return None


def _write_to(descriptor, text):
    try:
        os.pwrite(descriptor, text.encode(), 0)
    except OSError:
        pass  # the setting in force is read back and recorded in the results


def _unshare(libc):
    """Creates a network namespace, in a new user namespace if needed. Returns None, or the reason if not possible."""
    uid, gid = os.getuid(), os.getgid()
    if libc.unshare(CLONE_NEWNET) == 0:
        return None
    if libc.unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0:
        return f"unshare: {os.strerror(ctypes.get_errno())}"
    _write("/proc/self/setgroups", "deny")
    _write("/proc/self/uid_map", f"0 {uid} 1")
    _write("/proc/self/gid_map", f"0 {gid} 1")
    return None


def facts():
    """Facts about the machine that accompany every result."""
    model = "unknown"
    for line in (_read("/proc/cpuinfo") or "").splitlines():
        if line.startswith("model name"):
            model = line.split(":", 1)[1].strip()
            break
    memory_kb = int((_read("/proc/meminfo") or "MemTotal: 0 kB").split()[1])
    server, client = cores()
    return {
        "system": (platform.freedesktop_os_release() if os.path.exists("/etc/os-release") else {}).get("PRETTY_NAME"),
        "kernel": platform.release(),
        "cpu": model,
        "cores": os.cpu_count(),
        "memory_mib": memory_kb // 1024,
        "virtual": "hypervisor" in (_read("/proc/cpuinfo") or ""),
        "clock_source": _read("/sys/devices/system/clocksource/clocksource0/current_clocksource"),
        "server_core": server,
        "client_core": client,
        "congestion_control": _read(CONGESTION),
        "tcp_wmem": _read("/proc/sys/net/ipv4/tcp_wmem"),
        "tcp_rmem": _read("/proc/sys/net/ipv4/tcp_rmem"),
        "load_average": _read("/proc/loadavg"),
        "descriptors": resource.getrlimit(resource.RLIMIT_NOFILE)[0],
    }


def find(program):
    """Full path of a program, also in directories for administrators, or None."""
    return shutil.which(program, path=os.environ.get("PATH", "") + ":/usr/local/sbin:/usr/sbin:/sbin")


def install(packages):
    """Installs Debian packages without starting their services. Returns None, or the reason if not possible."""
    if not packages:
        return None
    if not find("apt-get"):
        return "apt-get is not installed"
    if os.geteuid() != 0:
        return "installing needs root"
    # Debian asks this program before it starts a service; 101 means no.
    policy, ours = "/usr/sbin/policy-rc.d", False
    if not os.path.exists(policy):
        with open(policy, "w") as f:
            f.write("#!/bin/sh\nexit 101\n")
        os.chmod(policy, 0o755)
        ours = True
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    try:
        for command in (["apt-get", "-q", "update"],
                        ["apt-get", "-q", "install", "-y", "--no-install-recommends", *packages]):
            ran = subprocess.run(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                 stdin=subprocess.DEVNULL, text=True, timeout=600)
            if ran.returncode != 0:
                return f"{' '.join(command)}: {(ran.stdout or '').strip().splitlines()[-1:]}"
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    finally:
        if ours:
            os.unlink(policy)
    return None
