"""Experiments on what the server adapts by itself: one class each, with the same interface.

An experiment compares all settings under loads that favor different settings. Its method is described in words and
constants here; the script (`benches/adaptation`) has the order of runs, the results and the tables.
"""


class Refused(Exception):
    """The system cannot run the experiment."""


class Experiment:
    """Interface of all experiments. `measure` runs one setting under one load and returns a cell of results."""

    # Load: its description, or a number. Setting: flags of the server, or any value that `measure` understands.
    LOADS = {}
    SETTINGS = {}
    # The setting compared with the others: the adaptive one, or the default where nothing adapts.
    JUDGED = "adaptive"
    # Measures that judge it: (field, whether more is better, and the loads it counts under, if not all).
    MEASURES = ()
    # The table's note and its first two headings; then (field, heading, digits, whether the spread is shown).
    HEAD = ""
    FIRST = ("load", "setting")
    FIELDS = ()

    def __init__(self, a, scratch, results):
        """`a.seconds` is the length of a run; a quick run only checks that it works. `results`: those known
        already.
        """

    @classmethod
    def named(cls, load):
        return f"{load}, {cls.LOADS[load]}"

    def measure(self, a, load, setting, repetition):
        raise NotImplementedError

    def versions(self):
        """Versions of the other programs in use."""
        return {}

    @classmethod
    def compared(cls, results, row, load):
        """Extra lines of this experiment's verdict."""
        return []

    def close(self):
        pass


def every():
    """Name: experiment."""
    from . import admission, cache, coding, disk, order, pacing, strategy
    return {"keep-alive": disk.KeepAlive, "keep-alive-loop": disk.KeepAliveLoop, "cold-reads": disk.ColdReads, "cache": cache.CachePolicy,
            "strategy": strategy.Strategy, "order": order.Order, "admission": admission.Admission, "coding": coding.Coding,
            "pacing": pacing.Pacing}
