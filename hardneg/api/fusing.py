"""`hardneg.fuse`: runs of anyone's as one, with numbers that are given or tuned."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Unpack, get_args

from hardneg.api.content_store import keep_made
from hardneg.api.given_qrels import AnyQrels, named_qrels
from hardneg.api.given_run import labelled_runs
from hardneg.api.given_values import field_value
from hardneg.api.results import FoundRun, source_of_runs
from hardneg.api.workplace import Where, Workplace, taken
from hardneg.digest import file_digest
from hardneg.errors import UsageError
from hardneg.layout import RUN
from hardneg.progress import Progress

if TYPE_CHECKING:
    from hardneg.data.runs import Run
    from hardneg.fusion.methods import Fusion
    from hardneg.fusion.tuning import Development, Grid, Tried

_log = logging.getLogger("hardneg")


class FusingOptions(Where, total=False):
    """What `fuse` takes besides, as the command tells it.

    missing_scores: `lowest` or `zero`. constant: of reciprocal-rank. norm, parameter: of ranx's methods. tune_runs:
    runs of other queries, to choose the numbers by, with the labels of `runs`. qrels, metric, relevance_level, grid:
    what to tune by; grid: values to try, by a run's label, `constant` or `parameter`.
    """

    missing_scores: Literal["lowest", "zero"]
    constant: int
    norm: str
    parameter: float
    tune_runs: Any
    qrels: AnyQrels
    metric: str
    relevance_level: int
    grid: Mapping[str, Sequence[float]]


def fuse(
    runs: Any,
    method: str = "weighted-sum",
    *,
    weights: Mapping[str, float] | None = None,
    depth: int = 100,
    **given: Unpack[FusingOptions],
) -> FoundRun:
    """Makes one run of several: by sums of scores or ranks, by turns, the first run first (zip), or as ranx does it.

    Args:
        runs: a list of runs, or a dict of them by label.
        method: `zip`, `weighted-sum`, `reciprocal-rank`, or one of ranx's.
        weights: by label; else 1.
        depth: how many documents for each query.
        given: `FusingOptions`, and what every function takes (`Where`).

    Raises:
        UsageError: the method has no such number, or a label is unknown.
    """
    from hardneg.fusion.methods import Fusion

    own = taken(given, FusingOptions)
    place = Workplace.of(given)
    files = labelled_runs(runs, place.store)
    labels = list(files)
    check_several(labels)
    usual = {"missing_scores": "lowest", "constant": 60, "norm": None, "parameter": None}
    wanted = {"method": method, "weights": weights or {}, "depth": depth, **usual}
    named = {name: field_value("fuse", name, own.get(name, value)) for name, value in wanted.items()}
    named |= {"missing": named.pop("missing_scores"), "weights": weights_of(named["weights"], labels)}
    asked = Fusion(**named)
    grid: Grid = {name: list(values) for name, values in own.get("grid", {}).items()}
    check_fusion(asked, tuned="parameter" in grid)
    read, query_ids = _read(files)
    if tune_runs := own.get("tune_runs"):
        asked = best_fusion(asked, _development(labels, tune_runs, own, place), grid, query_ids, place.progress)[
            0
        ].fusion
    elif grid or "qrels" in own:
        raise UsageError("fuse: --grid and --qrels are for tuning: give a --tune-run for each --run")
    return replace(_kept(asked, files, read, query_ids, place), source=source_of_runs(runs))


def _read(files: Mapping[str, Path]) -> "tuple[dict[str, Run], list[str]]":
    """The runs by label, and the queries that any of them has."""
    from hardneg.data.runs import read_run

    runs = {label: read_run(path) for label, path in files.items()}
    return runs, list(dict.fromkeys(query_id for run in runs.values() for query_id in run))


def _development(labels: Sequence[str], tune_runs: Any, own: Mapping[str, Any], place: Workplace) -> "Development":
    files = labelled_runs(tune_runs, place.store)
    given = [files[label] for label in labels] if set(files) == set(labels) else list(files.values())
    metric = own.get("metric", "ndcg@10")
    level = field_value("evaluate", "relevance_level", own.get("relevance_level", 1))
    return development(labels, given, named_qrels(own.get("qrels")), metric, level)


def _kept(
    asked: "Fusion", files: Mapping[str, Path], runs: "Mapping[str, Run]", query_ids: Sequence[str], place: Workplace
) -> FoundRun:
    """The fused run in the store, under what it was made of."""
    from dataclasses import asdict

    inputs = {label: file_digest(path) for label, path in files.items()}
    origin = {"stage": "fused", "options": asdict(asked), "inputs": list(inputs.items()), "name": "fused"}

    def make(folder: Path) -> dict[str, int]:
        return {"queries": len(query_ids), "documents": write_fused(folder / RUN, asked, runs, query_ids)}

    made = keep_made(place.store, "run", origin, make)
    return FoundRun(asked.method, made.key, made.path / RUN, made.facts, place.store, None)


def write_fused(path: Path, asked: "Fusion", runs: "Mapping[str, Run]", query_ids: Sequence[str]) -> int:
    """Writes the fused run of all queries that any run has; returns how many documents it lists."""
    from hardneg.data.runs import write_run
    from hardneg.fusion.tuning import lists_of

    fused = zip(query_ids, asked.over(lists_of(list(runs.values()), query_ids)), strict=True)
    return write_run(path, ((query_id, ranked) for query_id, ranked in fused if ranked.doc_ids), tag="fused")


def check_several(runs: Sequence[Any]) -> None:
    """Raises UsageError where there are no two runs."""
    if len(runs) < 2:
        raise UsageError("fuse: give --run twice or more")


def weights_of(given: Mapping[str, float], labels: Sequence[str]) -> tuple[float, ...]:
    """A weight a run. Raises UsageError where no run has that label."""
    if unknown := [label for label in given if label not in labels]:
        from hardneg.registry import suggestion

        hint = suggestion(unknown[0], labels)
        raise UsageError(f"--weight: no run is called {unknown[0]!r}{hint}; there are: {', '.join(labels)}")
    return tuple(given.get(label, 1.0) for label in labels)


def check_fusion(asked: "Fusion", tuned: bool) -> None:
    """All mistakes in what was asked for, before any work. Raises UsageError."""
    from hardneg.fusion.methods import METHODS, Norm
    from hardneg.registry import suggestion

    for option, value, known in (("method", asked.method, METHODS), ("norm", asked.norm, get_args(Norm))):
        if value is not None and value not in known:
            raise UsageError(f"--{option}: no {value!r}{suggestion(value, known)}; there are: {', '.join(known)}")
    if problems := [each for each in asked.problems() if not (tuned and each.startswith("parameter: "))]:
        raise UsageError("; ".join(problems))


def development(
    labels: Sequence[str], tune_runs: Sequence[Path], qrels: Any, metric: str, relevance_level: int
) -> "Development":
    """What to tune by. Raises UsageError where a run of other queries or their judgements are missing."""
    from hardneg.data.qrels import read_qrels
    from hardneg.data.runs import read_run
    from hardneg.fusion.tuning import Development

    given, wanted = len(tune_runs), len(labels)
    if given != wanted:
        raise UsageError(f"fuse: {given} --tune-run for {wanted} --run: give one of each, in the same order")
    if qrels is None:
        raise UsageError("fuse: --tune-run needs --qrels, the judgements of its queries")
    judged = read_qrels(qrels) if isinstance(qrels, Path) else qrels
    return Development(labels, [read_run(path) for path in tune_runs], judged, metric, relevance_level)


def best_fusion(
    asked: "Fusion", known: "Development", values: "Grid", query_ids: Sequence[str], progress: Progress
) -> "Sequence[Tried]":
    """What was tried on the development queries, the best first."""
    from hardneg.evaluation.metrics import mean_of
    from hardneg.fusion.tuning import check_development, tune

    check_development(known, query_ids)
    mean = partial(mean_of, known.metric, known.qrels, known.relevance_level)
    found = tune(asked, known, values, mean, progress)
    _log.info("tuned: %s %.4f, best of %d", known.metric, found[0].worth, len(found))
    return found
