"""Tables and figures of hardneg-papers' docs/results/when.md, from the metrics.json of finished runs.

    python benchmarks/doses.py siblings 0=runs/siblings-0 all=runs/siblings-all --figure when-siblings.svg
    python benchmarks/doses.py false-negatives runs/false-negatives --figure when-false-negatives.svg
    python benchmarks/doses.py metrics runs/metrics --figure when-metrics.svg
    python benchmarks/doses.py temperature 0.01=runs/temperature/metrics-scores-0.01.json 0.05=runs/temperature
    python benchmarks/doses.py refresh runs/refresh --baseline "top 10" --figure when-refresh.svg

Tests are those of the files, over queries and seeds. The 90 % interval is from the same error and degrees of freedom as
the 95 % one; p is before Holm's correction, then after. Of several doses with the same queries, the gaps of the top 10
are compared too, each with each later one; their p are not corrected.
"""

import argparse
import json
import re
from collections.abc import Mapping, Sequence
from itertools import combinations, product
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import t

from hardneg.evaluation.intervals import SeedTable, Spread, group_index, mean_variance, spread
from hardneg.records import METRICS
from hardneg.report.figure import COLOURS, MARKERS, Points, figure, lines, plain_axes

Content = Mapping[str, Any]
"""What a metrics.json holds."""

SHARE = re.compile(r"(?P<arm>.+), (?P<share>\d+) % false")


def read(run: Path) -> Content:
    """What a run folder's metrics.json holds, or another file of metrics in it."""
    content: Content = json.loads((run / METRICS if run.is_dir() else run).read_text("utf-8"))
    return content


def ends(test: Mapping[str, Any], level: float) -> tuple[float, float]:
    """The ends of the two-sided interval of a test's difference."""
    half = float(t.ppf((1 + level) / 2, test["freedom"])) * test["error"]
    return test["difference"] - half, test["difference"] + half


def shown(value: float, signed: bool = True) -> str:
    return re.sub(r"^([+-]?)0\.", r"\1.", f"{value:{'+' if signed else ''}.3f}")


def print_means(content: Content) -> None:
    """A row a system: its means, in brackets the deviation over seeds."""
    metrics = list(next(iter(content["metrics"].values())))
    print(f"| system | {' | '.join(metrics)} |\n|---|{'---|' * len(metrics)}")
    for system, means in content["metrics"].items():
        cells = [shown(means[metric], signed=False) + deviation(content, system, metric) for metric in metrics]
        print(f"| {system} | {' | '.join(cells)} |")
    print()


def deviation(content: Content, system: str, metric: str) -> str:
    seeds = content.get("per_seed", {}).get(system, {})
    means = [sum(scores[metric].values()) / len(scores[metric]) for scores in seeds.values()]
    if len(means) < 2:
        return ""
    centre = sum(means) / len(means)
    return f" ({shown((sum((mean - centre) ** 2 for mean in means) / (len(means) - 1)) ** 0.5, signed=False)})"


def print_tests(content: Content) -> None:
    """A row a test over queries and seeds."""
    heads = ["metric", "comparison", "difference", "90 %", "95 %", "p", "p, Holm", "verdict"]
    print(f"| {' | '.join(heads)} |\n|{'---|' * len(heads)}")
    for test in content.get("over_seeds", []):
        intervals = [" to ".join(map(shown, ends(test, level))) for level in (0.9, 0.95)]
        cells = [test["metric"], f"{test['system']} − {test['baseline']}", shown(test["difference"]), *intervals]
        print(f"| {' | '.join(cells)} | {test['t_p']:.2g} | {test['t_holm']:.2g} | {test['verdict']} |")
    print()


def gap_between(one: Content, other: Content, baseline: str, metric: str) -> Spread:
    """How much larger the gap of the top 10 over a baseline is at one dose than at another, over queries and seeds.

    Four systems on the same queries; their seeds are taken as independent, so that the parts by seeds add up. Where
    queries come in groups, groups are the draws.
    """
    tables = [table_of(content, system, metric) for content in (one, other) for system in ("top 10", baseline)]
    by_query = sum(sign * table.mean(axis=0) for sign, table in zip((1, -1, -1, 1), tables, strict=True))
    groups = group_index(sorted(query_ids(one, "top 10", metric)), one.get("query_groups"))
    parts = [spread([table], groups) for table in tables]
    seeds, rest = tuple(part.seeds[0] for part in parts), tuple(part.rest[0] for part in parts)
    return Spread(float(np.mean(by_query)), mean_variance(np.asarray(by_query), groups), seeds, rest)


def table_of(content: Content, system: str, metric: str) -> SeedTable:
    """The scores [seeds, queries] of a system, queries in the order of their ids."""
    rows = [scores[metric] for scores in content["per_seed"][system].values()]
    return np.array([[row[query_id] for query_id in sorted(row)] for row in rows], np.float64)


def query_ids(content: Content, system: str, metric: str) -> set[str]:
    """The queries of a system that has several seeds; none of another."""
    seeds = list(content.get("per_seed", {}).get(system, {}).values())
    return set(seeds[0][metric]) if len(seeds) > 1 else set()


def print_gaps(contents: Mapping[str, Content], metric: str) -> None:
    """The gap at each dose less that at each later one, where both have the systems and the same queries."""
    print(f"| {metric}: gap of the top 10 | over | difference | 95 % | p |\n|---|---|---|---|---|")
    for ((first, one), (label, other)), baseline in product(combinations(contents.items(), 2), ("random", "in-batch")):
        asked = [query_ids(content, system, metric) for content in (one, other) for system in ("top 10", baseline)]
        if not asked[0] or any(ids != asked[0] for ids in asked):
            continue
        found = gap_between(one, other, baseline, metric)
        interval = f"{shown(found.interval.low)} to {shown(found.interval.high)}" if found.interval else ""
        print(f"| {first} − {label} | {baseline} | {shown(found.mean)} | {interval} | {found.p:.2g} |")
    print()


