"""`fuse`: runs of anyone's as one, with numbers that are given or tuned."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from hardneg.lines.base import Arguments, Job, Line, Of
from hardneg.lines.shared_arguments import QRELS, RUNS, optional
from hardneg.records.errors import UsageError

if TYPE_CHECKING:
    from hardneg.api.results import RankedRun
    from hardneg.api.workplace import Workplace
    from hardneg.formats.runs import Run
    from hardneg.fusion.methods import Fusion

_log = logging.getLogger("hardneg")

_TUNING = "Tuning"


class FuseLine(Line):
    """Fuse several runs into one: by sums of scores or ranks, by turns (zip), or by one of ranx's methods.

    Raises:
        UsageError: the method has no such number, or a label is unknown.
        DataError: a run has a mistake, or is tuned on the queries that are fused.

    Example: hardneg fuse --run cort.trec.gz --run bm25.trec.gz --method zip --depth 1000 --output cort-bm25.trec.gz
    """

    name = "fuse"
    returns = "RankedRun"
    writes = "run"
    shows = ("store",)
    counts: ClassVar = {"queries": ("query", "queries"), "documents": ("document", "documents")}
    arguments = (
        RUNS,
        Of("fuse.method"),
        Of("fuse.weights"),
        Of("fuse.missing_scores"),
        Of("fuse.constant"),
        Of("fuse.norm"),
        Of("fuse.depth"),
        replace(
            optional(RUNS),
            name="tune_runs",
            help="Runs of other queries to tune on, one for each fused run, in their order.",
            flag="tune-run",
            panel=_TUNING,
        ),
        replace(QRELS, help="The judgements of the queries to tune on.", panel=_TUNING),
        Of("fuse.tuning.metric"),
        Of("fuse.tuning.relevance_level"),
        Of("fuse.tuning.grid"),
    )

    def job(self, args: Arguments, workplace: "Workplace") -> Job:
        """Reads the runs, tunes where that is asked for, and keeps what is made in the store."""
        from hardneg.api.qrels_argument import named_qrels
        from hardneg.api.run_argument import labelled_runs
        from hardneg.fusion.methods import Fusion

        workplace.refuse_settings()
        files = labelled_runs(args.runs, workplace.store)
        if len(files) < 2:
            raise UsageError("fuse: give {runs} twice or more", "runs")
        labels, numbers = list(files), (args.constant, args.norm, args.depth)
        fusion = Fusion(args.method, _weights(args.weights, labels), args.missing_scores, *numbers)
        if problems := fusion.problems():
            raise UsageError("; ".join(problems))
        judged, tuning = (
            named_qrels(args.qrels),
            labelled_runs(args.tune_runs, workplace.store) if args.tune_runs else {},
        )
        if not tuning and (args.grid or judged is not None):
            problem = "fuse: {grid} and {qrels} are for tuning: give a {tune_runs} for each {runs}"
            raise UsageError(problem, "grid", "qrels", "tune_runs", "runs")
        if tuning and len(tuning) != len(labels):
            problem = (
                f"fuse: {len(tuning)} {{tune_runs}} for {len(labels)} {{runs}}: give one of each, in the same order"
            )
            raise UsageError(problem, "tune_runs", "runs")
        if tuning and judged is None:
            raise UsageError("fuse: {tune_runs} needs {qrels}, the judgements of its queries", "tune_runs", "qrels")
        reads = [*files.values(), *tuning.values(), *([judged] if isinstance(judged, Path) else [])]
        return Job(None, _Fusing(args, fusion, files, tuning, judged).result, reads)


@dataclass(frozen=True)
class _Fusing:
    """What is fused, and the files by label; tuning: of the runs to choose the numbers by, with their judgements."""

    args: Arguments
    fusion: "Fusion"
    files: Mapping[str, Path]
    tuning: Mapping[str, Path]
    judged: Any

    def result(self, plan: None, workplace: "Workplace") -> "RankedRun":
        """The fused run in the store, under what it was made of."""
        from hardneg.api.content_store import keep_result
        from hardneg.api.results import RankedRun, source_of_runs
        from hardneg.formats.runs import read_run
        from hardneg.records.layout import RUN
        from hardneg.store.digest import Content, file_digest

        contents = {label: Content.of(partial(file_digest, path)) for label, path in self.files.items()}
        runs = {label: read_run(path) for label, path in self.files.items()}
        for content in contents.values():
            content.check()
        query_ids = list(dict.fromkeys(query_id for run in runs.values() for query_id in run))
        fusion, tuned = self._tuned(query_ids, workplace) if self.tuning else (self.fusion, {})
        inputs = [(label, content.digest) for label, content in contents.items()]
        origin = {"stage": "fused", "options": asdict(fusion), "inputs": inputs, "name": "fused"}

        def make(folder: Path) -> dict[str, int]:
            return {"queries": len(query_ids), "documents": _write(folder / RUN, fusion, runs, query_ids)}

        result = keep_result(workplace.store, "run", origin, make)
        lacking = {f"queries that {label} lacks": len(query_ids) - len(run) for label, run in runs.items()}
        facts, source = {**result.facts, **tuned, **lacking}, source_of_runs(self.args.runs)
        return RankedRun(fusion.method, result.key, result.path / RUN, facts, workplace.store, source)

    def _tuned(self, query_ids: Sequence[str], workplace: "Workplace") -> "tuple[Fusion, dict[str, str]]":
        """The best on the development queries, and a line on it, which goes to the log too."""
        from hardneg.evaluation.metrics import mean_of
        from hardneg.formats.qrels import read_qrels
        from hardneg.formats.runs import read_run
        from hardneg.fusion.tuning import Development, check_development, numbers, tune

        args, labels = self.args, list(self.files)
        by_label = self.tuning.keys() == self.files.keys()
        paths = [self.tuning[label] for label in labels] if by_label else list(self.tuning.values())
        qrels = read_qrels(self.judged) if isinstance(self.judged, Path) else self.judged
        runs = [read_run(path) for path in paths]
        known = Development(labels, runs, qrels, args.metric, args.relevance_level)
        check_development(known, query_ids)
        mean = partial(mean_of, known.metric, known.qrels, known.relevance_level)
        tried = tune(self.fusion, known, args.grid, mean, workplace.progress)
        chosen = dict(numbers(tried[0].fusion, labels))
        values = ", ".join(f"{name} {value:g}" for name, value in {**chosen.pop("weights", {}), **chosen}.items())
        summary = f"{known.metric} {tried[0].worth:.4f}, best of {len(tried)}: {values}"
        _log.info("tuned: %s", summary)
        return tried[0].fusion, {"tuned": summary}


def _weights(weights: Mapping[str, float], labels: Sequence[str]) -> tuple[float, ...]:
    """A weight a run. Raises UsageError where no run has that label."""
    from hardneg.records.wording import suggestion

    if unknown := [label for label in weights if label not in labels]:
        problem = f"no run is called {unknown[0]!r}{suggestion(unknown[0], labels)}; there are: {', '.join(labels)}"
        raise UsageError(f"{{weights}}: {problem}", "weights")
    return tuple(weights.get(label, 1.0) for label in labels)


def _write(path: Path, fusion: "Fusion", runs: "Mapping[str, Run]", query_ids: Sequence[str]) -> int:
    """Writes the fused run of all queries that any run has; returns how many documents it lists."""
    from hardneg.formats.runs import write_run
    from hardneg.fusion.tuning import lists_of

    fused = zip(query_ids, fusion.over(lists_of(list(runs.values()), query_ids)), strict=True)
    return write_run(path, ((query_id, ranked) for query_id, ranked in fused if ranked.doc_ids), tag="fused")
