"""Stages `evaluate` and `analyze`: runs scored and compared, and analyses that explain the scores."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property, partial
from itertools import combinations
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, SerializeAsAny, ValidationError
from pydantic_core import InitErrorDetails, PydanticCustomError

from hardneg import fields
from hardneg.analysis.base import Analysis, AnalysisInputs, Record, System, sections, write_analysis
from hardneg.encoders import protocol, spec
from hardneg.evaluation import LEVEL, MARGIN, intervals, metrics, metrics_json, significance
from hardneg.formats import qrels, runs, texts
from hardneg.protocols import DenseSearcher
from hardneg.records import errors, layout, types, wording
from hardneg.registry import load_plugin, no_such_option
from hardneg.report import content, table
from hardneg.runtime import SEED
from hardneg.stages import ArtifactInput, Facts, RecipeView, StageContext, StageSpec, StoredCollection, work
from hardneg.training.checkpoint import History


class Evaluate(StageSpec):
    """Scores runs on one split and tests their differences from the baselines.

    runs: one stage per row, or one per seed of the row's system. shared_seeds: pairs of rows whose runs with the same
    seed share random draws, as from a common warm-up. marks: for each sign, the rows that a row must beat significantly
    to get it; by default, one sign per baseline. metrics_of: fewer metrics for rows whose lists are too short for all.
    """

    version = 4
    artifact_type = "metrics"
    query_disk = (2_000, 300)
    purpose = "measure every system on the same queries, and test the differences"
    needs_dataset = reads_all_seeds = True
    stage: Literal["evaluate"]
    runs: Annotated[dict[str, work.BySeed], fields.MEASURED]
    split: fields.Name = Field("test", description=fields.SPLIT)
    metrics: Annotated[tuple[fields.MeasureName, ...], Field(min_length=1)] = ("mrr@10", "ndcg@10", "recall@100")
    relevance_level: int = Field(1, gt=0, description=fields.RELEVANT)
    baselines: tuple[str, ...] = ()
    marks: dict[Annotated[str, Field(min_length=1, max_length=3)], tuple[str, ...]] = Field(
        default={}, json_schema_extra=fields.LATER
    )
    seed: int = SEED
    answer_match: fields.AnswerMatch = Field(
        default="string",
        json_schema_extra=fields.LATER,
        description="Match answers as words, or as regular expressions.",
    )
    shared_seeds: tuple[tuple[str, str], ...] = Field(default=(), json_schema_extra=fields.LATER)
    significance_level: float = Field(
        default=LEVEL,
        gt=0,
        lt=1,
        json_schema_extra=fields.LATER,
        description="A difference is significant if both corrected p-values are below this.",
    )
    equivalence_margin: float = Field(
        default=MARGIN,
        gt=0,
        json_schema_extra=fields.LATER,
        description="Systems are equivalent if their means differ by less than this.",
    )
    query_groups: Annotated[fields.Name | None, fields.InputFile("a query's id, a tab and its group per line")] = Field(
        default=None,
        json_schema_extra=fields.FREE,
        description="Resample groups of queries, as defined in this file (query id, tab and group per line).",
    )
    by_group: bool | Literal["where_known"] = Field(
        default=False,
        json_schema_extra=fields.LATER,
        description="Resample the dataset's groups of queries, not single queries (`where_known`: if it has any).",
    )
    metrics_of: dict[str, Annotated[tuple[fields.MeasureName, ...], Field(min_length=1)]] = Field(
        default={}, json_schema_extra=fields.LATER
    )

    def problems(self, recipe: RecipeView) -> Iterator[str]:
        for label, names in self.metrics_of.items():
            if label not in self.runs:
                yield f"metrics_of.{label}: no row {label!r}{wording.suggestion(label, self.runs)}"
            for name in (each for each in names if each not in self.metrics):
                yield f"metrics_of.{label}: {name} is not in metrics; remove it, or add it to metrics"
        targets, paths = {path: target for path, target, _ in self.references()}, work.by_label(self.runs)
        for path, (label, _) in paths.items():
            target = targets[f"runs.{path}"]
            longest = recipe.list_length(target)
            if deeper := metrics.cut_below(self.metrics_of.get(label, self.metrics), longest):
                reason = f"{target!r} has at most {wording.counted(longest or 0, 'document')} per query, too few for"
                depth = max(int(name.partition("@")[2]) for name in deeper)
                advice = f"raise its depth to {depth}, or list the row's metrics in metrics_of"
                yield f"runs.{path}: {reason} {wording.joined(deeper)}; {advice}"
        if self.by_group is True and self.query_groups is not None:
            yield "by_group: cannot be combined with query_groups; remove one of them"
        several = {label: list(run) for label, run in self.runs.items() if not isinstance(run, str)}
        for label in {f"{label}.{seed}" for label, seeds in several.items() for seed in seeds} & self.runs.keys():
            yield f"runs.{label}: is both a row and the run of a seed; rename the row"
        for number, pair in enumerate(self.shared_seeds):
            if not {*pair} <= several.keys() or several[pair[0]] != several[pair[1]]:
                yield f"shared_seeds.{number}: {' and '.join(pair)} are not rows with the same seeds; remove the pair"
        if recipe.collection is not None:
            yield from self._lacking(recipe.collection)

    def _lacking(self, collection: Facts) -> Iterator[str]:
        if self.by_group is True and not collection.get("groups", {}).get("queries"):
            yield "by_group: no query of this dataset has a group; remove it, or set query_groups to a file"
        answers = [name for name in self.metrics if name.startswith("answer@")]
        if answers and not fields.has_answers(collection, self.split):
            yield f"metrics: {answers[0]} needs answers, but split {self.split} has none; use another dataset or metric"
        split = collection["splits"].get(self.split, {})
        if split.get("queries") and not split.get("judgements") and not answers:
            reason = f"no relevance judgement of split {self.split} has both its query and its document in the dataset"
            yield f"split: {reason}; run `hardneg data check` for details"
        highest, binary = split.get("highest_grade"), {*self.metrics} - {*answers} - metrics.graded(self.metrics)
        if highest is not None and highest < self.relevance_level and binary:
            reason = f"must be at most {highest}, the highest grade in split {self.split}, not {self.relevance_level}"
            yield f"relevance_level: {reason}"

    def on_written_queries(self, recipe: RecipeView) -> bool:
        """Return whether the evaluation queries were generated."""
        return self.dataset is not None and fields.Trait.WRITTEN_QUERIES in recipe.traits(self.dataset)

    def identity(self) -> dict[str, Any]:
        """Return the fields that may change the result, the row labels in order, and any tests over seeds."""
        seeded = any(not isinstance(run, str) for run in self.runs.values())
        tests = {"over seeds": "quasi-F, pigeonhole bootstrap"} if seeded else {}
        return {**super().identity(), "labels": list(self.runs), **tests}

    def completed(self, recipe: RecipeView, written: Mapping[str, Any], notes: list[str]) -> "Evaluate":
        """Return the stage with each row's runs for all seeds; rows that depend on the same training share seeds."""
        copies = recipe.seeded
        seeded = {label: run for label, run in self.runs.items() if isinstance(run, str) and run in copies.copies}
        runs = {**self.runs, **{label: copies.of(run) for label, run in seeded.items()}}
        pairs = combinations([label for label in seeded if not isinstance(runs[label], str)], 2)
        shared = [(one, other) for one, other in pairs if copies.share(seeded[one], seeded[other])]
        return self.model_copy(update={"runs": runs, "shared_seeds": (*self.shared_seeds, *shared)})

    def publishes(self, recipe: RecipeView) -> Mapping[str, str]:
        references = recipe.stages[recipe.report].references() if recipe.report else ()
        shown = {target for _, target, need in references if self.artifact_type in need.artifact_types}
        return {f"metrics-{recipe.name}.json" if shown and recipe.name not in shown else layout.METRICS: layout.METRICS}

    def sections(self, sources: Mapping[str, ArtifactInput]) -> list[table.Section]:
        paths = {label: source.folder / layout.METRICS for label, source in sources.items()}
        contents = (content.ReportContent.of(label, metrics_json.read_metrics(path)) for label, path in paths.items())
        return [replace(content.systems_section(each), title=each.title) for each in contents]

    def make(self, context: "StageContext[Evaluate]") -> Facts:
        """Write means, scores by query, intervals and paired tests against the baselines (default: the first row)."""
        named = {"baselines": self.baselines} | {f"marks.{sign}": rows for sign, rows in self.marks.items()}
        for option, label in ((option, label) for option, rows in named.items() for label in rows):
            if label not in self.runs:
                problem = f"no row {label!r}{wording.suggestion(label, self.runs)}"
                raise errors.UsageError(f"{context.name}.{option}: {problem}")
        collection = work.open_collection(context.inputs["dataset"])
        rows = dict[str, tuple[str, Path, Sequence[str]]]()
        paths = work.by_label(self.runs)
        for path, source in context.inputs_of("runs").items():
            (label, seed), names = paths[path], self.metrics_of.get(paths[path][0], self.metrics)
            row = label if seed is None else f"{label}, seed {seed}"
            rows[path] = row, source.folder / layout.RUN, [name for name in self.metrics if name in names]
        by_judgements = [name for name in self.metrics if name not in metrics.answer_cutoffs(self.metrics)]
        judged = collection.judged(self.split) if by_judgements else {}
        results, left_out, notes = score_runs(
            rows, judged, self.relevance_level, collection, self.split, self.answer_match
        )
        seeds = metrics.by_system(paths, results)
        means = {label: metrics.averaged([*of_seed.values()]) for label, of_seed in seeds.items()}
        scores = {label: means[label] if label in seeds else results[label] for label in self.runs}
        baselines = tuple(dict.fromkeys(label for rows in named.values() for label in rows)) or tuple(self.runs)[:1]
        groups = (collection.groups("query") or None) if self.by_group else None
        if self.query_groups is not None:
            groups = qrels.read_query_groups(Path(self.query_groups).expanduser())
        design, resampling = significance.Design(self.equivalence_margin, groups), intervals.Resampling(seed=self.seed)
        comparisons = significance.compare_all(scores, baselines, significance.Randomisation(seed=self.seed), design)
        over_seeds = significance.compare_over_seeds(scores, seeds, baselines, self.shared_seeds, resampling, design)
        level, margin = self.significance_level, design.margin
        measured = metrics_json.Measured(
            scores, comparisons, self.marks, seeds, over_seeds, level, notes, margin, groups
        )
        metrics_json.write_metrics(context.folder / layout.METRICS, measured)
        queries = max(len(values) for row in scores.values() for values in row.values())
        return {"queries": queries, "passages": len(collection.corpus), "systems": len(scores), **left_out}


