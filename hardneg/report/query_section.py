"""Results by query: gains and losses against the baseline, the largest differences, and a file of all queries."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import islice
from pathlib import Path
from statistics import fmean
from typing import Any

from hardneg.evaluation import metrics
from hardneg.evaluation.metrics_json import Measured
from hardneg.formats.runs import read_run
from hardneg.records import counted
from hardneg.report.table import Cell, Detail, Section, Table, number, signed
from hardneg.store import replacing

QUERIES = "Queries"
MOST_QUERIES = 500
RANKED = 100
"""The deepest rank that a report shows."""

_FIGURES = 12  # columns other than the query and the difference
_SYSTEMS = 6
_TOP = 3
_TEXT = 200  # characters of a passage
_ROUNDING = 1e-9
_FORMULA = re.compile(r"[=+@-](?!\d*\.?\d+$)")


@dataclass(frozen=True)
class Passages:
    """The sources of the passages shown for a query: run files by system, relevance judgements, and a collection."""

    runs: Mapping[str, Path]
    qrels: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    collection: Any = None
    split: str = "test"

    @cached_property
    def queries(self) -> Mapping[str, str]:
        """The texts of the split's queries by id; empty without a collection."""
        if self.collection is None:
            return {}
        split = self.collection.queries(self.split)
        return dict(zip(split.query_ids, split.texts, strict=True))

    def ranked(self, system: str, query_ids: Sequence[str]) -> dict[str, Sequence[str]]:
        """Return the first `RANKED` document ids of each given query in the system's run; empty without a run."""
        if system not in self.runs:
            return {}
        run = read_run(self.runs[system])
        return {query_id: run[query_id].doc_ids[:RANKED] for query_id in query_ids if query_id in run}

    def texts(self, doc_ids: Sequence[str]) -> dict[str, str]:
        """Return the shortened texts of the given documents in the collection, by id; empty without a collection."""
        if self.collection is None:
            return {}
        rows = self.collection.corpus.rows(doc_ids)
        contents = self.collection.corpus.contents(rows[rows >= 0])
        known = (doc_id for doc_id, row in zip(doc_ids, rows, strict=True) if row >= 0)
        return {doc_id: shortened(text) for doc_id, text in zip(known, contents, strict=True)}


@dataclass(frozen=True)
class ByQuery:
    """The queries in the order of a report: by the pair's absolute difference, largest first, or else by lowest score.

    results: scores by system. metric: the first metric. pair: two systems to compare, the report's subject or else the
    best one, and the first baseline or else the next best one; None if there is only one system.
    """

    results: Mapping[str, metrics.Scores]
    metric: str
    pair: tuple[str, str] | None
    query_ids: Sequence[str]

    @classmethod
    def of(cls, measured: Measured, system: str = "") -> "ByQuery":
        """Return an evaluation's queries, ordered by its first metric. system: the report's subject, or empty."""
        results = measured.results
        metric = next((name for scores in results.values() for name in scores), "")
        averages = {name: metrics.means(scores)[metric] for name, scores in results.items() if metric in scores}
        ranked = sorted(averages, key=averages.__getitem__, reverse=True)
        if len(ranked) < 2:
            scores = results[ranked[0]][metric] if ranked else {}
            return cls(results, metric, None, sorted(scores, key=lambda query_id: (scores[query_id], query_id)))
        others = [name for name in ranked if name != system]
        tested = [c.baseline for c in measured.comparisons if c.metric == metric and c.baseline != system]
        baseline = next(iter(tested), others[0] if system in ranked else ranked[1])
        pair = system if system in ranked else next(name for name in ranked if name != baseline), baseline
        unordered = cls(results, metric, pair, list(results[pair[0]][metric]))
        order = {query_id: (-abs(unordered.difference(query_id)), query_id) for query_id in unordered.query_ids}
        return replace(unordered, query_ids=sorted(order, key=order.__getitem__))

    def difference(self, query_id: str) -> float:
        """Return a query's score by the first system of the pair minus its score by the second, each 0 if missing."""
        first, second = (self.results[name][self.metric] for name in self.pair or ())
        return first.get(query_id, 0.0) - second.get(query_id, 0.0)

    def columns(self, systems: Iterable[str]) -> list[tuple[str, str]]:
        """Return the pairs (metric, system) with scores, for the given systems, grouped by metric."""
        names = dict.fromkeys(name for scores in self.results.values() for name in scores)
        return [(metric, system) for metric in names for system in systems if metric in self.results[system]]

    def scores(self, columns: Iterable[tuple[str, str]], query_id: str) -> list[float | None]:
        """Return a query's score for each pair (metric, system) in `columns`; None for a missing score."""
        return [self.results[system][metric].get(query_id) for metric, system in columns]


