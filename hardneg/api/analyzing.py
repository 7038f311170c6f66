"""`hardneg.analyze`: what lies behind the metrics, by any installed analysis."""

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from hardneg.analysis.base import Analysis
from hardneg.analysis.inputs import Files
from hardneg.api.argument_values import name_of
from hardneg.api.content_store import keep_content
from hardneg.api.evaluation import Evaluation
from hardneg.api.labels import run_labels
from hardneg.api.notebook import html_section
from hardneg.api.output_files import writing
from hardneg.api.qrels_argument import named_qrels
from hardneg.api.run_argument import is_run, labelled_runs, run_file
from hardneg.api.workplace import Where, Workplace
from hardneg.evaluation.metrics_json import write_metrics
from hardneg.fields import Reference
from hardneg.formats.qrels import write_qrels
from hardneg.records.errors import UsageError
from hardneg.records.layout import METRICS
from hardneg.records.types import Judgement
from hardneg.records.wording import complaint, mistakes
from hardneg.registry.plugins import load_plugin, no_such_option, plugin_errors
from hardneg.report.table import Section
from hardneg.runtime.seeding import SEED

if TYPE_CHECKING:
    from hardneg.runtime.progress import Progress
    from hardneg.store.artifacts import Store

Stages = Mapping[str, tuple[str, Mapping[str, Any]]]
"""Kind and facts of the stages of a run folder, by name."""

_FILES = ("qrels", "queries", "corpus", "withheld")


def analyze(name: str, **given: Any) -> "AnalysisResult":
    """Runs an analysis on results of functions, files, or a finished run folder.

    Args:
        name: as `hardneg analyze --help` lists it.
        given: the analysis's fields by their names in a recipe, such as `runs={"dense": run, "bm25": path}`; what its
            command takes beside, such as `qrels`, `queries`, `corpus` (files, or dicts by id), `relevance_level`,
            `run_folder`; and what every function takes (`Where`).

    Raises:
        PluginError: there is no such analysis.
        UsageError: it has no such field, or one is missing.
    """
    kind: type[Analysis] = load_plugin("analyses", name_of("name", name))
    beside = [asked.rstrip("?") for asked in kind.asks if asked != "stages"]
    known = [*kind.model_fields, *beside, *(["run_folder"] if "stages" in kind.asks else []), *Where.__annotations__]
    if unknown := [f"{each}: {no_such_option(each, known)}" for each in given if each not in known]:
        raise UsageError("\n".join(f"analyze {name}: {line}" for line in unknown))
    place = Workplace.of({key: given[key] for key in Where.__annotations__ if key in given})  # type: ignore[arg-type]
    own = {**_files(given, place.store), "device": place.device, "seed": place.seed}
    stages = stages_of(Path(given["run_folder"]), place.store) if "run_folder" in given else {}
    fields = {key: _named(kind, key, given[key], place.store) for key in kind.model_fields if key in given}
    analysis = checked(kind, fields, {stage: found[0] for stage, found in stages.items()}, lambda field: field)
    with plugin_errors([analysis]):
        found = analysis.measure(files_of(analysis, {**given, **own}, stages, place.progress))
    return AnalysisResult(name, found, analysis)


def checked(
    kind: type[Analysis], fields: Mapping[str, Any], kinds: Mapping[str, str], flag: Callable[[str], str]
) -> Analysis:
    """The analysis of some fields; `flag` says how a message calls a field, `kinds` those of a run folder's stages.

    Raises:
        UsageError: what was given makes no sense; all mistakes, each with its field.
    """
    try:
        return kind.model_validate(kind.arranged(fields, kinds))
    except ValidationError as error:
        told = [_told(kind, item, flag) for item in mistakes(error)]
        raise UsageError("\n".join(f"analyze {kind.name}: {line}" for line in told)) from None


def _told(kind: type[Analysis], item: Any, flag: Callable[[str], str]) -> str:
    """A mistake with its field; one of the whole says itself which field it is about."""
    line = complaint(item)
    field_name, rest = (str(item["loc"][0]), line) if item["loc"] else line.partition(": ")[::2]
    return f"{flag(field_name)}: {rest}" if field_name in kind.model_fields else line


def files_of(analysis: Analysis, given: Mapping[str, Any], stages: Stages, progress: "Progress") -> Files:
    """What an analysis reads: the files that its fields name, and what was given beside."""
    named = {path: name for path, name, _ in analysis.references()}
    alone = [Path(name) for path, name in named.items() if "." not in path]
    return Files(
        named,
        labels={str(path): label for path, label in run_labels(alone).items()},
        judged=given.get("qrels"),
        topics=given.get("queries"),
        corpus=given.get("corpus"),
        hidden=given.get("withheld"),
        stages=stages,
        device=given.get("device"),
        relevance_level=given.get("relevance_level", 1),
        seed=given.get("seed", SEED),
        progress=progress,
    )