def test_of(content: Content, system: str, baseline: str, metric: str) -> Mapping[str, Any]:
    """The test of a difference; one that stands the other way round in the file is turned."""
    for test in content["over_seeds"]:
        if (test["system"], test["baseline"], test["metric"]) == (system, baseline, metric):
            return dict(test)
        if (test["baseline"], test["system"], test["metric"]) == (system, baseline, metric):
            return test | {"difference": -test["difference"]}
    raise SystemExit(f"no test of {system} against {baseline} by {metric}: is it among the baselines of the run?")


def arms(contents: Sequence[Content], metric: str) -> dict[str, Points]:
    """The means of each system at each dose, numbered from 0."""
    systems = dict.fromkeys(system for content in contents for system in content["metrics"])
    rows = list(enumerate(contents))
    return {
        name: [(dose, each["metrics"][name][metric]) for dose, each in rows if name in each["metrics"]]
        for name in systems
    }


DOSES = {
    "siblings": "siblings of each target passage",
    "temperature": "temperature",
    "batches": "queries in a batch",
    "corpus": "share of the groups",
}
"""What is varied from run to run."""

ROWS = ("metrics", "depth", "refresh", "start")
"""Doses that are rows of one run."""


def draw_doses(contents: Mapping[str, Content], metric: str, path: Path, varied: str) -> None:
    """Means by dose, and how far the top 10 are above the baselines, with 95 % intervals."""
    with figure([path], 2) as (left, right):
        lines(left, arms(list(contents.values()), metric))
        for number, baseline in enumerate(("random", "in-batch")):
            rows = {
                dose + 0.04 * number: test_of(content, "top 10", baseline, metric)
                for dose, content in enumerate(contents.values())
                if baseline in content["metrics"]
            }
            values, look = [test["difference"] for test in rows.values()], {"color": COLOURS[number], "capsize": 4}
            off = [value - ends(test, 0.95)[0] for value, test in zip(values, rows.values(), strict=True)]
            right.errorbar(list(rows), values, yerr=off, marker=MARKERS[number], label=f"top 10 − {baseline}", **look)
        right.legend(frameon=False, fontsize=8)
        right.axhline(0, color="grey", linewidth=0.8)
        for axes, title, y in ((left, "arms", metric.upper()), (right, "top 10, with 95 % intervals", "difference")):
            plain_axes(axes, title, varied, y)
            axes.set_xticks(range(len(contents)), list(contents))


def draw_false_negatives(content: Content, metric: str, path: Path) -> None:
    """Means by the share of planted false negatives; rows without a share are lines across, `top 10` is share 0."""
    curves: dict[str, Points] = {"top 10": [(0, content["metrics"]["top 10"][metric])]}
    across: dict[str, Points] = {}
    for system, means in content["metrics"].items():
        if match := SHARE.fullmatch(system):
            curves.setdefault(match["arm"], []).append((int(match["share"]), means[metric]))
        elif system in ("random", "in-batch"):
            across[system] = [(0, means[metric]), (50, means[metric])]
    with figure([path], 1) as (axes,):
        lines(axes, curves | across)
        plain_axes(axes, metric.upper(), "queries whose negatives are positives (%)", metric.upper())


def draw_metrics(content: Content, path: Path, baseline: str) -> None:
    """How far systems are above one of them by each metric, with 95 % intervals."""
    metrics = list(content["metrics"][baseline])
    systems = [name for name in content["per_seed"] if name != baseline]
    with figure([path], 1, width=6.4) as (axes,):
        for number, system in enumerate(systems):
            tests = [test_of(content, system, baseline, metric) for metric in metrics]
            x = [row + 0.8 * (number / max(1, len(systems) - 1) - 0.5) * 0.5 for row in range(len(metrics))]
            values = [test["difference"] for test in tests]
            off = [value - ends(test, 0.95)[0] for value, test in zip(values, tests, strict=True)]
            look = {"color": COLOURS[number], "fmt": "o", "capsize": 3, "label": system}
            axes.errorbar(x, values, yerr=off, **look)
        axes.axhline(0, color="grey", linewidth=0.8)
        plain_axes(axes, f"above {baseline}, 95 %", "", "difference")
        axes.set_xticks(range(len(metrics)), [metric.upper() for metric in metrics])
        axes.legend(frameon=False, fontsize=8)


def main() -> None:
    parser = argparse.ArgumentParser(description="Tables and figures of doses.")
    parser.add_argument("dose", choices=[*DOSES, *ROWS, "false-negatives"])
    parser.add_argument("runs", nargs="+", help="run folders, each with its dose in front: 0=FOLDER")
    parser.add_argument("--metric", default="mrr@10")
    parser.add_argument("--baseline", default="random")
    parser.add_argument("--figure", type=Path)
    options = parser.parse_args()
    contents = {run.rpartition("=")[0]: read(Path(run.rpartition("=")[2])) for run in options.runs}
    for label, content in contents.items():
        print(f"dose {label}\n" if label else "")
        print_means(content)
        print_tests(content)
    first = next(iter(contents.values()))
    if options.dose in DOSES and len(contents) > 1:
        print_gaps(contents, options.metric)
    if options.figure and options.dose in DOSES:
        draw_doses(contents, options.metric, options.figure, DOSES[options.dose])
    elif options.figure and options.dose in ROWS:
        draw_metrics(first, options.figure, options.baseline)
    elif options.figure:
        draw_false_negatives(first, options.metric, options.figure)


if __name__ == "__main__":
    main()
