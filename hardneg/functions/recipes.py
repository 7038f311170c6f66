"""The functions `load_recipe` and `analyze`: recipes to change, plan, check and run, and analyses of results."""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Unpack

from pydantic import ValidationError

from hardneg import evaluation, fields as recipe_fields, formats, recipes, report as reports
from hardneg.analysis import base
from hardneg.functions import arguments, given, results
from hardneg.functions.arguments import Where, file_path, spelled_out
from hardneg.functions.evaluate import Evaluation
from hardneg.functions.session import Session, named_dataset, named_model, planned_recipe, setting_texts
from hardneg.records import Judgement, UsageError, complaint, errors, layout, mistakes, wording
from hardneg.registry import load_plugin, no_such_option, plugin_errors
from hardneg.report.table import Section
from hardneg.runtime import Progress
from hardneg.store import Artifact, Outputs, Store, Target, Words


def load_recipe(name: str | Path, preset: str | None = None) -> "ChosenRecipe":
    """Load a shipped recipe or a recipe file, to change, plan, check or run it.

    Args:
        name: a name from `hardneg recipe list`, or a path.
        preset: `demo` (the default), `paper`, or another preset of the recipe.

    Raises:
        UsageError: the recipe or file does not exist.
    """
    path = str(file_path(name, "name"))
    recipes.find_recipe(path)
    return ChosenRecipe(path, preset)


@dataclass(frozen=True)
class ChosenRecipe:
    """A recipe with a preset and changed values; `set` returns a changed copy. live: values passed as objects."""

    name: str
    preset: str | None = None
    settings: tuple[str, ...] = ()
    live: Mapping[str, Any] = field(default_factory=dict, repr=False)

    def set(self, *texts: str, **values: Any) -> "ChosenRecipe":
        """Return the recipe with changed values, given as `--set` strings or as keywords with `__` for dots.

        Objects in memory are accepted: `set(dataset={...}, model__name=SentenceTransformer(...))`.

        Raises RecipeError if an option does not exist in the recipe.
        """

        def is_live(name: str, value: Any) -> bool:
            if name == "dataset":
                plain = isinstance(value, Mapping) and isinstance(value.get("name"), str)
                return not isinstance(value, str) and not plain
            return name.endswith("__name") and hasattr(value, "save_pretrained")

        live = {name: value for name, value in values.items() if is_live(name, value)}
        plain = {name: value for name, value in values.items() if name not in live}
        settings = (*self.settings, *setting_texts(arguments.names_of("set", texts), plain))
        try:
            recipes.load_recipe(recipes.find_recipe(self.name), self.preset, settings)
        except errors.RecipeError as error:  # the next call may fix the others
            if unknown := [problem for problem in error.problems if ": no such option" in problem]:
                raise errors.RecipeError(error.source, unknown) from None
        return replace(self, settings=settings, live={**self.live, **live})

    @spelled_out
    def plan(self, **where: Unpack[Where]) -> "RecipePlan":
        """Plan the steps, and estimate the items and bytes of each, without running anything.

        Raises:
            RecipeError: the recipe has mistakes; the message lists all of them.
            HardnegError: a dataset or model is missing.
        """
        session = Session.of(where)
        planned = self._planned(session)
        return RecipePlan(planned, tuple(recipes.estimate(planned, session.store)))

    @spelled_out
    def check(self, **where: Unpack[Where]) -> "tuple[recipes.Need, ...]":
        """Return the packages, data and models that a run needs; `missing` explains why one is unavailable.

        Nothing is downloaded. Raises ModelError if nothing is missing, but a local model or reranker does not match.
        """
        problems, session = list[errors.HardnegError](), Session.of(where)
        needed = tuple(recipes.needs(self._planned(session, problems)))
        if problems and not any(need.missing for need in needed):
            raise problems[0]
        return needed

    @spelled_out
    def run(
        self,
        output: str | Path | None = None,
        *,
        until: str | None = None,
        force: Sequence[str] = (),
        overwrite: bool = False,
        **where: Unpack[Where],
    ) -> "RunFolder":
        """Run the recipe: reuse artifacts in the store, create missing ones, and write the results to the run folder.

        Args:
            output: the run folder, by default `runs/NAME-PRESET`.
            until: the last stage to run. force: stages to rerun, along with all stages that depend on them.
            overwrite: whether to replace files in the folder that were not written by a run.
            where: arguments that every function accepts (`Where`).

        Raises:
            UsageError: the folder is an input, or has files not written by a run and `overwrite` is not set.
        """
        session = Session.of(where)
        plan = self._planned(session)
        folder = (
            recipes.default_folder(plan.recipe.name, plan.recipe.preset)
            if output is None
            else file_path(output, "output")
        )
        target, words = (
            Target(folder, folder=True, names=recipes.names(plan), marked_by=layout.LOCK),
            Words("output", writer="{}"),
        )
        Outputs(
            recipes.COMMAND, [target], recipes.inputs_of(plan.recipe), session.store, overwrite, words=words
        ).check()
        outcome = session.make(plan, until, force)
        recipes.publish(plan, outcome.artifacts, session.store, folder)
        return RunFolder(plan.recipe.name, folder, outcome.artifacts, outcome.ran)

    def _planned(self, session: Session, problems: list[errors.HardnegError] | None = None) -> "recipes.Plan":
        named = {
            name: (named_dataset if name == "dataset" else named_model)(value, session.store)
            for name, value in self.live.items()
        }
        settings = [*session.settings, *self.settings, *setting_texts((), named)]
        return planned_recipe(self.name, self.preset, settings, problems=problems)


