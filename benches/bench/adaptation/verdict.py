"""Distance of the judged setting from the best and the worst of the others, within repetitions."""

from statistics import median

# Settings within this share of the best count as equally good.
NEAR = 0.05
# Settings that complete a smaller share of the work are not compared in other measures.
DOES_ITS_WORK = 0.9


def lines(experiment, results, row, load):
    """A line per measure for which the judged setting and another were measured."""
    ours = experiment.JUDGED
    others = [name for name in experiment.SETTINGS if name != ours and results.good(row, name)]
    if not others or not results.good(row, ours):
        return []
    out, able = [], set(others)
    for field, more, *where in experiment.MEASURES:
        if where and load not in where:
            continue
        heading = next(heading for name, heading, *_ in experiment.FIELDS if name == field)
        middle = {name: median(values) for name in able if (values := results.values(row, name, field))}
        middle = {name: value for name, value in middle.items() if value}
        if not middle or not results.values(row, ours, field):
            continue
        best = (max if more else min)(middle, key=middle.get)
        worst = (min if more else max)(middle, key=middle.get)
        if more:
            able = {name for name in able if middle.get(name, 0) >= DOES_ITS_WORK * middle[best]}
        beside = results.ratio(row, ours, best, field)
        against = results.ratio(row, ours, worst, field)
        if not beside or not against:
            continue
        is_near = beside[0] >= 1 - NEAR if more else beside[0] <= 1 + NEAR
        out.append(f"- {experiment.named(load)}, {heading}: {ours} has {shown(beside)} of the best of the others ({best}), "
                   f"{shown(against)} of the worst ({worst}); within 5 % of the best: {'yes' if is_near else '**no**'}.")
    return out


def shown(ratio):
    middle, lowest, highest = ratio
    return f"{middle:.2f} ({lowest:.2f} to {highest:.2f})" if lowest != highest else f"{middle:.2f}"
