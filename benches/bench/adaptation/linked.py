"""A server and a load at the two ends of an emulated link (`weir link`), each in a network of its own."""

import json
import os
import shlex
import subprocess

from . import Refused
from .served import result_of

ADDRESS = "198.18.0.1:8080"


def run(a, link, site, setting, options, seconds):
    """The load's result, and the link's counters from time to time. `link` is said as words of one LINK."""
    log = os.path.join(a.scratch, "link.jsonl")
    far = shlex.join([a.weir, "-q", "serve", site, "--listen", "0.0.0.0:8080", "--landlock", "off", "--adapt", "off", "--workers", "1",
                      *setting])
    made = subprocess.run([a.weir, "link", " ".join(link), "--log", log, "--far", far, "--far-ready", "8080", "--", a.weir, "--json",
                           "load", f"http://{ADDRESS}/", *options],
                          capture_output=True, text=True, timeout=seconds + 120)
    if made.returncode == 4:
        raise Refused(f"no link: {made.stderr.strip()[-200:]}")
    result = result_of(made)
    with open(log) as f:
        counters = [json.loads(line) for line in f if line.startswith("{")]
    return result, counters
