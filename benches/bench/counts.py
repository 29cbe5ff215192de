"""Parses counts in the output of strace and callgrind."""

import re


def system_calls(table):
    """Call -> number of calls, from strace's table."""
    counts = {}
    for line in table.splitlines():
        field = line.split()
        if len(field) >= 5 and field[0][0].isdigit() and field[-1] != "total":
            counts[field[-1]] = counts.get(field[-1], 0) + int(field[3])
    return counts


def instructions(said):
    """Instructions that callgrind collected, or None if it did not report any."""
    total = re.search(r"Collected : (\d+)", said)
    return int(total.group(1)) if total else None
