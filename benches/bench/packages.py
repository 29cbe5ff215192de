"""Programs of another release of Debian, unpacked into a directory with their libraries.

Fetches packages with this system's apt-get and its keyring; lists and state stay in the directory, and nothing is
installed. A program runs under the loader of its own release, so that of this system does not matter.
"""

import os
import platform
import subprocess

MIRROR = "http://deb.debian.org/debian"
KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"


class Unavailable(Exception):
    """Packages cannot be fetched or unpacked; says why."""


def program(folder, path):
    """The arguments that start a program of an unpacked release: its loader, its libraries, and the program."""
    root = os.path.join(folder, "root")
    libraries = os.path.join(root, "usr", "lib", f"{platform.machine()}-linux-gnu")
    loaders = [name for name in os.listdir(libraries) if name.startswith("ld-linux")] if os.path.isdir(libraries) else []
    if not loaders or not os.path.exists(os.path.join(root, path)):
        raise Unavailable(f"{path} is not in {root}")
    return [os.path.join(libraries, loaders[0]), "--library-path", libraries, os.path.join(root, path)]


def fetch(folder, suite, packages):
    """Fetches and unpacks packages of a release, unless all are there."""
    root, archives = os.path.join(folder, "root"), os.path.join(folder, "archives")
    mark = os.path.join(root, ".complete")
    wanted = " ".join([suite, *packages])
    if _read(mark) == wanted:
        return
    if not os.path.exists(KEYRING):
        raise Unavailable(f"{KEYRING} is missing, so signatures cannot be checked")
    for path in ("lists/partial", "cache/archives/partial"):
        os.makedirs(os.path.join(folder, path), exist_ok=True)
    os.makedirs(archives, exist_ok=True)
    sources, status = os.path.join(folder, "sources.list"), os.path.join(folder, "status")
    with open(sources, "w") as f:
        f.write(f"deb [signed-by={KEYRING}] {MIRROR} {suite} main\n")
    open(status, "w").close()
    options = {"Dir::Etc::sourcelist": sources, "Dir::Etc::sourceparts": "-", "Dir::State": folder,
               "Dir::State::lists": os.path.join(folder, "lists"), "Dir::State::status": status, "Dir::Cache": os.path.join(folder, "cache"), "Acquire::Languages": "none",
               # Otherwise root hands the download to a user who may not enter the directory.
               "APT::Sandbox::User": ""}
    apt = ["apt-get", "-q", *(word for name, value in options.items() for word in ("-o", f"{name}={value}"))]
    _run([*apt, "update"], folder)
    _run([*apt, "download", *packages], archives)
    for archive in sorted(os.listdir(archives)):
        if archive.endswith(".deb"):
            _run(["dpkg-deb", "-x", os.path.join(archives, archive), root], folder)
    with open(mark, "w") as f:
        f.write(wanted)


def _run(argv, folder):
    try:
        ran = subprocess.run(argv, cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                             text=True, timeout=300)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Unavailable(str(error)) from error
    if ran.returncode != 0:
        raise Unavailable(f"{argv[0]} {argv[-1]}: {ran.stdout.strip()[-200:]}")


def _read(path):
    try:
        with open(path) as f:
            return f.read()
    except OSError:
        return None