def score_runs(
    rows: Mapping[str, tuple[str, Path, Sequence[str]]],
    judgements: qrels.Qrels,
    level: int,
    collection: StoredCollection | None,
    split: str,
    match: texts.Match,
) -> tuple[dict[str, metrics.Scores], dict[str, int], list[str]]:
    """Score run files against relevance judgements and, for answer@k, against the answers of a split.

    Args:
        rows: by key, the name of the run in notes, the run file, and the metrics to compute, in order.
        judgements: grades by query and document id; empty if no metric needs them.
        level: the lowest grade that counts as relevant in binary metrics.
        collection: supplies the answers, corpus size and excluded documents; None scores without them.
        split: the split whose answers are used.
        match: whether answers are words or regular expressions.

    Returns:
        The scores by key; counts of unusable answers and questions by reason, including patterns that failed while
        texts were searched; and notes on the runs and judgements.

    Raises DataError if answer@k is requested and the split has no answers.
    """
    names = list(dict.fromkeys(name for _, _, own in rows.values() for name in own))
    cutoffs, excluded, documents, answers, query_ids = metrics.answer_cutoffs(names), {}, None, None, list[str]()
    if collection is not None:
        excluded, documents = collection.excluded(), len(collection.corpus)
    if collection is not None and cutoffs:
        answers = texts.PassageAnswers.of(collection, split, match)
        query_ids = answers.query_ids
    notes = list[str]()
    scores: dict[str, metrics.Scores] = {}
    for key, (row, file, own) in rows.items():
        run, by_metric = qrels.without_excluded(runs.read_run(file), excluded), dict[str, Any]()
        if judged := [name for name in own if name not in cutoffs]:
            by_metric |= metrics.evaluate(run, judgements, judged, level)
            notes += metrics.run_notes(row, run, judgements, judged, documents)
        if answers is not None and (answered := [name for name in own if name in cutoffs]):
            by_metric |= metrics.answer_coverage(run, answers, query_ids, [cutoffs[name] for name in answered])
            notes += metrics.run_notes(row, run, set(query_ids), answered, documents)
        scores[key] = {name: by_metric[name] for name in own}
    notes += metrics.judgement_notes(judgements, [name for name in names if name not in cutoffs], level)
    left_out = dict[str, int]()
    if answers is not None and collection is not None:
        left_out = {**answers.left_out, "questions without answers": len(collection.queries(split)) - len(query_ids)}
    return scores, {reason: count for reason, count in left_out.items() if count}, list(dict.fromkeys(notes))