def query_section(measured: Measured, passages: Passages, system: str = "") -> Section | None:
    """Return the section on the first `MOST_QUERIES` queries of `ByQuery` and their passages; None without queries."""
    ordered = ByQuery.of(measured, system)
    shown = ordered.query_ids[:MOST_QUERIES]
    if not shown:
        return None
    chosen = list(dict.fromkeys([*(ordered.pair or ()), *ordered.results]))[:_SYSTEMS]
    systems = [name for name in ordered.results if name in chosen]
    columns = ordered.columns(systems)[: max(_FIGURES // len(systems), 1) * len(systems)]
    heads = [Cell(system, note=metric) for metric, system in columns]
    rows = [
        [
            query_id,
            *([signed(ordered.difference(query_id))] if ordered.pair else []),
            *("–" if value is None else number(value) for value in ordered.scores(columns, query_id)),
        ]
        for query_id in shown
    ]
    details = _details(systems, shown, passages)
    table = Table(["query", *(["difference"] if ordered.pair else []), *heads], rows, details=details)
    count = counted(len(ordered.query_ids), "query", "queries")
    order, most = f"lowest {ordered.metric} first", "first"
    if ordered.pair:
        order, most = f"{ordered.metric}, {ordered.pair[0]} minus {ordered.pair[1]}, largest first", "largest"
    which = f"the {len(shown)} {most} of {count}" if len(shown) < len(ordered.query_ids) else count
    lead = f"Order: {order}. Shown: {which}. All queries are in queries.tsv."
    explained = f"Open a query to see the top {_TOP} passages of each system and the first {_TOP} other relevant ones. "
    explained += f"Ranks are shown down to {RANKED}; – means unranked or, for relevance, unjudged."
    if others := len(ordered.results) - len(systems):
        explained += f" For {counted(others, 'more system')}, see queries.tsv."
    return Section(QUERIES, [table], explained, lead=lead)


def _details(systems: Sequence[str], query_ids: Sequence[str], passages: Passages) -> list[Detail]:
    """Return the passages of each query: the top hits of each system, by rank, then other relevant documents."""
    lists, chosen = {system: passages.ranked(system, query_ids) for system in systems}, dict[str, list[str]]()
    for query_id in query_ids:
        found, grades = [each.get(query_id, ()) for each in lists.values()], passages.qrels.get(query_id, {})
        best = [doc_ids[rank] for rank in range(_TOP) for doc_ids in found if rank < len(doc_ids)]
        relevant = sorted((doc_id for doc_id in grades if grades[doc_id] > 0), key=lambda doc_id: -grades[doc_id])
        more = islice((doc_id for doc_id in relevant if doc_id not in best), _TOP)
        chosen[query_id] = list(dict.fromkeys([*best, *more]))
    texts = passages.texts(list(dict.fromkeys(doc_id for doc_ids in chosen.values() for doc_id in doc_ids)))
    columns: list[str | Cell] = [Cell("passage", note="relevance; rank by system"), *(["text"] if texts else [])]
    details = []
    for query_id, doc_ids in chosen.items():
        grades, rows = passages.qrels.get(query_id, {}), list[list[str | Cell]]()
        ranks = {
            system: {doc_id: rank for rank, doc_id in enumerate(found.get(query_id, ()), 1)}
            for system, found in lists.items()
        }
        for doc_id in doc_ids:
            ranked = ", ".join(f"{system} {known.get(doc_id, '–')}" for system, known in ranks.items())
            note = f"relevance {grades.get(doc_id, '–')}; {ranked}"
            rows.append([Cell(doc_id, note=note), *([texts.get(doc_id, "")] if texts else [])])
        title = shortened(passages.queries.get(query_id, "")) or "passages"
        details.append(Detail(title, Table(columns, rows, words=2 if texts else 1)))
    return details


def write_query_table(
    path: Path, measured: Measured, queries: Mapping[str, str] | None = None, system: str = ""
) -> None:
    """Write a TSV file with a row per query, in report order: id, scores, difference, text. queries: texts by id."""
    ordered, texts = ByQuery.of(measured, system), queries or {}
    columns = ordered.columns(ordered.results)
    names = ["query_id", *(f"{metric} {system}" for metric, system in columns)]
    ends = [*(["difference"] if ordered.pair else []), *(["text"] if texts else [])]
    with replacing(path) as file:
        file.write(_tab_separated([*names, *ends]))
        for query_id in ordered.query_ids:
            values = ordered.scores(columns, query_id)
            row = [query_id, *("" if value is None else f"{value:.6f}" for value in values)]
            row += [f"{ordered.difference(query_id):.6f}"] if ordered.pair else []
            row += [texts.get(query_id, "")] if texts else []
            file.write(_tab_separated(row))


def _tab_separated(row: Sequence[str]) -> bytes:
    """Return a tab-separated line; texts that a spreadsheet would read as formulas get a leading quote."""
    texts = map(_one_line, row)
    return ("\t".join(f"'{text}" if _FORMULA.match(text) else text for text in texts) + "\n").encode()


def shortened(text: str, most: int = _TEXT) -> str:
    """Return a text on one line; one longer than `most` characters is cut after a word and ends in an ellipsis."""
    line = _one_line(text)
    return line if len(line) <= most else line[: most - 1].rsplit(" ", 1)[0] + "…"


def _one_line(text: str) -> str:
    """Return a text without tabs, breaks and control characters."""
    return " ".join(re.sub(r"[\x00-\x1f\x7f-\x9f]", " ", text).split())


def gains_section(measured: Measured, system: str = "") -> Section | None:
    """Return the section with each system's gains and losses by query against the baseline; None for one system."""
    ordered = ByQuery.of(measured, system)
    if ordered.pair is None:
        return None
    _, baseline = ordered.pair
    theirs = ordered.results[baseline][ordered.metric]
    rows = []
    for name, scores in measured.results.items():
        if name == baseline or ordered.metric not in scores:
            continue
        ours = scores[ordered.metric]
        exact = [ours.get(query_id, 0.0) - theirs.get(query_id, 0.0) for query_id in ordered.query_ids]
        values = sorted((value if abs(value) > _ROUNDING else 0.0 for value in exact), reverse=True)
        sides = [value for value in values if value > 0], [value for value in values if value < 0]
        better, worse = map(len, sides)
        counts = [f"{count:,}" for count in (better, len(values) - better - worse, worse)]
        means_of_sides = [signed(fmean(side)) if side else "–" for side in sides]
        rows.append([Cell(text) for text in (name, *counts, *means_of_sides, signed(fmean(values)))])
    columns = ["system", "better", "equal", "worse", "mean gain", "mean loss", "difference"]
    lead = f"By {ordered.metric}, against {baseline}. Individual queries are in the section {QUERIES}."
    return Section("Gains and losses by query", [Table(columns, rows)], lead=lead)
