"""Do the figures of the analysis `information` order files of negatives as trainings do?

    hardneg analyze information --json --negatives ... --index FOLDER --model NAME --queries FILE > medquad.json
    python benchmarks/information_ranks.py BENCH.md MedQuAD=medquad.json SciFact=scifact.json

Trained means are read from the tables of the page, which has a section a collection and a table a metric; the labels of
the analysis are those of its rows, without backticks. For each figure Spearman's rank correlation with the means over
the rows that both have, and p by permutation, two-sided.
"""

import argparse
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
from scipy.stats import rankdata

from hardneg.records.errors import DataError

FIGURES = {
    "information": "information",
    "weight": "mean weight",
    "above": "above the positive",
    "directions": "directions",
}
METRICS = ("MRR@10", "R@100")
DRAWS, SEED = 100_000, 1
IN_BATCH = "in-batch"


def trained_means(page: str, section: str, metric: str) -> dict[str, float]:
    """By row of the table of a metric, its mean.

    Raises:
        DataError: the page has no such table.
    """
    _, begun, after = page.partition(f"\n## {section}\n")
    _, titled, table = after.partition("\n## ")[0].partition(f"\n{metric}:\n\n")
    if not (begun and titled):
        raise DataError(f"the page has no table {metric!r} in a section {section!r}: name a section that has one")
    lines = [[cell.strip() for cell in line.strip("|").split("|")] for line in table.split("\n\n")[0].splitlines()]
    mean = lines[0].index("mean")
    return {cells[0].replace("`", ""): float(cells[mean].split()[0]) for cells in lines[2:]}


def spearman(first: Sequence[float], second: Sequence[float]) -> tuple[float, float]:
    """The correlation of ranks, and the share of permutations that have one as far from 0."""
    one, other = (each - each.mean() for each in (rankdata(first), rankdata(second)))
    scale = float(np.sqrt((one @ one) * (other @ other)))
    rho = float(one @ other) / scale
    rng = np.random.default_rng(SEED)
    drawn = np.array([rng.permutation(one) @ other for _ in range(DRAWS)]) / scale
    return rho, (1 + int((np.abs(drawn) >= abs(rho) - 1e-12).sum())) / (1 + DRAWS)


def correlations(page: str, section: str, figures: Mapping[str, Mapping[str, float]]) -> Iterator[str]:
    """A row a figure: how many arms, and for each metric the correlation and p."""
    trained = {metric: trained_means(page, section, metric) for metric in METRICS}
    labels = [label for label in figures if all(label in means for means in trained.values())]
    if missing := [label for label in figures if label not in labels]:
        yield f"| {section}: not trained: {', '.join(missing)} |"
    for name, title in FIGURES.items():
        values = [figures[label][name] for label in labels]
        pairs = [spearman(values, [means[label] for label in labels]) for means in trained.values()]
        cells = [cell for rho, p in pairs for cell in (f"{rho:+.2f}", f"{p:.4f}")]
        yield f"| {section} | {len(labels)} | {title} | {' | '.join(cells)} |"
    informed = [figures[label]["information"] for label in labels]
    weighed = spearman(informed, [figures[label]["weight"] for label in labels])[0]
    yield f"| {section} | {len(labels)} | information with mean weight {weighed:+.2f} |"


def arms(page: str, sections: Mapping[str, Mapping[str, Mapping[str, float]]]) -> Iterator[str]:
    """A row an arm: of each collection its information, and its gains over in-batch negatives."""
    trained = {(each, metric): trained_means(page, each, metric) for each in sections for metric in METRICS}
    for label in dict.fromkeys(label for figures in sections.values() for label in figures):
        cells = []
        for section, figures in sections.items():
            means = [trained[section, metric] for metric in METRICS]
            gains = [f"{each[label] - each[IN_BATCH]:+.3f}" if label in each else "" for each in means]
            cells += [f"{figures[label]['information']:.0f}" if label in figures else "", *gains]
        yield f"| {label} | {' | '.join(cells)} |"


def main() -> None:
    parser = argparse.ArgumentParser(description="Rank correlations of training-free figures with trained means.")
    parser.add_argument("page", type=Path)
    parser.add_argument("collections", nargs="+", help="SECTION=ANALYSIS.json")
    options = parser.parse_args()
    page = options.page.read_text("utf-8")
    named = (argument.partition("=") for argument in options.collections)
    sections = {section: json.loads(Path(path).read_text("utf-8")) for section, _, path in named}
    for section, figures in sections.items():
        print("\n".join(correlations(page, section, figures)))
    print("\n".join(arms(page, sections)))


if __name__ == "__main__":
    main()
