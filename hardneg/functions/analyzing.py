"""`hardneg.analyze`: what lies behind the metrics, by any installed analysis."""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from hardneg.analysis import base
from hardneg.evaluation.metrics_json import write_metrics
from hardneg.fields import Reference
from hardneg.formats.qrels import write_qrels
from hardneg.functions import given
from hardneg.functions.arguments import AnalyzeArguments, Where, file_path, name_of, options_of, spelled_out
from hardneg.functions.evaluate import Evaluation
from hardneg.functions.results import writing
from hardneg.functions.session import Session
from hardneg.records import METRICS, Judgement, UsageError, complaint, mistakes
from hardneg.registry import load_plugin, no_such_option, plugin_errors
from hardneg.report.table import Section
from hardneg.runtime import Progress
from hardneg.store import Store

Stages = Mapping[str, tuple[str, Mapping[str, Any]]]
"""Kind and facts of the stages of a run folder, by name."""

_FILES = ("qrels", "queries", "corpus", "withheld")
_QRELS = "qrels.txt"


@partial(spelled_out, options=AnalyzeArguments)
def analyze(name: str, **fields: Any) -> "AnalysisResult":
    """Runs an analysis on results of functions, files, or a finished run folder.

    Args:
        name: as `hardneg analyze --help` lists it.
        fields: those of the analysis by their names in a recipe, such as `runs={"dense": run, "bm25": path}`.

    Raises:
        PluginError: there is no such analysis.
        UsageError: it has no such field, or one is missing.
    """
    chosen: type[base.Analysis] = load_plugin("analyses", name_of("name", name))
    extra = [ask.rstrip("?") for ask in chosen.asks if ask != "stages"]
    known = [*chosen.model_fields, *extra, *(["run_folder"] if "stages" in chosen.asks else []), *Where.__annotations__]
    if unknown := [f"{each}: {no_such_option(each, known)}" for each in fields if each not in known]:
        raise UsageError("\n".join(f"analyze {name}: {line}" for line in unknown))
    session = Session.of({key: fields[key] for key in Where.__annotations__ if key in fields})
    session.refuse_settings()
    files = {key: _file(key, fields[key], session.store) for key in _FILES if fields.get(key) is not None}
    own = {**files, "device": session.device, "seed": session.seed}
    stages = stages_of(Path(fields["run_folder"]), session.store) if fields.get("run_folder") else {}
    values = {key: fields[key] for key in chosen.model_fields if key in fields}
    named = {key: _named(chosen, key, value, session.store) for key, value in values.items()}
    analysis = checked(chosen, named, {stage: numbers[0] for stage, numbers in stages.items()}, lambda field: field)
    with plugin_errors([analysis]):
        numbers = analysis.measure(files_of(analysis, {**fields, **own}, stages, session.progress))
    return AnalysisResult(name, numbers, analysis)


def checked(
    chosen: type[base.Analysis], fields: Mapping[str, Any], types: Mapping[str, str], flag: Callable[[str], str]
) -> base.Analysis:
    """The analysis of some fields; `flag` says how a message calls a field, `types` what stages made.

    Raises:
        UsageError: what was given makes no sense; all mistakes, each with its field.
    """
    try:
        return chosen.model_validate(chosen.arranged(fields, types))
    except ValidationError as error:
        problems = []
        for item in mistakes(error):  # one of the whole says itself which field it is about
            line = complaint(item)
            name, rest = (str(item["loc"][0]), line) if item["loc"] else line.partition(": ")[::2]
            problems.append(f"{flag(name)}: {rest}" if name in chosen.model_fields else line)
        raise UsageError("\n".join(f"analyze {chosen.name}: {line}" for line in problems)) from None


def files_of(analysis: base.Analysis, arguments: Mapping[str, Any], stages: Stages, progress: Progress) -> base.Files:
    """What an analysis reads: the files that its fields name, and what was given beside."""
    named = {path: name for path, name, _ in analysis.references()}
    usual = {name: arg.default for name, arg in options_of(AnalyzeArguments).items()}
    alone = [Path(name) for path, name in named.items() if "." not in path]
    return base.Files(
        named,
        labels={str(path): label for path, label in given.run_labels(alone).items()},
        judged=arguments.get("qrels"),
        topics=arguments.get("queries"),
        corpus=arguments.get("corpus"),
        hidden=arguments.get("withheld"),
        stages=stages,
        device=arguments.get("device"),
        relevance_level=arguments.get("relevance_level", usual["relevance_level"]),
        seed=arguments.get("seed", usual["seed"]),
        progress=progress,
    )


def stages_of(run_folder: Path, store: Store) -> Stages:
    """Artifact type and facts of each stage of a run folder. Raises DataError where it is none."""
    from hardneg.recipes import artifacts_of

    artifacts = artifacts_of(run_folder, store)
    return {name: (artifact.artifact_type, artifact.facts) for name, artifact in artifacts.items()}


def _named(chosen: type[base.Analysis], name: str, value: Any, store: Store) -> Any:
    """The value of a field: of one that refers to artifacts, the path, or paths by label, of what was given.

    Metrics and runs in memory are kept in the store.
    """
    marks = [mark for mark in chosen.model_fields[name].metadata if isinstance(mark, Reference)]
    if not marks:
        return value
    if "run" in marks[0].artifact_types and isinstance(value, list | tuple):
        return {label: str(path) for label, path in given.labelled_runs(value, store).items()}

    def path_of(value: Any) -> Any:
        if isinstance(value, Evaluation):
            kept = given.keep_content(store, "given-metrics", lambda to: write_metrics(to / METRICS, value.measured))
            return str(kept.path / METRICS)
        if isinstance(value, Mapping):
            by_label = not given.is_run(value)
            return {key: path_of(one) for key, one in value.items()} if by_label else str(given.run_file(value, store))
        return os.fspath(value) if isinstance(value, os.PathLike) else value

    return path_of(value)


def _file(name: str, value: Any, store: Store) -> Path:
    judged = given.named_qrels(value) if name in ("qrels", "withheld") else file_path(value, name)
    if not isinstance(judged, dict):
        return Path(str(judged))
    rows = (Judgement(query_id, *pair) for query_id, grades in judged.items() for pair in grades.items())
    return given.keep_content(store, f"given-{name}", lambda to: write_qrels(to / _QRELS, rows)).path / _QRELS


@dataclass(frozen=True)
class AnalysisResult:
    """What an analysis has measured; found: the numbers, as JSON holds them."""

    name: str
    numbers: Any = field(repr=False)
    analysis: base.Analysis = field(repr=False)

    def to_dict(self) -> Any:
        """The numbers."""
        return self.numbers

    def draw(self, *paths: str | Path, overwrite: bool = False) -> None:
        """Draws the figure into files, .png, .svg or .pdf; its own earlier ones are replaced.

        Raises:
            UsageError: something else stands there, and `overwrite` is not given.
        """
        with writing("AnalysisResult.draw", paths, overwrite) as files:
            self.analysis.draw(self.numbers, files)

    def _repr_markdown_(self) -> str:
        from hardneg.report import content, page

        section = Section(self.name, self.analysis.tables(self.numbers), self.analysis.explain(self.numbers))
        return page.markdown(content.ReportContent("", {}, 0, sections=[section]))