@dataclass(frozen=True)
class RecipePlan:
    """The planned steps of a recipe. rows: the estimate for each step, and whether the step is in the store."""

    plan: "recipes.Plan" = field(repr=False)
    rows: "tuple[recipes.Estimate, ...]" = field(repr=False)

    @property
    def keys(self) -> dict[str, str]:
        """The key of each step's artifact, by step name."""
        return self.plan.keys

    @property
    def ahead(self) -> list[str]:
        """The names of the steps that would run because the store does not have their artifacts."""
        return [row.step.name for row in self.rows if not row.cached]

    def __repr__(self) -> str:
        steps = f"{len(self.ahead)} of {wording.counted(len(self.rows), 'step')} to run"
        disk = sum(row.disk for row in self.rows if not row.cached)
        return f"RecipePlan({self.plan.recipe.name!r}, {steps}, {wording.size(disk)})"


@dataclass(frozen=True)
class RunFolder:
    """The results of a recipe: its run folder, and its artifacts by step. ran: the steps that were not reused."""

    name: str
    path: Path
    artifacts: Mapping[str, Artifact] = field(repr=False)
    ran: tuple[str, ...] = field(repr=False)

    def __fspath__(self) -> str:
        return str(self.path)

    @property
    def evaluation(self) -> Evaluation | None:
        """The metrics in the run folder; None if the recipe has no evaluation."""
        return (
            Evaluation(evaluation.metrics_json.read_metrics(path))
            if (path := self.path / layout.METRICS).is_file()
            else None
        )

    @property
    def model(self) -> results.TrainedModel | None:
        """The model in the run folder; None if there is none."""
        return (
            results.TrainedModel(self.name, "", path, {})
            if (path := self.path / layout.MODEL_FOLDER).is_dir()
            else None
        )

    @property
    def index(self) -> results.BuiltIndex | None:
        """The index in the run folder; None if there is none."""
        return (
            results.BuiltIndex(self.name, "", path, {}) if (path := self.path / layout.INDEX_FOLDER).is_dir() else None
        )

    @property
    def report(self) -> Path | None:
        """The path of the HTML report; None if there is none."""
        return path if (path := self.path / layout.REPORT_HTML).is_file() else None

    def __repr__(self) -> str:
        steps = wording.counted(len(self.artifacts), "step")
        return f"RunFolder({self.name!r}, {self.path}, {len(self.ran)} of {steps} ran)"


Stages = Mapping[str, tuple[str, Mapping[str, Any]]]
"""The artifact type and the facts of each stage in a run folder, by stage name."""

_FILES = ("qrels", "queries", "corpus", "withheld")


