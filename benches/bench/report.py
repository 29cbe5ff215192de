"""The report: a table for each row, the targets, and the rows in which Weir is not ahead.

Every figure comes from the raw results; this file measures and judges nothing itself.
"""

from .results import spread
from .servers import BY_NAME as SERVER_BY_NAME, PARTS
from .workloads import IDLE_BYTES_MAX, LOG_MAX, LOGGED, ROWS, TARGETS, UNLOGGED

BEGIN, END = "<!-- results: begin -->", "<!-- results: end -->"
PEERS = ["nginx", "h2o", "lighttpd", "ceiling"]
NOISY_SHARE = 0.05
# Reference programs, not servers to be compared with.
NOT_PEERS = {"weir", "ceiling", *(part.name for part in PARTS)}


def number(value, digits=3):
    """A figure with about this many significant digits and thousands separators."""
    if value is None:
        return "-"
    if abs(value) >= 10 ** (digits - 1):
        return f"{value:,.0f}"
    for places in range(digits):
        if abs(value) >= 10 ** (digits - 1 - places):
            return f"{value:.{places}f}"
    return f"{value:.{digits - 1}f}"


def ranged(values, scale=1.0):
    """Median with lowest and highest, or the single value."""
    found = spread([v * scale for v in values])
    if len(values) == 1:
        return number(found[0])
    return "-" if not found else f"{number(found[0])} ({number(found[1])}-{number(found[2])})"


def ratio(found):
    return "-" if not found else f"{found[0]:.2f} ({found[1]:.2f}-{found[2]:.2f})"


def machine_text(results):
    """Machine and settings of the results."""
    run = results.runs[-1]
    m = run["machine"]
    lines = [
        f"- Machine: {m['cpu']}, {m['cores']} cores{' (virtual machine)' if m['virtual'] else ''}, "
        f"{m['memory_mib']:,} MiB, {m['system']}, Linux {m['kernel']}, clock source {m['clock_source']}.",
        f"- Server on core {m['server_core']}, client on core {m['client_core']}"
        f"{' (the same: this machine has one)' if m['server_core'] == m['client_core'] else ''}; "
        f"loopback in {run['network']}; congestion control {m['congestion_control']}.",
        f"- {run['repetitions']} repetitions of {number(run['seconds'])} s, interleaved; load average at the start "
        f"{(m['load_average'] or '?').split()[0]}.",
        f"- Command: `{run['command']}`",
        "- Versions: " + "; ".join(f"{name}: {said}" for name, said in results.versions().items()
                                   if name != "nginx-nopush-off") + f"; client: {run['client']}.",
    ]
    if run["skipped"]:
        lines.append("- Skipped: " + "; ".join(f"{name}: {why}" for name, why in run["skipped"].items()) + ".")
    noisy = [c for c in results.cells.values() if c["status"] == "ok" and c.get("foreign_share", 0) > NOISY_SHARE]
    total = sum(c["status"] == "ok" for c in results.cells.values())
    lines.append(f"- {len(noisy)} of {total} cells shared a core with more than {NOISY_SHARE:.0%} of foreign work"
                 f"{': the machine was busy, absolute figures are too high' if len(noisy) * 4 > total else ''}.")
    return lines


def load_table(results, row):
    lines = [f"### {row.title}", "",
             "| server | CPU µs/request | user share | requests/s | p50 µs | p99 µs | switches/request | server busy | client busy | "
             + " | ".join(f"of {peer}" for peer in PEERS) + " |",
             "|---" * (9 + len(PEERS)) + "|"]
    present = results.servers(row.name)
    for name in SERVER_BY_NAME:
        if name not in present:
            continue
        faults = results.faults(row.name, name)
        cells = results.good(row.name, name)
        if not cells:
            lines.append(f"| {name} | invalid: {faults[-1]} |" + " |" * (7 + len(PEERS)))
            continue
        get = lambda field: results.values(row.name, name, field)
        busy = spread(get("server_busy"))[0]
        client = spread(get("client_busy"))[0]
        ratios = ["-" if peer == name else ratio(results.ratio(row.name, name, peer, "cpu_us")) for peer in PEERS]
        note = f" ({len(faults)} invalid: {faults[-1]})" if faults else ""
        lines.append(f"| {name}{note} | {ranged(get('cpu_us'))} | {spread(get('user_share'))[0]:.0%} "
                     f"| {ranged(get('requests_per_s'))} | {number(spread(get('p50_us'))[0])} "
                     f"| {number(spread(get('p99_us'))[0])} | {number(spread(get('switches'))[0])} "
                     f"| {busy:.0%} | {client:.0%} | " + " | ".join(ratios) + " |")
    return lines + [""]