_FIELD = "analysis"


def _parse_analyses(value: Any) -> tuple[Analysis, ...]:
    if not isinstance(value, Mapping) or "name" in value:
        raise ValueError("must map names of analyses to their options, such as {overlap: {depth: 10}}")
    analyses, problems = list[Analysis](), list[InitErrorDetails]()
    for name, options in value.items():
        try:
            analysis_type: type[Analysis] = load_plugin("analyses", str(name))
            analyses.append(analysis_type.model_validate(options or {}))
        except errors.PluginError as error:
            own = PydanticCustomError("analysis", "{text}", {"text": str(error)})
            problems.append(InitErrorDetails(type=own, loc=(name,), input=name))
        except ValidationError as error:
            for item in error.errors():
                kind: Any = item["type"]
                if kind == "extra_forbidden":
                    text = no_such_option(str(item["loc"][-1]), list(analysis_type.model_fields))
                    kind = PydanticCustomError("analysis", "{text}", {"text": text})
                loc, ctx = (name, *item["loc"]), item.get("ctx", {})
                problems.append(InitErrorDetails(type=kind, loc=loc, input=item["input"], ctx=ctx))
    if problems:
        raise ValidationError.from_exception_data("analysis", problems)
    return tuple(analyses)


class Analyze(StageSpec):
    """Runs analyses that explain the metrics; each writes numbers, a table and a figure.

    analysis: the analyses; in a recipe, a mapping of names to options. split: the split of the queries and relevance
    judgements. relevance_level: the lowest relevant grade.
    """

    version = 3
    artifact_type = "analysis"
    query_disk = (1_000_000, 100)
    needs_dataset = True
    stage: Literal["analyze"]
    analysis: Annotated[tuple[SerializeAsAny[Analysis], ...], BeforeValidator(_parse_analyses), Field(min_length=1)]
    split: fields.Name = "test"
    relevance_level: int = Field(1, gt=0)
    seed: int = SEED

    @property
    def purpose(self) -> str:  # type: ignore[override]
        return f"explain the metrics: {wording.joined([each.name for each in self.analysis])}"

    def identity(self) -> dict[str, Any]:
        shared = {name: getattr(self, name) for name in ("split", "relevance_level", "seed")}
        return {**shared, "analyses": [[each.name, each.identity()] for each in self.analysis]}

    def problems(self, recipe: RecipeView) -> Iterator[str]:
        for each, path, index in self._encoders():
            if recipe.query_model(index) is None and fields.Trait.IMPORTED in recipe.traits(index):
                problem = f"the model of the imported vectors of {index!r} is unknown"
                yield f"{_FIELD}.{each.name}.{path}: missing, and {problem}; set it to the query encoder"
        if (collection := recipe.collection) is not None:
            yield from (f"{_FIELD}.{problem}" for each in self.analysis for problem in each.missing(collection))

    def implied(self, recipe: RecipeView) -> Mapping[str, str]:
        named = ((each.name, path, recipe.query_model(index)) for each, path, index in self._encoders())
        return {f"{_FIELD}.{name}.{path}": model for name, path, model in named if model is not None}

    def _encoders(self) -> Iterator[tuple[Analysis, str, str]]:
        return ((each, path, index) for each in self.analysis for path, index in each.encoders().items())

    def sections(self, sources: Mapping[str, ArtifactInput]) -> list[table.Section]:
        made = ((label, each.spec, each.folder) for label, each in sources.items() if isinstance(each.spec, Analyze))
        return [section for label, spec, folder in made for section in sections(label, spec.analysis, folder)]

    def publishes(self, recipe: RecipeView) -> Mapping[str, str]:
        return {f"analyses/{recipe.name}": "."}

    def make(self, context: "StageContext[Analyze]") -> Facts:
        for each in self.analysis:
            write_analysis(each, Artifacts(context, each), context.folder)
        return {"analyses": [each.name for each in self.analysis]}


