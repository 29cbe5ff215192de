"""The experiments on what the server changes of its own accord: one class each, all of one shape.

An experiment holds every setting under loads that want opposite things of it. What it does is here in words and constants;
the order of runs, the results and the tables are the script's (`benches/adaptation`).
"""


class Refused(Exception):
    """The system lets it not be."""


class Experiment:
    """What all of them have. `measure` runs one setting under one load and gives a cell of results."""

    # Load: what it is, in words or as a number. Setting: flags of the server, or whatever `measure` makes of it.
    LOADS = {}
    SETTINGS = {}
    # The setting that is judged against the others: what adapts, or where nothing does what is there by default.
    JUDGED = "adaptive"
    # (field, whether more of it is better, and the loads it counts under, if not all): by which it is judged.
    MEASURES = ()
    # What the table says first, its first two headings, and (field, heading, digits, whether the spread is shown).
    HEAD = ""
    FIRST = ("load", "setting")
    FIELDS = ()

    def __init__(self, a, scratch, results):
        """`a.seconds` is the length of a run; a quick one is there to be run, not to be believed. `results`: what is known already."""

    @classmethod
    def named(cls, load):
        return f"{load}, {cls.LOADS[load]}"

    def measure(self, a, load, setting, repetition):
        raise NotImplementedError

    def versions(self):
        """Of other servers it has to do with."""
        return {}

    @classmethod
    def compared(cls, results, row, load):
        """Lines on what its verdict is beside that of all experiments."""
        return []

    def close(self):
        pass


def every():
    """Name: experiment."""
    from . import admission, cache, coding, disk, order, pacing, strategy
    return {"keep-alive": disk.KeepAlive, "keep-alive-loop": disk.KeepAliveLoop, "cold-reads": disk.ColdReads, "cache": cache.CachePolicy,
            "strategy": strategy.Strategy, "order": order.Order, "admission": admission.Admission, "coding": coding.Coding,
            "pacing": pacing.Pacing}
