"""A server and a load at the two ends of an emulated link (`weir link`), each in its own network namespace."""

import json
import os
import shlex
import subprocess

from . import Refused
from .served import result_of

ADDRESS = "198.18.0.1:8080"
# Acceptable share of packets late by more than a millisecond: the limit of `weir link` itself.
LATE_MAX = 0.01


def serving(a, site, setting):
    """Command of a server at the far end."""
    return [a.weir, "-q", "serve", site, "--listen", "0.0.0.0:8080", "--landlock", "off", "--adapt", "off", "--workers", "1", *setting]


def run(a, link, site, setting, options, seconds):
    """The load's result, and samples of the link's counters. `link` is the text of one LINK."""
    results, counters = run_beside(a, link, serving(a, site, setting), [options], seconds)
    return results[0], counters


def run_beside(a, link, far, loads, seconds):
    """The same for any server's command, with the results of several parallel loads."""
    log = os.path.join(a.scratch, "link.jsonl")
    said = [os.path.join(a.scratch, f"load-{number}.jsonl") for number in range(len(loads))]
    commands = [f"{shlex.join([a.weir, '--json', 'load', f'http://{ADDRESS}/', *options])} > {shlex.quote(path)}"
                for options, path in zip(loads, said)]
    made = subprocess.run([a.weir, "link", " ".join(link), "--log", log, "--far", shlex.join(far), "--far-ready", "8080", "--", "sh", "-c",
                           f"{' & '.join(commands)}; wait"],
                          capture_output=True, text=True, timeout=seconds + 120)
    if made.returncode == 4:
        raise Refused(f"no link: {made.stderr.strip()[-200:]}")
    results = []
    for path in said:
        try:
            with open(path) as f:
                made.stdout = f.read()
        except FileNotFoundError:
            made.stdout = ""
        results.append(result_of(made))
    with open(log) as f:
        counters = [json.loads(line) for line in f if line.startswith("{")]
    return results, counters


def punctual(counters):
    """Lateness of the latest packet in ms; fails if so many were late that the link was not as specified."""
    last = counters[-1]
    packets = last["up"]["packets_out"] + last["down"]["packets_out"]
    if last["late"] > LATE_MAX * packets:
        raise OSError(f"{last['late']} of {packets} packets were late, because the machine was too busy")
    return last["late_max_ms"]
