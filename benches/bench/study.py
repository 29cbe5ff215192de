"""A table from many short runs: flags, continuation of interrupted runs, markers in a document.

Knows nothing of the measurement. A study supplies its cells (row, server, repetition), a function that measures one,
and one that makes the table. A failed or invalid cell is kept with the reason and measured again next time.
"""

import argparse
import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from . import machine, report
from .load import Failed, version
from .results import Results

HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
BUILT = [os.path.join(os.path.dirname(HERE), "target", profile, "weir") for profile in ("dist", "debug")]
SMOKE_S = 1


class Missing(Exception):
    """A program is missing: the cell is skipped, and the table says so."""


def parser(doc, reps, seconds):
    p = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--weir", metavar="PATH",
                   help="the binary to measure (default: target/dist/weir; --smoke also takes target/debug/weir)")
    p.add_argument("--reps", type=int, default=None, metavar="N", help=f"repetitions (default {reps})")
    p.add_argument("--seconds", type=float, default=None, metavar="S", help=f"length of one run (default {seconds})")
    p.add_argument("--quick", action="store_true", help="small and short: a check that it works, not a measurement")
    p.add_argument("--smoke", action="store_true", help="like --quick with a second per run, keeping nothing: a check that everything works")
    p.add_argument("--only", metavar="A,B", help="only these columns or programs")
    p.add_argument("--rows", metavar="A,B", help="only these rows")
    p.add_argument("--out", metavar="DIR", help="directory for results; continues an interrupted run (default: new, in benches/out)")
    p.add_argument("--report", action="store_true", help="report the results in --out without measuring")
    p.add_argument("--docs", metavar="FILE", help="also write the table between the markers in this document")
    return p


def conditions(results):
    """Conditions of the measurement as a Markdown list."""
    run = results.runs[-1]
    m = run["machine"]
    loads = [cell["load_average"].split()[0] for cell in results.cells.values() if cell.get("load_average")]
    return [
        f"- Machine: {m['cpu']}, {m['cores']} cores{' (virtual machine)' if m['virtual'] else ''}, {m['memory_mib']:,} MiB, "
        f"Linux {m['kernel']}; server on core {m['server_core']}, client on core {m['client_core']}, loopback, "
        f"{m['congestion_control']}.",
        f"- Load average when cells began: {min(loads, key=float)} to {max(loads, key=float)}"
        f"{': others used these cores too' if loads and max(map(float, loads)) > 2.5 else ''}." if loads else "- No cells.",
        "- Versions: " + "; ".join(f"{name}: {said}" for name, said in run["versions"].items()) + ".",
        f"- Command: `{run['command']}`, {time.strftime('%Y-%m-%d', time.gmtime(run['at']))}.",
    ]


def main(name, doc, *, cells, measure, table, marks, reps, seconds, programs=None, extra=None, setup=None,
         conditions=conditions):
    """Runs a study to its end and returns its exit code.

    `cells(a)` are its cells. `measure(a, folder, row, server)` measures one and returns its fields (`why` makes it
    invalid). `table(results)` are lines of Markdown. `programs` are other programs with their version commands.
    `conditions(results)` replaces the default text if the study does not run on loopback with a core for each end.
    """
    p = parser(doc, reps, seconds)
    if extra:
        extra(p)
    a = p.parse_args()
    if a.report and not a.out:
        p.error("--report needs --out DIR")
    a.quick |= a.smoke
    a.weir = a.weir or (next(filter(os.path.exists, BUILT), BUILT[0]) if a.smoke else BUILT[0])
    a.reps = a.reps or (1 if a.quick else reps)
    a.seconds = a.seconds or (SMOKE_S if a.smoke else min(seconds, 3) if a.quick else seconds)
    signal.signal(signal.SIGTERM, interrupted)
    scratch = tempfile.mkdtemp(prefix=f"weir-{name}-")
    kept = os.path.join(HERE, "out", time.strftime(f"{name}-%Y%m%d-%H%M%S"))
    folder = a.out or (os.path.join(scratch, "out") if a.smoke else kept)
    results = Results(folder)
    try:
        if not a.report:
            said = {"weir": version([a.weir, "--version"])}
            if not said["weir"]:
                print(f"{name}: no program {a.weir}; build it with cargo build --profile dist", file=sys.stderr)
                return 2
            said.update({program: version(argv) or "not installed" for program, argv in (programs or {}).items()})
            results.append("run", machine=machine.facts(), versions=said, servers={}, at=time.time(), seconds=a.seconds,
                           command=" ".join([f"benches/{name}", *map(os.path.basename, sys.argv[1:])]))
            with setup(a, scratch) if setup else contextlib.nullcontext():
                carry_out(a, scratch, results, chosen(a, cells(a)), measure)
        return finish(a, results, table, marks, conditions)
    except KeyboardInterrupt:
        print("\ninterrupted" if a.smoke else f"\ninterrupted; continue with --out {folder}")
        return 130
    except (Failed, subprocess.CalledProcessError, OSError) as error:
        print(f"{name}: {error}", file=sys.stderr)
        return 4
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def chosen(a, cells):
    rows, servers = (text.split(",") if text else None for text in (a.rows, a.only))
    return [cell for cell in cells if (not rows or cell[0] in rows) and (not servers or cell[1] in servers)]


def carry_out(a, scratch, results, cells, measure):
    cells = [cell for cell in cells if not results.finished(*cell)]
    for done, (row, server, repetition) in enumerate(cells):
        cell = {"status": "ok", "load_average": machine.facts()["load_average"]}
        try:
            cell.update(measure(a, scratch, row, server))
            if cell.get("why"):
                # A busy machine's effect on a run of a second does not count against a smoke test.
                cell["status"] = "ok" if a.smoke else "invalid"
        except Missing as error:
            cell.update(status="skipped", why=str(error))
        except (Failed, OSError, ValueError, KeyError, subprocess.SubprocessError) as error:
            cell.update(status="invalid", why=f"{type(error).__name__}: {error}".replace("\n", " ")[:300])
        results.append("cell", row=row, server=server, repetition=repetition, at=time.time(), **cell)
        told = cell.get("why") or ", ".join(f"{k} {report.number(v)}" for k, v in cell.items() if isinstance(v, (int, float)))
        print(f"[{done + 1}/{len(cells)}] {row} {server}: {cell['status']}: {told}", flush=True)


def finish(a, results, table, marks, conditions=conditions):
    if not results.runs:
        print("no results yet", file=sys.stderr)
        return 2
    text = "\n".join([*conditions(results), "", *table(results)])
    print(text)
    if a.docs:
        report.BEGIN, report.END = (f"<!-- {marks}: {end} -->" for end in ("begin", "end"))
        report.write_into(a.docs, text)
    invalid = [cell for cell in results.cells.values() if cell["status"] == "invalid"]
    for cell in invalid:
        print(f"invalid: {cell['row']} {cell['server']}: {cell['why']}", file=sys.stderr)
    return 3 if invalid else 0


def interrupted(*_):
    raise KeyboardInterrupt