@partial(spelled_out, options=arguments.AnalyzeArguments)
def analyze(name: str, **fields: Any) -> "AnalysisResult":
    """Run an analysis on function results, files, or a finished run folder.

    Args:
        name: a name from `hardneg analyze --help`.
        fields: fields of the analysis, named as in a recipe, such as `runs={"dense": run, "bm25": path}`.

    Raises:
        PluginError: the analysis does not exist.
        UsageError: a field is unknown or missing.
    """
    chosen: type[base.Analysis] = load_plugin("analyses", arguments.name_of("name", name))
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
    """Return an analysis with validated fields. types: artifact types by stage; flag: maps fields to names in errors.

    Raises UsageError if fields are invalid; the message lists all mistakes, each with its field.
    """
    try:
        return chosen.model_validate(chosen.arranged(fields, types))
    except ValidationError as error:
        problems = []
        for item in mistakes(error):  # mistakes of the whole model name their field themselves
            line = complaint(item)
            name, rest = (str(item["loc"][0]), line) if item["loc"] else line.partition(": ")[::2]
            problems.append(f"{flag(name)}: {rest}" if name in chosen.model_fields else line)
        raise UsageError("\n".join(f"analyze {chosen.name}: {line}" for line in problems)) from None


def files_of(analysis: base.Analysis, values: Mapping[str, Any], stages: Stages, progress: Progress) -> base.Files:
    """Collect an analysis's inputs: the files in its fields, the stages, and `values` (other arguments, by name)."""
    named = {path: name for path, name, _ in analysis.references()}
    usual = {name: arg.default for name, arg in arguments.options_of(arguments.AnalyzeArguments).items()}
    alone = [Path(name) for path, name in named.items() if "." not in path]
    return base.Files(
        named,
        labels={str(path): label for path, label in given.run_labels(alone).items()},
        judged=values.get("qrels"),
        topics=values.get("queries"),
        corpus=values.get("corpus"),
        hidden=values.get("withheld"),
        stages=stages,
        device=values.get("device"),
        relevance_level=values.get("relevance_level", usual["relevance_level"]),
        seed=values.get("seed", usual["seed"]),
        progress=progress,
    )


def stages_of(run_folder: Path, store: Store) -> Stages:
    """Return the artifact type and facts of each stage in a run folder. Raises DataError if it is not a run folder."""
    artifacts = recipes.artifacts_of(run_folder, store)
    return {name: (artifact.artifact_type, artifact.facts) for name, artifact in artifacts.items()}


def _named(chosen: type[base.Analysis], name: str, value: Any, store: Store) -> Any:
    """Convert references in a field's value to paths, or paths by label; in-memory objects are written to the store."""
    marks = [mark for mark in chosen.model_fields[name].metadata if isinstance(mark, recipe_fields.Reference)]
    if not marks:
        return value
    if "run" in marks[0].artifact_types and isinstance(value, list | tuple):
        return {label: str(path) for label, path in given.labelled_runs(value, store).items()}

    def path_of(value: Any) -> Any:
        if isinstance(value, Evaluation):
            kept = given.keep_content(
                store,
                "given-metrics",
                lambda to: evaluation.metrics_json.write_metrics(to / layout.METRICS, value.measured),
            )
            return str(kept.path / layout.METRICS)
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
    return (
        given.keep_content(store, f"given-{name}", lambda to: formats.qrels.write_qrels(to / "qrels.txt", rows)).path
        / "qrels.txt"
    )


@dataclass(frozen=True)
class AnalysisResult:
    """The result of an analysis; numbers: the content as JSON values."""

    name: str
    numbers: Any = field(repr=False)
    analysis: base.Analysis = field(repr=False)

    def to_dict(self) -> Any:
        """Return the content as JSON values."""
        return self.numbers

    def draw(self, *paths: str | Path, overwrite: bool = False) -> None:
        """Draw the figure to .png, .svg or .pdf files, replacing earlier figures.

        Raises UsageError if a file exists that this method did not write, and `overwrite` is not set.
        """
        with results.writing("AnalysisResult.draw", paths, overwrite) as files:
            self.analysis.draw(self.numbers, files)

    def _repr_markdown_(self) -> str:
        section = Section(self.name, self.analysis.tables(self.numbers), self.analysis.explain(self.numbers))
        return reports.page.markdown(reports.content.ReportContent("", {}, 0, sections=[section]))
