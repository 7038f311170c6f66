"""Stage `report`: a page on an evaluation, with its trained models, its analyses and the time of each step."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal, cast

from pydantic import Field

from hardneg.evaluation import metrics_json
from hardneg.fields import LATER, SECTION, Name, Reference, Trait
from hardneg.records import layout, wording
from hardneg.report import content, figure, page, query_section, table
from hardneg.stages import ArtifactInput, Facts, RecipeView, StageContext, StageSpec, base, work
from hardneg.store import options_in_key
from hardneg.training.checkpoint import History

_ByLabel = Mapping[str, Mapping[int | None, ArtifactInput]]
_LABELLED = ("training", "analyses", "reading")
_WRITTEN = "The model was trained on queries generated from the passages, not asked by users."


class Report(StageSpec):
    """Writes an HTML page with figures, tables, training curves, analyses, answers, and the passages of each query.

    It also writes a Markdown version and a table of scores by query, `queries.tsv`. about: the row to feature; by
    default the row of the recipe's output model.
    """

    version = 4
    artifact_type = "report"
    purpose = "write a report with tables and figures"
    needs_dataset = reads_all_seeds = True
    stage: Literal["report"]
    evaluation: Annotated[Name, Reference(("metrics",))]
    training: Annotated[dict[str, work.BySeed], Reference(("model", "reranker"))] = Field(default_factory=dict)
    analyses: Annotated[dict[str, work.BySeed], Reference((SECTION,))] = Field(default_factory=dict)
    reading: Annotated[dict[str, work.BySeed], Reference((SECTION,))] = Field(default_factory=dict)
    title: str = ""
    about: str = Field(default="", json_schema_extra=LATER)

    def completed(self, recipe: RecipeView, written: Mapping[str, Any], notes: list[str]) -> "Report":
        rows, model = getattr(recipe.stages.get(self.evaluation), "runs", {}), recipe.outputs.get("model")
        changed: dict[str, dict[str, work.BySeed]] = {field: dict(getattr(self, field)) for field in _LABELLED}
        for named in changed.values():
            named |= {label: recipe.seeded.of(name) for label, name in named.items() if isinstance(name, str)}
        about = self.about or (row_of(model, rows, recipe.stages) if model else "")
        return self.model_copy(update={**changed, "about": about})

    def problems(self, recipe: RecipeView) -> Iterator[str]:
        rows = getattr(recipe.stages.get(self.evaluation), "runs", {})
        if self.about and self.about not in rows:
            yield f"about: no row {self.about!r} in {self.evaluation!r}{wording.suggestion(self.about, rows)}"

    def implied(self, recipe: RecipeView) -> Mapping[str, str]:
        """Return the evaluated runs (`runs.LABEL`), the stages they depend on (`behind.NUMBER`), and the dataset."""
        evaluation = recipe.stages.get(self.evaluation)
        references = evaluation.references() if evaluation is not None else ()
        runs = {path: target for path, target, need in references if "run" in need.artifact_types}
        if evaluation is not None and evaluation.dataset and self.dataset is None:
            runs["dataset"] = evaluation.dataset
        return runs | {f"behind.{at}": name for at, name in enumerate(steps_behind(runs.values(), recipe.stages))}

    def estimate(self, sizes: base.Sizes) -> base.Row:
        return base.Row(1, "page", 4_000_000)

    def publishes(self, recipe: RecipeView) -> Mapping[str, str]:
        """Return the pages and the scores by query, named after the stage if another report has the usual names."""
        if recipe.report in (None, recipe.name):
            return {name: name for name in (layout.REPORT_HTML, layout.REPORT_MARKDOWN, layout.QUERY_TABLE)}
        own = {f"{recipe.name}{Path(name).suffix}": name for name in (layout.REPORT_HTML, layout.REPORT_MARKDOWN)}
        return {**own, f"{recipe.name}-{layout.QUERY_TABLE}": layout.QUERY_TABLE}

    def make(self, context: "StageContext[Report]") -> Facts:
        evaluation, dataset = context.inputs["evaluation"], context.inputs["dataset"]
        split, rows = getattr(evaluation.spec, "split", "test"), getattr(evaluation.spec, "runs", {})
        measured, behind = metrics_json.read_metrics(evaluation.folder / layout.METRICS), context.inputs_of("behind")
        trained, runs = _by_label(context, "training"), dict[str, list[ArtifactInput]]()
        for path, source in context.inputs_of("runs").items():  # a row has several if it has several seeds
            runs.setdefault(work.by_label(rows).get(path, (path, None))[0], []).append(source)
        stages = {item.name: item.spec for item in behind.values() if item.spec is not None}
        next_steps, ran = list[tuple[str, str]](), context.ran[0]
        for sentence, command in steps_after(measured, rows, self.about, stages, content.RecipeRun(".", *context.ran)):
            place = "where the recipe was run" if ran and command.startswith(ran) else "of this page"
            next_steps.append((sentence, f"{command} (in the folder {place})"))
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
            next=next_steps,
            sections=_sections(_by_label(context, "analyses")) + _sections(_by_label(context, "reading")),
        )
        collection = work.open_collection(dataset)
        lists = {label: sources[0].folder / layout.RUN for label, sources in runs.items()}
        passages = query_section.Passages(lists, collection.qrels(split), collection, split)
        page.write_report(context.folder, shown, measured, passages)
        return {}


def steps_after(
    measured: metrics_json.Measured,
    rows: Mapping[str, work.BySeed],
    about: str,
    stages: Mapping[str, StageSpec],
    ran: content.RecipeRun,
) -> list[tuple[str, str]]:
    """Return the next steps to suggest after an evaluation, each a sentence and a command; about: the featured row."""
    ran = replace(ran, began=began_from(about, rows, stages) if about in rows else "")
    stage_of = {label: run if isinstance(run, str) else next(iter(run.values())) for label, run in rows.items()}
    runs = {label: Path(ran.folder, "runs", f"{name}.trec.gz") for label, name in stage_of.items()}
    return content.next_steps(measured, about, runs, ran)


def _by_label(context: StageContext[Report], field: str) -> dict[str, dict[int | None, ArtifactInput]]:
    sources = dict[str, dict[int | None, ArtifactInput]]()
    for path, (label, seed) in work.by_label(getattr(context.spec, field)).items():
        sources.setdefault(label, {})[seed] = context.inputs[f"{field}.{path}"]
    return sources


def _steps(items: Sequence[ArtifactInput]) -> table.Table:
    rows = {}
    for item in items:
        if item.spec is not None:
            seconds = item.facts.get("seconds")
            told = f"{seconds:,.1f}" if isinstance(seconds, int | float) else "–"
            rows[item.name] = [item.name, item.spec.stage, item.key, told]
    return table.Table(["step", "verb", "key", "seconds"], list(rows.values()), words=3)


def _histories(trained: _ByLabel) -> dict[str, list[dict[str, Any]]]:
    curves = {}
    for label, sources in trained.items():
        histories = [History(source.folder / layout.HISTORY).read() for source in sources.values()]
        name = label if len(histories) == 1 else f"{label} (mean of {len(histories)} seeds)"
        curves[name] = figure.mean_history(histories)
    return curves


def _settings(evaluation: ArtifactInput, trained: _ByLabel) -> dict[str, object]:
    """Return the settings of the evaluation and, prefixed by their labels, of training stages."""
    spec, facts, settings_of = cast(Any, evaluation.spec), evaluation.facts, dict[str, object]()
    if hasattr(spec, "relevance_level"):
        queries = f"{wording.counted(facts['queries'], 'query')} of split {spec.split}"
        settings_of = {"passages": facts["passages"], "evaluated on": queries}
        settings_of["relevant from grade"] = spec.relevance_level
    for label, sources in trained.items():
        by_seed = [_of_training(source) for source in sources.values()]
        for name in dict.fromkeys(name for settings in by_seed for name in settings):
            values = {str(settings[name]): settings[name] for settings in by_seed if name in settings}
            settings_of[f"{label}: {name}"] = ", ".join(values) if len(values) > 1 else values.popitem()[1]
    return settings_of


def _of_training(source: ArtifactInput) -> dict[str, object]:
    if (options := getattr(source.spec, "options", None)) is None or "loss" not in source.plugins:
        return {}
    figures = {name: value for name, value in source.facts.items() if isinstance(value, int | float)}
    return {"loss": source.plugins["loss"], **options_in_key(options), **figures}


def _sections(by_label: _ByLabel) -> list[table.Section]:
    by_verb: dict[str, tuple[StageSpec, dict[str, ArtifactInput]]] = {}
    for label, sources in by_label.items():
        for seed, source in sources.items():
            if source.spec is not None:
                named = label if seed is None else f"{label}, seed {seed}"
                by_verb.setdefault(source.spec.stage, (source.spec, {}))[1][named] = source
    return [section for spec, sources in by_verb.values() for section in spec.sections(sources)]


def row_of(model: str, rows: Mapping[str, work.BySeed], stages: Mapping[str, StageSpec]) -> str:
    """Return the row whose nearest model is `model`, at the smallest distance in stages; empty if there is none."""
    nearest = {label: nearest_model(run, stages) for label, run in rows.items()}
    own = {label: steps for label, (name, steps) in nearest.items() if name == model}
    return min(own, key=own.__getitem__, default="")


def began_from(label: str, rows: Mapping[str, work.BySeed], stages: Mapping[str, StageSpec]) -> str:
    """Return the row of the model from which training for row `label` started; empty if there is no such row."""
    trained = stages.get(nearest_model(rows[label], stages)[0])
    start = getattr(trained, "model", None) or layout.START
    return row_of(start, rows, stages) if trained is not None else ""


def nearest_model(run: work.BySeed, stages: Mapping[str, StageSpec]) -> tuple[str, int]:
    """Return the name of the model nearest to a run, and its distance in stages; empty and 0 if there is no model."""
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
    """Yield the given stages and all stages they depend on, each once, except the collection."""
    seen = {layout.DATASET}
    waiting = list(names)[::-1]
    while waiting:
        name = waiting.pop()
        if name not in seen and name in stages:
            seen.add(name)
            yield name
            waiting += [target for path, target, _ in stages[name].references() if path != layout.DATASET][::-1]
