"""`fuse`: runs of anyone's as one, with numbers that are given or tuned."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Unpack

from hardneg.evaluation import fusion as fusions
from hardneg.evaluation.fusion import RRF_CONSTANT, Fusion, Method, Missing, Norm
from hardneg.functions import given
from hardneg.functions.arguments import AnyQrels, Arg, Runs, Where, spelled_out, stage
from hardneg.functions.evaluate import RELEVANCE
from hardneg.functions.results import RankedRun, source_of_runs
from hardneg.functions.session import Session
from hardneg.records import errors, layout, suggestion
from hardneg.runtime import Progress
from hardneg.store import Content, file_digest

_log = logging.getLogger("hardneg")

_TUNING = "Tuning"
_METHODS = "zip, by turns, first run first; weighted-sum, of scores; reciprocal-rank; ranx's max, mnz, wsum."
_MISSING = "Of weighted-sum: what a document scores in a run that lacks it, that run's lowest or 0."
_TUNED = "Runs of other queries to tune on, one for each fused run, in their order."
_JUDGED = Arg("The judgements of the queries to tune on.", cli=Path, panel=_TUNING)
_TRIED = (
    "Values to try, in every combination: of a run's weight, or `constant`; default: all weights in tenths that sum to "
    "1."
)
_GRID = Arg(_TRIED, cli=dict[str, list[float]], metavar="NAME=VALUE,VALUE", panel=_TUNING)
_WEIGHT = Arg("A run's weight, by its label; default 1.", cli=dict[str, float], flag="weight", metavar="LABEL=VALUE")

TuneRuns = Annotated[Runs | None, Arg(_TUNED, cli=list[Path], flag="tune-run", panel=_TUNING)]
Metric = Annotated[str, Arg("The metric to tune on.", same=("metrics",), panel=_TUNING, metrics=True)]


@spelled_out
def fuse(
    runs: Runs,
    method: Annotated[Method, Arg(_METHODS)] = "weighted-sum",
    *,
    weights: Annotated[Mapping[str, float], _WEIGHT] = {},
    missing_scores: Annotated[Missing, Arg(_MISSING)] = "lowest",
    constant: Annotated[int, Arg("The constant of reciprocal-rank.", least=0)] = RRF_CONSTANT,
    norm: Annotated[Norm | None, Arg("Of ranx's methods: min-max (the default), none, zmuv, ...")] = None,
    depth: Annotated[int, Arg("How many documents are kept for each query.", least=1)] = layout.LIST_DEPTH,
    tune_runs: TuneRuns = None,
    qrels: Annotated[AnyQrels | None, _JUDGED] = None,
    metric: Metric = "ndcg@10",
    relevance_level: Annotated[int, replace(RELEVANCE, panel=_TUNING)] = 1,
    grid: Annotated[Mapping[str, Sequence[float]], _GRID] = {},
    **where: Unpack[Where],
) -> RankedRun:
    """Fuse several runs into one: by sums of scores or ranks, by turns (zip), or by one of ranx's methods.

    Raises:
        UsageError: the method has no such number, or a label is unknown.
        DataError: a run has a mistake, or is tuned on the queries that are fused.

    Example: hardneg fuse --run cort.trec.gz --run bm25.trec.gz --method zip --depth 1000 --output cort-bm25.trec.gz
    """
    session = Session.of(where, fuse)
    session.refuse_settings()
    fields: dict[str, Any] = {"method": method, "weights": weights, "missing_scores": missing_scores}
    fields |= {"constant": constant, "norm": norm, "depth": depth}
    fields |= {"tuning.metric": metric, "tuning.relevance_level": relevance_level, "tuning.grid": grid}
    return _fused(session, runs, tune_runs, given.named_qrels(qrels), stage("fuse", fields))


def _fused(session: Session, runs: Any, tune_runs: Any, judged: Any, fields: Mapping[str, Any]) -> RankedRun:
    """The fused run in the store, under what it was made of; fields: of the stage."""
    from hardneg.formats.runs import read_run, write_run

    files = given.labelled_runs(runs, session.store)
    tuning = given.labelled_runs(tune_runs, session.store) if tune_runs else {}
    fusion, labels = _checked(fields, list(files), tuning, judged), list(files)
    session.begin(None, [*files.values(), *tuning.values(), *([judged] if isinstance(judged, Path) else [])])
    contents = {label: Content.of(partial(file_digest, path)) for label, path in files.items()}
    lists = {label: read_run(path) for label, path in files.items()}
    for content in contents.values():
        content.check()
    query_ids = list(dict.fromkeys(query_id for run in lists.values() for query_id in run))
    tuned: dict[str, str] = {}
    if tuning:
        paths = [tuning[label] for label in labels] if tuning.keys() == files.keys() else list(tuning.values())
        aligned = dict(zip(labels, paths, strict=True))
        fusion, tuned["tuned"] = _tuned(fusion, aligned, judged, query_ids, fields, session.progress)
    inputs = [(label, content.digest) for label, content in contents.items()]
    origin = {"stage": "fused", "options": asdict(fusion), "inputs": inputs, "name": "fused"}

    def make(folder: Path) -> dict[str, int]:
        fused = zip(query_ids, fusion.over(fusions.lists_of(list(lists.values()), query_ids)), strict=True)
        listed = ((query_id, ranked) for query_id, ranked in fused if ranked.doc_ids)
        return {"queries": len(query_ids), "documents": write_run(folder / layout.RUN, listed, tag="fused")}

    result = given.keep_result(session.store, "run", origin, make)
    lacking = {f"queries that {label} lacks": len(query_ids) - len(run) for label, run in lists.items()}
    facts = {**result.facts, **tuned, **lacking}
    return RankedRun(fusion.method, result.key, result.path / layout.RUN, facts, session.store, source_of_runs(runs))


def _checked(fields: Mapping[str, Any], labels: Sequence[str], tuning: Mapping[str, Path], judged: Any) -> Fusion:
    """The method with its numbers. Raises UsageError where they, or arguments to tune by, do not go together."""
    if len(labels) < 2:
        raise errors.UsageError("fuse: give {runs} twice or more", "runs")
    if unknown := [label for label in fields["weights"] if label not in labels]:
        problem = f"no run is called {unknown[0]!r}{suggestion(unknown[0], labels)}; there are: {', '.join(labels)}"
        raise errors.UsageError(f"{{weights}}: {problem}", "weights")
    weights = tuple(fields["weights"].get(label, 1.0) for label in labels)
    numbers = (fields["constant"], fields.get("norm"), fields["depth"])
    fusion = Fusion(fields["method"], weights, fields["missing_scores"], *numbers)
    if problems := fusion.problems():
        raise errors.UsageError("; ".join(problems))
    if not tuning and (fields["tuning.grid"] or judged is not None):
        problem = "fuse: {grid} and {qrels} are for tuning: give a {tune_runs} for each {runs}"
        raise errors.UsageError(problem, "grid", "qrels", "tune_runs", "runs")
    if tuning and len(tuning) != len(labels):
        counts = f"{len(tuning)} {{tune_runs}} for {len(labels)} {{runs}}"
        raise errors.UsageError(f"fuse: {counts}: give one of each, in the same order", "tune_runs", "runs")
    if tuning and judged is None:
        raise errors.UsageError("fuse: {tune_runs} needs {qrels}, the judgements of its queries", "tune_runs", "qrels")
    return fusion


def _tuned(
    fusion: Fusion,
    files: Mapping[str, Path],
    judged: Any,
    query_ids: Sequence[str],
    fields: Mapping[str, Any],
    progress: Progress,
) -> tuple[Fusion, str]:
    """The best on the development queries, and a line on it, which goes to the log too."""
    from hardneg.evaluation.metrics import mean_of
    from hardneg.formats.qrels import read_qrels
    from hardneg.formats.runs import read_run

    qrels = read_qrels(judged) if isinstance(judged, Path) else judged
    runs = [read_run(path) for path in files.values()]
    known = fusions.Development(list(files), runs, qrels, fields["tuning.metric"], fields["tuning.relevance_level"])
    tried = fusions.tune(fusion, known, fields["tuning.grid"], query_ids, mean_of, progress)
    chosen = dict(fusions.numbers(tried[0].fusion, list(files)))
    values = ", ".join(f"{name} {value:g}" for name, value in {**chosen.pop("weights", {}), **chosen}.items())
    summary = f"{known.metric} {tried[0].worth:.4f}, best of {len(tried)}: {values}"
    _log.info("tuned: %s", summary)
    return tried[0].fusion, summary