@dataclass(frozen=True)
class Artifacts(AnalysisInputs):
    """The artifacts that one analysis of the stage reads."""

    context: "StageContext[Analyze]"
    analysis: Analysis

    def __post_init__(self) -> None:
        for name in ("split", "relevance_level", "seed"):
            object.__setattr__(self, name, getattr(self.context.spec, name))

    def _input(self, path: str) -> ArtifactInput:
        return self.context.inputs[f"{_FIELD}.{self.analysis.name}.{path}"]

    @cached_property
    def _collection(self) -> StoredCollection:
        return work.open_collection(self.context.inputs[layout.DATASET])

    def location(self, path: str) -> str:
        return f"{self.context.name}.{_FIELD}.{self.analysis.name}.{path}"

    def label(self, path: str) -> str:
        return next(name for each, name, _ in self.analysis.references() if each == path)

    def run(self, path: str) -> runs.Run:
        excluded = self._collection.excluded() if layout.DATASET in self.context.inputs else {}
        return qrels.without_excluded(runs.read_run(self._input(path).folder / layout.RUN), excluded)

    def stream(self, path: str) -> Iterator[tuple[str, types.RankedList]]:
        return runs.stream_run(self._input(path).folder / layout.RUN)

    def lists(self, path: str, query_ids: Sequence[str]) -> Iterator[types.RankedList]:
        return runs.lists_in_order(self._input(path).folder / layout.RUN, query_ids)

    def query_ids(self, path: str, split: str) -> Sequence[str]:
        return self._collection.queries(split).query_ids

    def qrels(self) -> qrels.Qrels:
        return self._collection.judged(self.split)

    def positives(self) -> dict[str, list[str]]:
        return qrels.positives(self._collection.qrels(self.split), self.relevance_level)

    def relevant(self) -> Mapping[str, Sequence[str]]:
        return qrels.positives(self._collection.all_qrels())

    def withheld(self) -> Mapping[str, Sequence[str]]:
        return qrels.positives(self._collection.withheld())

    def queries(self, split: str | None) -> Mapping[str, str]:
        splits = self._collection.splits if split is None else [split]
        return {query.query_id: query.text for name in splits for query in self._collection.queries(name)}

    def texts(self, doc_ids: Sequence[str]) -> Mapping[str, str]:
        rows = (corpus := self._collection.corpus).rows(doc_ids)
        return {document.doc_id: document.contents for document in corpus.documents_at(rows[rows >= 0])}

    def copies(self, doc_ids: Sequence[str]) -> Sequence[str]:
        rows = (corpus := self._collection.corpus).rows(doc_ids)
        return corpus.ids(corpus.copies(rows[rows >= 0]))

    def groups(self) -> Mapping[str, str]:
        return self._collection.groups("document")

    def negatives(self, path: str) -> Path:
        return self._input(path).folder / layout.NEGATIVES

    def mined(self, path: str) -> tuple[Path, Path]:
        return self._input(path).folder / layout.DROPPED, self._input(path).folder / layout.NEGATIVES

    def history(self, path: str) -> list[Record]:
        return list(History(self._input(path).folder / layout.HISTORY).read())

    def facts(self, path: str) -> tuple[str, Mapping[str, Any]]:
        source = self._input(path)
        return source.spec.artifact_type if source.spec is not None else "model", source.facts

    def measured(self, path: str) -> metrics_json.Measured:
        return metrics_json.read_metrics(self._input(path).folder / layout.METRICS)

    def index(self, path: str) -> tuple[Path, int | None]:
        return self._input(path).part("index"), len(self._collection.corpus)

    def system(self, index: str, model: str) -> System:
        from hardneg.indexes.exact import ExactOptions

        device, progress, corpus = self.context.device, self.context.progress, self._collection.corpus
        searcher = work.open_searcher(self._input(index), self._collection, device, progress)
        assert isinstance(searcher, DenseSearcher)
        opened = cache(partial(work.open_encoder, self._input(model), device, "fp32"))

        def encode(side: spec.Side, texts: Sequence[str]) -> Any:
            return opened().encode(texts, side, protocol.EncodeOptions(precision="fp32"), progress)

        where, sides = str(ExactOptions(device=device).where), (partial(encode, "query"), partial(encode, "document"))
        return System(searcher, corpus.doc_ids, corpus.rows, sides[0], where, sides[1])
