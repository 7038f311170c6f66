"""Stage `report`: an evaluation, trainings, analyses and readings as pages to read, with what each row took."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from hardneg.evaluation import metrics_json
from hardneg.fields import LATER, SECTION, Name, Reference, Trait
from hardneg.records import layout, wording
from hardneg.report import content, figure, page, query_section
from hardneg.report.table import Section, Table
from hardneg.stages import base, inputs
from hardneg.stages.base import ArtifactInput, BySeed, Facts, RecipeView, StageContext, StageSpec, by_label
from hardneg.training.checkpoint import History

_ByLabel = Mapping[str, Mapping[int | None, ArtifactInput]]
_LABELLED = ("training", "analyses", "reading")
_WRITTEN = "It was trained on queries that were written from the passages, which nobody has asked."


class Report(StageSpec):
    """Writes one HTML page: figures of what was compared, then tables, training curves, analyses, what was read.

    Each query has its passages there. It is there as Markdown too, and the scores by query as `queries.tsv`.
    about: the row that it is about; by default that of the model which the recipe hands out.
    """

    version = 4
    artifact_type = "report"
    purpose = "put tables and figures on a page"
    needs_dataset = True
    stage: Literal["report"]
    evaluation: Annotated[Name, Reference(("metrics",))]
    training: Annotated[dict[str, BySeed], Reference(("model", "reranker"))] = Field(default_factory=dict)
    analyses: Annotated[dict[str, BySeed], Reference((SECTION,))] = Field(default_factory=dict)
    reading: Annotated[dict[str, BySeed], Reference((SECTION,))] = Field(default_factory=dict)
    title: str = ""
    about: str = Field(default="", json_schema_extra=LATER)

    def handing_out(self, outputs: Mapping[str, str], recipe: RecipeView) -> "Report":
        """The row of the recipe's model, where no other is named."""
        rows = getattr(recipe.stages.get(self.evaluation), "runs", {})
        about = self.about or (row_of(outputs["model"], rows, recipe.stages) if "model" in outputs else "")
        return self.model_copy(update={"about": about})

    def problems(self, recipe: RecipeView) -> Iterator[str]:
        rows = getattr(recipe.stages.get(self.evaluation), "runs", {})
        if self.about and self.about not in rows:
            yield f"about: no row {self.about!r} in {self.evaluation!r}{wording.suggestion(self.about, rows)}"

    def implied(self, recipe: RecipeView) -> Mapping[str, str]:
        """The runs that were evaluated, as `runs.LABEL`, all steps that made them, `behind.NUMBER`; their dataset."""
        evaluation = recipe.stages.get(self.evaluation)
        references = evaluation.references() if evaluation is not None else ()
        runs = {path: target for path, target, need in references if "run" in need.artifact_types}
        if evaluation is not None and evaluation.dataset and self.dataset is None:
            runs["dataset"] = evaluation.dataset
        return runs | {f"behind.{at}": name for at, name in enumerate(steps_behind(runs.values(), recipe.stages))}

    def over_seeds(self, seeds: base.SeededStages) -> "Report":
        changed: dict[str, dict[str, BySeed]] = {field: dict(getattr(self, field)) for field in _LABELLED}
        for named in changed.values():
            named |= {label: seeds.of(name) for label, name in named.items() if isinstance(name, str)}
        return self.model_copy(update=changed)

    def estimate(self, sizes: base.Sizes) -> base.Row:
        return base.Row(1, "page", 4_000_000)

    def publishes(self, recipe: RecipeView) -> Mapping[str, str]:
        """The pages, and the scores by query: under the stage's own name where another report has the usual ones."""
        if recipe.report in (None, recipe.name):
            return {name: name for name in (layout.REPORT_HTML, layout.REPORT_MARKDOWN, layout.QUERY_TABLE)}
        own = {f"{recipe.name}{Path(name).suffix}": name for name in (layout.REPORT_HTML, layout.REPORT_MARKDOWN)}
        return {**own, f"{recipe.name}-{layout.QUERY_TABLE}": layout.QUERY_TABLE}

    def make(self, context: "StageContext[Report]") -> Facts:
        evaluation, dataset = context.inputs["evaluation"], context.inputs["dataset"]
        split, rows = getattr(evaluation.spec, "split", "test"), getattr(evaluation.spec, "runs", {})
        measured, behind = metrics_json.read_metrics(evaluation.folder / layout.METRICS), context.inputs_of("behind")
        trained, runs = _by_label(context, "training"), dict[str, list[ArtifactInput]]()
        for path, source in context.inputs_of("runs").items():  # several of a row with several seeds
            runs.setdefault(by_label(rows).get(path, (path, None))[0], []).append(source)
        stages = {item.name: item.spec for item in behind.values() if item.spec is not None}
        next_steps = steps_after(measured, rows, self.about, stages, ".")
        written = any(Trait.WRITTEN_QUERIES in item.traits for item in behind.values())
        of_writers = "written " * (Trait.WRITTEN_QUERIES in dataset.traits)
        queries = wording.counted(evaluation.facts["queries"], f"{of_writers}query")
        shown = content.ReportContent.of(
            self.title or "Results",
            measured,
            histories=_histories(trained),
            settings=_settings(evaluation, trained),
            notes=[*measured.notes, *([_WRITTEN] if written else [])],
            settings_tables=[_steps([dataset, *context.inputs.values()])],
            over=f"{queries} of split {split}, over {wording.counted(evaluation.facts['passages'], 'passage')}",
            system=self.about,
            began=began_from(self.about, rows, stages) if self.about in rows else "",
            browse=f"hardneg browse . --split {split} (in the folder of this page)",
            next=[(sentence, f"{command} (in the folder of this page)") for sentence, command in next_steps],
            sections=_sections(_by_label(context, "analyses")) + _sections(_by_label(context, "reading")),
        )
        collection = inputs.open_collection(dataset)
        lists = {label: sources[0].folder / layout.RUN for label, sources in runs.items()}
        passages = query_section.Passages(lists, collection.qrels(split), collection, split)
        page.write_report(context.folder, shown, measured, passages)
        return {}


