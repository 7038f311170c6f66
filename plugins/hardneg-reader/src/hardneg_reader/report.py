"""What `read` stages measured, as one section of a report: a row for each run and number of passages."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from hardneg.plugin import Section, Table, estimates, numbers, read_metrics, significance
from hardneg_reader.read import SYSTEM

if TYPE_CHECKING:
    from hardneg.plugin import Scores

_COLUMNS = ("read from", "passages", "exact match", "95 % interval", "F1", "difference", "t-test p", "randomised p")


def reading_section(measured: Mapping[str, Path]) -> Section:
    """Exact match and F1 by label of a file of metrics, and tests against the first label's exact match.

    Source: Qu et al., RocketQA (NAACL 2021), Table 5.
    """
    systems = {label: read_metrics(path).results[SYSTEM] for label, path in measured.items()}
    first = next(iter(systems))
    matches = {
        label: {name: values for name, values in scores.items() if name in systems[first] and _count(name)}
        for label, scores in systems.items()
    }
    tests = {(test.system, test.metric): test for test in significance.compare_all(matches, (first,))}
    rows = [row for label, scores in systems.items() for row in _rows(label, scores, tests)]
    explained = (
        "An answer counts as an exact match where it is one of the known ones after normalisation; F1 is over words. "
        f"Differences in exact match and p values, after Holm's correction, against {first} with as many passages."
    )
    return Section("Reading", [Table(_COLUMNS, rows)], explained)


def _count(metric: str) -> str:
    """The number of passages of an exact match; empty for other metrics."""
    name, _, count = metric.partition("@")
    return count if name == "exact_match" else ""


def _rows(
    label: str, scores: "Scores", tests: "Mapping[tuple[str, str], significance.Comparison]"
) -> list[Sequence[str]]:
    means, rows = estimates(scores), list[Sequence[str]]()
    for metric in scores:
        if count := _count(metric):
            test = tests.get((label, metric))
            tested = ["–"] * 3
            if test is not None:
                tested = [
                    numbers.signed(test.difference),
                    numbers.p_value(test.t_holm),
                    numbers.p_value(test.randomisation_holm),
                ]
            measured = [
                numbers.number(means[metric].mean),
                numbers.bounds(means[metric].interval),
                numbers.number(means[f"f1@{count}"].mean),
            ]
            rows.append([label, count, *measured, *tested])
    return rows