def stages_of(run_folder: Path, store: "Store") -> Stages:
    """Kind and facts of each stage of a run folder. Raises DataError where it is none."""
    from hardneg.recipe.run_folder import artifacts_of

    found = artifacts_of(run_folder, store)
    return {name: (artifact.artifact_type, artifact.facts) for name, artifact in found.items()}


def _named(kind: type[Analysis], name: str, given: Any, store: "Store") -> Any:
    """The value of a field: of one that refers to artifacts, the paths of what was given."""
    marks = [mark for mark in kind.model_fields[name].metadata if isinstance(mark, Reference)]
    if not marks:
        return given
    if "run" in marks[0].artifact_types and isinstance(given, list | tuple):
        return {label: str(path) for label, path in labelled_runs(given, store).items()}
    return _path(given, store)


def _path(given: Any, store: "Store") -> Any:
    if isinstance(given, Evaluation):
        return str(
            keep_content(store, "given-metrics", lambda folder: write_metrics(folder / METRICS, given.measured)).path
            / METRICS
        )
    if isinstance(given, Mapping) and is_run(given):
        return str(run_file(given, store))
    if isinstance(given, Mapping):
        return {label: _path(value, store) for label, value in given.items()}
    return os.fspath(given) if isinstance(given, os.PathLike) else given


def _files(given: Mapping[str, Any], store: "Store") -> dict[str, Path]:
    """The files of judgements and texts; those in memory are written into the store."""
    found = {name: given[name] for name in _FILES if given.get(name) is not None}
    return {name: _file(name, value, store) for name, value in found.items()}


def _file(name: str, given: Any, store: "Store") -> Path:
    if isinstance(given, str | os.PathLike):
        return Path(os.fspath(given)).expanduser()
    if name not in ("qrels", "withheld"):
        return keep_content(store, f"given-{name}", partial(_write_texts, name, given)).path / f"{name}.jsonl"
    judged = named_qrels(given)
    if not isinstance(judged, dict):
        return Path(str(judged))
    rows = (Judgement(query_id, doc_id, grade) for query_id, of in judged.items() for doc_id, grade in of.items())
    return (
        keep_content(store, f"given-{name}", lambda folder: write_qrels(folder / "qrels.txt", rows)).path / "qrels.txt"
    )


def _write_texts(name: str, given: Mapping[str, Any], folder: Path) -> None:
    def lines() -> Iterator[str]:
        for each, text in given.items():
            row = text if isinstance(text, Mapping) else {"text": text}
            yield json.dumps({"_id": each, **row}, ensure_ascii=False) + "\n"

    with (folder / f"{name}.jsonl").open("w", encoding="utf-8") as file:
        file.writelines(lines())


@dataclass(frozen=True)
class AnalysisResult:
    """What an analysis has measured; found: the numbers, as JSON holds them."""

    name: str
    found: Any = field(repr=False)
    analysis: Analysis = field(repr=False)

    def to_dict(self) -> Any:
        """The numbers."""
        return self.found

    def to_pandas(self) -> Any:
        """The table as a `pandas.DataFrame` of texts. Raises MissingDependency where pandas is not installed."""
        from hardneg.api.arrow_tables import frame_of_rows
        from hardneg.report.table import cell

        table = self.analysis.table(self.found)
        names = [cell(column).text for column in table.columns]
        return frame_of_rows([dict(zip(names, (cell(each).text for each in row), strict=True)) for row in table.rows])

    def draw(self, *paths: str | Path, overwrite: bool = False) -> None:
        """Draws the figure into files, .png, .svg or .pdf; its own earlier ones are replaced.

        Raises:
            UsageError: something else stands there, and `overwrite` is not given.
        """
        with writing("AnalysisResult.draw", paths, overwrite) as files:
            self.analysis.draw(self.found, files)

    def _repr_html_(self) -> str:
        with TemporaryDirectory() as folder:
            drawn = Path(folder) / "figure.svg"
            self.analysis.draw(self.found, [drawn])
            svg = drawn.read_text("utf-8")
        tables: Sequence[Any] = self.analysis.tables(self.found)
        return html_section(Section("", tables, self.analysis.explain(self.found), svg[svg.find("<svg") :]))
