"""Raw results as JSON lines, and figures derived from them: medians, spread, paired ratios, targets met.

One line per run (machine, versions, settings) and one per cell (row x server x repetition). A ratio is taken between
two cells of the same repetition, which ran within seconds of each other; then the median over the repetitions is taken.
So a machine that slows down for a minute affects both cells.
"""

import json
import os
from statistics import median

VERSION = 1


class Results:
    """The results in one directory: existing ones are read, new ones appended at once."""

    def __init__(self, folder):
        self.path = os.path.join(folder, "raw.jsonl")
        self.runs, self.cells = [], {}
        os.makedirs(folder, exist_ok=True)
        if os.path.exists(self.path):
            with open(self.path) as f:
                for line in f:
                    try:
                        self._take(json.loads(line))
                    except ValueError:
                        continue  # the line an interrupted run was writing

    def _take(self, record):
        if record["kind"] == "run":
            self.runs.append(record)
        else:
            self.cells[record["row"], record["server"], record["repetition"]] = record

    def append(self, kind, **fields):
        record = {"version": VERSION, "kind": kind, **fields}
        with open(self.path, "a+b") as f:
            if f.tell():
                f.seek(-1, os.SEEK_END)
                if f.read(1) != b"\n":
                    f.write(b"\n")
            f.write(json.dumps(record).encode() + b"\n")
        self._take(record)
        return record

    def finished(self, row, server, repetition):
        cell = self.cells.get((row, server, repetition))
        return cell is not None and cell["status"] == "ok"

    def identities(self):
        """Server -> the identity with which its cells were measured."""
        found = {}
        for run in self.runs:
            found.update({name: known["identity"] for name, known in run["servers"].items()})
        return found

    def versions(self):
        found = {}
        for run in self.runs:
            found.update({name: known["version"] for name, known in run["servers"].items()})
        return found

    def rows(self):
        return {row for row, _, _ in self.cells}

    def servers(self, row):
        return {server for r, server, _ in self.cells if r == row}

    def good(self, row, server):
        """Repetition -> valid cell."""
        return {n: cell for (r, s, n), cell in sorted(self.cells.items())
                if r == row and s == server and cell["status"] == "ok"}

    def faults(self, row, server):
        """Reasons why cells of this row and server are not used."""
        return [cell["why"] for (r, s, _), cell in sorted(self.cells.items())
                if r == row and s == server and cell["status"] != "ok"]

    def values(self, row, server, field):
        return [cell[field] for cell in self.good(row, server).values() if cell.get(field) is not None]

    def ratio(self, row, server, peer, field):
        """(median, lowest, highest) of server over peer in the repetitions both have, or None."""
        return quotients(self.good(row, server), self.good(row, peer), field)

    def ratio_of_rows(self, row, base, server, field):
        """(median, lowest, highest) of a server's row over another row of it, or None."""
        return quotients(self.good(row, server), self.good(base, server), field)


def quotients(ours, theirs, field):
    """Spread of one field of ours over theirs, in the repetitions both have."""
    return spread([ours[n][field] / theirs[n][field] for n in ours.keys() & theirs.keys()
                   if theirs[n].get(field) and ours[n].get(field) is not None])


def spread(values):
    """(median, lowest, highest), or None of nothing."""
    return (median(values), min(values), max(values)) if values else None
