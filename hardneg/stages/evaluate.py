"""Stage `evaluate`: runs scored on one split, and compared pairwise."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from hardneg import fields
from hardneg.evaluation import LEVEL, MARGIN, intervals, metrics, metrics_json, significance, two_level
from hardneg.fields import FREE, LATER, MeasureName
from hardneg.formats import answer_matching
from hardneg.formats.collection import StoredCollection
from hardneg.formats.qrels import read_query_groups, without_excluded
from hardneg.formats.runs import read_run
from hardneg.records import errors, layout, wording
from hardneg.report.content import ReportContent, systems_section
from hardneg.report.table import Section
from hardneg.runtime import SEED
from hardneg.stages import base, inputs
from hardneg.stages.base import ArtifactInput, BySeed, Facts, RecipeView, StageContext, StageSpec, by_label


class Evaluate(StageSpec):
    """Scores runs on one split and compares them pairwise.

    runs: a row's label to a stage, or to one for each seed that the row's system was trained with.
    shared_seeds: pairs of rows in which a seed is one draw for both, such as that of a warm-up that both start from.
    marks: a sign for rows that are significantly better than each row it names; by default each baseline has a sign.
    metrics_of: a row's label to those of the metrics that it is measured by, where its lists are too short for others.
    """

    version = 4
    artifact_type = "metrics"
    query_disk = (2_000, 300)
    purpose = "measure every system on the same queries, and test the differences"
    needs_dataset = True
    stage: Literal["evaluate"]
    runs: Annotated[dict[str, BySeed], fields.MEASURED]
    split: fields.Name = Field("test", description=fields.SPLIT)
    metrics: Annotated[tuple[MeasureName, ...], Field(min_length=1)] = ("mrr@10", "ndcg@10", "recall@100")
    relevance_level: int = Field(1, gt=0, description=fields.RELEVANT)
    baselines: tuple[str, ...] = ()
    marks: dict[Annotated[str, Field(min_length=1, max_length=3)], tuple[str, ...]] = Field(
        default={}, json_schema_extra=LATER
    )
    seed: int = SEED
    answer_match: fields.AnswerMatch = Field(
        default="string", json_schema_extra=LATER, description="Match answers as words, or as regular expressions."
    )
    shared_seeds: tuple[tuple[str, str], ...] = Field(default=(), json_schema_extra=LATER)
    significance_level: float = Field(
        default=LEVEL,
        gt=0,
        lt=1,
        json_schema_extra=LATER,
        description="Both corrected p values of a significant difference are below it.",
    )
    equivalence_margin: float = Field(
        default=MARGIN,
        gt=0,
        json_schema_extra=LATER,
        description="Systems are equivalent if their means differ by less than this.",
    )
    query_groups: Annotated[fields.Name | None, fields.InputFile("a query's id, a tab and its group a line")] = Field(
        default=None,
        json_schema_extra=FREE,
        description="The same, with groups from a file: query id, tab and group per line.",
    )
    by_group: bool | Literal["where_known"] = Field(
        default=False,
        json_schema_extra=LATER,
        description="Sample the dataset's groups of queries, not queries (`where_known`: if it has groups).",
    )
    metrics_of: dict[str, Annotated[tuple[MeasureName, ...], Field(min_length=1)]] = Field(
        default={}, json_schema_extra=LATER
    )

    def problems(self, recipe: RecipeView) -> Iterator[str]:
        for label, names in self.metrics_of.items():
            if label not in self.runs:
                yield f"metrics_of.{label}: no row {label!r}{wording.suggestion(label, self.runs)}"
            for name in (each for each in names if each not in self.metrics):
                yield f"metrics_of.{label}: {name} is none of metrics; leave it out, or add it there"
        targets, paths = {path: target for path, target, _ in self.references()}, by_label(self.runs)
        for path, (label, _) in paths.items():
            target = targets[f"runs.{path}"]
            longest = recipe.list_length(target)
            if deeper := metrics.cut_below(self.metrics_of.get(label, self.metrics), longest):
                reason = f"{target!r} has {wording.counted(longest or 0, 'document')} of a query at most, too few for"
                depth = max(int(name.partition("@")[2]) for name in deeper)
                advice = f"raise its depth to {depth}, or name the row's metrics in metrics_of"
                yield f"runs.{path}: {reason} {wording.joined(deeper)}; {advice}"
        if self.by_group is True and self.query_groups is not None:
            yield "by_group: query_groups has the groups of a file; leave one of the two out"
        several = {label: list(run) for label, run in self.runs.items() if not isinstance(run, str)}
        for label in {f"{label}.{seed}" for label, seeds in several.items() for seed in seeds} & self.runs.keys():
            yield f"runs.{label}: stands for a row and for the run of a seed: name the row otherwise"
        for number, pair in enumerate(self.shared_seeds):
            if not {*pair} <= several.keys() or several[pair[0]] != several[pair[1]]:
                yield f"shared_seeds.{number}: {' and '.join(pair)} must be rows of the same seeds: leave it out"

    def missing(self, collection: Facts) -> Iterator[str]:
        if self.by_group is True and not collection.get("groups", {}).get("queries"):
            yield "by_group: no query of this dataset has a group; leave it out, or give a file in query_groups"
        answers = [name for name in self.metrics if name.startswith("answer@")]
        if answers and not fields.has_answers(collection, self.split):
            yield f"metrics: {answers[0]} needs answers, and split {self.split} has none: change the dataset or metric"
        split = collection["splits"].get(self.split, {})
        if split.get("queries") and not split.get("judgements") and not answers:
            reason = f"no judgement of split {self.split} is of a query and a document of the dataset"
            yield f"split: {reason}, so nothing can be measured; `hardneg data check` shows what is wrong"
        highest, binary = split.get("highest_grade"), {*self.metrics} - {*answers} - metrics.graded(self.metrics)
        if highest is not None and highest < self.relevance_level and binary:
            reason = f"no judgement of split {self.split} reaches it, the highest is {highest}"
            yield f"relevance_level: {reason}: all would score 0; lower it"

    def on_written_queries(self, recipe: RecipeView) -> bool:
        """Whether a writer made the queries that it measures by."""
        return self.dataset is not None and fields.Trait.WRITTEN_QUERIES in recipe.traits(self.dataset)

    def identity(self) -> dict[str, Any]:
        """The order and the names of the rows count too; which tests know of seeds."""
        seeded = any(not isinstance(run, str) for run in self.runs.values())
        tests = {"over seeds": "quasi-F, pigeonhole bootstrap"} if seeded else {}
        return {**super().identity(), "labels": list(self.runs), **tests}

    def over_seeds(self, copies: base.SeededStages) -> "Evaluate":
        """A row names the runs of all seeds; two rows share their seeds where one training decides both."""
        seeded = {label: run for label, run in self.runs.items() if isinstance(run, str) and run in copies.copies}
        runs = {**self.runs, **{label: copies.of(run) for label, run in seeded.items()}}
        pairs = combinations([label for label in seeded if not isinstance(runs[label], str)], 2)
        shared = [(one, other) for one, other in pairs if copies.share(seeded[one], seeded[other])]
        return self.model_copy(update={"runs": runs, "shared_seeds": (*self.shared_seeds, *shared)})

    def publishes(self, recipe: RecipeView) -> Mapping[str, str]:
        references = recipe.stages[recipe.report].references() if recipe.report else ()
        shown = {target for _, target, need in references if self.artifact_type in need.artifact_types}
        return {f"metrics-{recipe.name}.json" if shown and recipe.name not in shown else layout.METRICS: layout.METRICS}

    def settings(self, source: ArtifactInput) -> Mapping[str, object]:
        queries = f"{wording.counted(source.facts['queries'], 'query')} of split {self.split}"
        of_data = {"passages": source.facts["passages"], "evaluated on": queries}
        return {**of_data, "relevant from grade": self.relevance_level}

    def sections(self, sources: Mapping[str, ArtifactInput]) -> list[Section]:
        paths = {label: source.folder / layout.METRICS for label, source in sources.items()}
        contents = (ReportContent.of(label, metrics_json.read_metrics(path)) for label, path in paths.items())
        return [replace(systems_section(content), title=content.title) for content in contents]

    def make(self, context: "StageContext[Evaluate]") -> Facts:
        """Writes means, values by query, intervals, paired tests against the baselines, by default the first row."""
        named = {"baselines": self.baselines} | {f"marks.{sign}": rows for sign, rows in self.marks.items()}
        for option, label in ((option, label) for option, rows in named.items() for label in rows):
            if label not in self.runs:
                problem = f"no row {label!r}{wording.suggestion(label, self.runs)}"
                raise errors.UsageError(f"{context.name}.{option}: {problem}")
        collection = inputs.open_collection(context.inputs["dataset"])
        results, left_out, notes = _scores(context, collection)
        seeds = metrics.by_system(by_label(self.runs), results)
        means = {label: metrics.averaged([*of_seed.values()]) for label, of_seed in seeds.items()}
        scores = {label: means[label] if label in seeds else results[label] for label in self.runs}
        baselines = tuple(dict.fromkeys(label for rows in named.values() for label in rows)) or tuple(self.runs)[:1]
        groups = (collection.groups("query") or None) if self.by_group else None
        if self.query_groups is not None:
            groups = read_query_groups(Path(self.query_groups).expanduser())
        design, resampling = significance.Design(self.equivalence_margin, groups), intervals.Resampling(seed=self.seed)
        comparisons = significance.compare_all(scores, baselines, significance.Randomisation(seed=self.seed), design)
        over_seeds = two_level.compare_over_seeds(scores, seeds, baselines, self.shared_seeds, resampling, design)
        measured = metrics_json.Measured(
            scores, comparisons, self.marks, seeds, over_seeds, self.significance_level, notes, design.margin, groups
        )
        metrics_json.write_metrics(context.folder / layout.METRICS, measured)
        queries = max(len(values) for row in scores.values() for values in row.values())
        return {"queries": queries, "passages": len(collection.corpus), "systems": len(scores), **left_out}


def _scores(
    context: StageContext[Evaluate], collection: StoredCollection
) -> tuple[dict[str, metrics.Scores], dict[str, int], list[str]]:
    """Each run's scores by its path, metrics in the order asked for; what was left out; what must be known besides."""
    spec, cutoffs, paths = context.spec, metrics.answer_cutoffs(context.spec.metrics), by_label(context.spec.runs)
    by_judgements = [name for name in spec.metrics if name not in cutoffs]
    qrels = collection.judged(spec.split) if by_judgements else {}
    answers, left_out = answer_matching.PassageAnswers(collection.corpus, {}), dict[str, int]()
    if cutoffs:
        answers = answer_matching.PassageAnswers.of(collection, spec.split, spec.answer_match)
        without = len(collection.queries(spec.split)) - len(answers.query_ids)
        left_out = {**answers.left_out, **({"questions without answers": without} if without else {})}
    query_ids, documents, excluded = answers.query_ids, len(collection.corpus), collection.excluded()
    scores: dict[str, metrics.Scores] = {}
    notes = [*metrics.judgement_notes(qrels, by_judgements, spec.relevance_level)]
    for path, source in context.inputs_of("runs").items():
        run, (label, seed) = without_excluded(read_run(source.folder / layout.RUN), excluded), paths[path]
        names, row = spec.metrics_of.get(label, spec.metrics), label if seed is None else f"{label}, seed {seed}"
        by_metric: metrics.Scores = {}
        if judged := [name for name in names if name not in cutoffs]:
            by_metric |= metrics.evaluate(run, qrels, judged, spec.relevance_level)
            notes += metrics.run_notes(row, run, qrels, judged, documents)
        if answered := [name for name in names if name in cutoffs]:
            by_metric |= metrics.answer_coverage(run, answers, query_ids, [cutoffs[name] for name in answered])
            notes += metrics.run_notes(row, run, set(query_ids), answered, documents)
        scores[path] = {name: by_metric[name] for name in spec.metrics if name in names}
    return scores, left_out, list(dict.fromkeys(notes))