def steps_after(
    measured: metrics_json.Measured,
    rows: Mapping[str, BySeed],
    about: str,
    stages: Mapping[str, StageSpec],
    folder: str,
    recipe: str = "RECIPE",
) -> list[tuple[str, str]]:
    """Return the next steps after an evaluation of these rows, by sentence and command; folder: the run folder."""
    began = began_from(about, rows, stages) if about in rows else ""
    stage_of = {label: run if isinstance(run, str) else next(iter(run.values())) for label, run in rows.items()}
    runs = {label: str(Path(folder, "runs", f"{name}.trec.gz")) for label, name in stage_of.items()}
    return content.next_steps(measured, about, began, folder, runs, recipe)


def _by_label(context: StageContext[Report], field: str) -> dict[str, dict[int | None, ArtifactInput]]:
    """The inputs of a field by label and seed; the seed is None where there is one alone."""
    sources = dict[str, dict[int | None, ArtifactInput]]()
    for path, (label, seed) in by_label(getattr(context.spec, field)).items():
        sources.setdefault(label, {})[seed] = context.inputs[f"{field}.{path}"]
    return sources


def _steps(items: Sequence[ArtifactInput]) -> Table:
    """Every step that led to the page, with its key and what it took."""
    rows = {}
    for item in items:
        if item.spec is not None:
            seconds = item.facts.get("seconds")
            told = f"{seconds:,.1f}" if isinstance(seconds, int | float) else "–"
            rows[item.name] = [item.name, item.spec.verb, item.key, told]
    return Table(["step", "verb", "key", "seconds"], list(rows.values()), words=3)


def _histories(trained: _ByLabel) -> dict[str, list[dict[str, Any]]]:
    """The learning curve of each label; that of several seeds is the mean."""
    curves = {}
    for label, sources in trained.items():
        histories = [History(source.folder / layout.HISTORY).read() for source in sources.values()]
        name = label if len(histories) == 1 else f"{label} (mean of {len(histories)} seeds)"
        curves[name] = figure.mean_history(histories)
    return curves


def _settings(evaluation: ArtifactInput, trained: _ByLabel) -> dict[str, object]:
    """What one needs to know to judge the table, name by name; of trainings with the label before."""
    settings_of = dict(evaluation.spec.settings(evaluation)) if evaluation.spec else {}
    for label, sources in trained.items():
        by_seed = [source.spec.settings(source) for source in sources.values() if source.spec]
        for name in dict.fromkeys(name for settings in by_seed for name in settings):
            values = {str(settings[name]): settings[name] for settings in by_seed if name in settings}
            settings_of[f"{label}: {name}"] = ", ".join(values) if len(values) > 1 else values.popitem()[1]
    return settings_of


def _sections(by_label: _ByLabel) -> list[Section]:
    """What the verbs that made the artifacts show of them, each of all of its own at once."""
    by_verb: dict[str, tuple[StageSpec, dict[str, ArtifactInput]]] = {}
    for label, sources in by_label.items():
        for seed, source in sources.items():
            if source.spec is not None:
                named = label if seed is None else f"{label}, seed {seed}"
                by_verb.setdefault(source.spec.verb, (source.spec, {}))[1][named] = source
    return [section for spec, sources in by_verb.values() for section in spec.sections(sources)]


def row_of(model: str, rows: Mapping[str, BySeed], stages: Mapping[str, StageSpec]) -> str:
    """The row of a model, by the fewest steps between its run and the model; empty where there is none."""
    nearest = {label: nearest_model(run, stages) for label, run in rows.items()}
    own = {label: steps for label, (name, steps) in nearest.items() if name == model}
    return min(own, key=own.__getitem__, default="")


def began_from(label: str, rows: Mapping[str, BySeed], stages: Mapping[str, StageSpec]) -> str:
    """The row of the model that a row's own was trained from; empty where there is none."""
    trained = stages.get(nearest_model(rows[label], stages)[0])
    start = getattr(trained, "model", None) or layout.START
    return row_of(start, rows, stages) if trained is not None else ""


def nearest_model(run: BySeed, stages: Mapping[str, StageSpec]) -> tuple[str, int]:
    """The model that a run was made from by the fewest steps, and how many; empty where there is none."""
    seen, level, steps = {layout.DATASET}, [run] if isinstance(run, str) else [*run.values()], 0
    while level:
        if models := [
            name for name in level if name == layout.START or (name in stages and "model" in stages[name].parts)
        ]:
            return models[0], steps
        seen |= {*level}
        known = [stages[name] for name in level if name in stages]
        references = (each for spec in known for each in spec.references())
        level = [target for path, target, _ in references if path != layout.DATASET and target not in seen]
        steps += 1
    return "", 0


def steps_behind(names: Iterable[str], stages: Mapping[str, StageSpec]) -> Iterator[str]:
    """The stages that these come of, and these themselves, each once; the collection is none of them."""
    seen = {layout.DATASET}
    waiting = list(names)[::-1]
    while waiting:
        name = waiting.pop()
        if name not in seen and name in stages:
            seen.add(name)
            yield name
            waiting += [target for path, target, _ in stages[name].references() if path != layout.DATASET][::-1]