def idle_table(results, row):
    lines = [f"### {row.title}", "",
             "| server | growth, B per connection | anonymous part | resident before, KiB | kernel, B per connection (both ends) | connections |",
             "|---|---|---|---|---|---|"]
    present = results.servers(row.name)
    for name in SERVER_BY_NAME:
        if name not in present:
            continue
        faults = results.faults(row.name, name)
        if not results.good(row.name, name):
            lines.append(f"| {name} | invalid: {faults[-1]} | | | | |")
            continue
        get = lambda field: results.values(row.name, name, field)
        lines.append(f"| {name} | {ranged(get('idle_bytes'))} | {ranged(get('idle_anonymous_bytes'))} "
                     f"| {number(spread(get('resident_before'))[0] / 1024)} | {ranged(get('idle_kernel_bytes'))} "
                     f"| {max(get('connections')):,} |")
    return lines + [""]


def targets(results):
    """(row, measure, bound, text of the result, met or None) for every target; None if it was not measured."""
    checked = []
    for target in TARGETS:
        field = "requests_per_s" if target.measure == "throughput" else "cpu_us"
        found = results.ratio(target.row, "weir", target.peer, field)
        what = ("requests/s" if target.measure == "throughput" else "CPU per request") + f" of {target.peer}"
        bound = f"{'at least' if target.measure == 'throughput' else 'at most'} {target.bound:g}"
        checked.append((target.row, what, bound, ratio(found), target.met(found[0]) if found else None))
    found = results.ratio_of_rows(LOGGED, UNLOGGED, "weir", "cpu_us")
    checked.append((LOGGED, f"CPU per request of {UNLOGGED}, without a log", f"at most {LOG_MAX:g}", ratio(found),
                    found[0] <= LOG_MAX if found else None))
    grown = results.values("idle", "weir", "idle_bytes")
    checked.append(("idle", "resident growth per connection", f"at most {IDLE_BYTES_MAX} B", ranged(grown),
                    spread(grown)[0] <= IDLE_BYTES_MAX if grown else None))
    return checked


def target_table(results):
    words = {True: "met", False: "**not met**", None: "not measured"}
    lines = ["### Targets", "", "| row | measure | target | measured, median (lowest-highest) | |", "|---|---|---|---|---|"]
    return lines + [f"| {row} | {what} | {bound} | {found} | {words[met]} |"
                    for row, what, bound, found, met in targets(results)] + [""]


def behind(results):
    """One line per row and measure in which a server is ahead of Weir, by the median of paired ratios. A lead
    within the spread (some repetition contradicts it) is marked.
    """
    lines = []
    for row in ROWS:
        others = [name for name in SERVER_BY_NAME if name in results.servers(row.name) - NOT_PEERS]
        if row.idle:
            fields = (("idle_bytes", "growth per connection", False),)
        else:
            fields = (("cpu_us", "CPU per request", False), ("requests_per_s", "requests per second", True),
                      ("p99_us", "99th percentile of latency", False))
        for field, what, more in fields:
            ahead = []
            for name in others:
                found = results.ratio(row.name, "weir", name, field)
                if found and (found[0] < 1 if more else found[0] > 1):
                    within = ", within the spread" if found[1] <= 1 <= found[2] else ""
                    ahead.append(f"{found[0]:.2f} of {name}'s{within}")
            if ahead:
                lines.append(f"- {row.title}: {what} is {'; '.join(ahead)}.")
    return lines


def markdown(results):
    """The whole report."""
    lines = machine_text(results) + [""]
    measured = results.rows()
    has_weir = any(server == "weir" and cell["status"] == "ok" for (_, server, _), cell in results.cells.items())
    if has_weir:
        lines += target_table(results)
    for row in ROWS:
        if row.name in measured:
            lines += idle_table(results, row) if row.idle else load_table(results, row)
    if has_weir:
        lines += ["### Where Weir is not ahead", ""] + (behind(results) or ["Nowhere in these rows."]) + [""]
    return "\n".join(lines)


def write_into(path, text):
    """Replaces the text between the two markers of a document."""
    with open(path) as f:
        document = f.read()
    before, begin, rest = document.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"{path} lacks the lines {BEGIN} and {END}")
    with open(path, "w") as f:
        f.write(f"{before}{begin}\n\n{text}\n{end}{after}")
