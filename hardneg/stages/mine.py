"""Stages `mine` and `label`: negatives selected from runs, and pseudo-labels from a reranker's scores."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import BeforeValidator, Field, model_validator

from hardneg import fields
from hardneg.datasets.held_out import UNLABELLED
from hardneg.formats import form_names, negatives, qrels, runs
from hardneg.formats.collection import extended
from hardneg.formats.corpus import Corpus, candidates
from hardneg.mining import choosing, filters, thresholds
from hardneg.protocols import RunJoiner
from hardneg.records import errors, layout, types
from hardneg.runtime import progress, seeding
from hardneg.stages import Facts, RecipeView, StageContext, StageSpec, StoredCollection, work
from hardneg.store.blocks import BlockResult, contiguous

_BLOCK = 1024  # queries
NO_POSITIVE, NO_NEGATIVE = "queries without a pseudo-positive", "queries without a pseudo-negative"
ABOVE = 0.9


class Mine(StageSpec):
    """Selects negatives for the queries of one split from `runs`; most miners use only the first run.

    file: negatives from another program, as input. form: its format, as in `hardneg export`. without_answers:
    apply the filter `answers` first. answer_match: match answers as words or as regular expressions. fill_to: add
    random documents, which are filtered too, up to this number of negatives. also_qrels: files of more judgements,
    whose positives are also used in training. permuted: give each query the lists of another query.
    positives_of_others: instead of a run, use this many random positives of other queries. planted: for this share of
    the queries with withheld positives, list only positives; for the rest, remove withheld positives from the lists.
    """

    version = 2
    artifact_type = "negatives"
    query_disk = (0, 4_000)
    every_process = in_blocks = True
    purpose = "select hard negatives, which are passages that rank high but are not labelled relevant"
    needs_dataset = True
    stage: Literal["mine"]
    miner: fields.MinerSetting = Field(description="The miner; `hardneg plugins list miners` shows all.")
    filters: fields.FilterSettings = Field(
        (), description="Filters to apply before the miner, in this order; each is a name or {name: NAME, ...}."
    )
    runs: Annotated[dict[str, fields.Name], fields.Reference(("run",))] = Field(default_factory=dict)
    file: Annotated[fields.Name | None, fields.InputFile("negatives from another program")] = Field(
        default=None, json_schema_extra=fields.FREE
    )
    form: fields.Name = Field(default="hardneg", json_schema_extra=fields.LATER)
    split: fields.Name = Field("train", description=fields.SPLIT)
    seed: int = Field(seeding.SEED, description="Seed for miners that sample.")
    without_answers: bool = Field(default=False, json_schema_extra=fields.LATER)
    answer_match: fields.AnswerMatch = Field(default="string", json_schema_extra=fields.LATER)
    fill_to: int | None = Field(default=None, gt=0, json_schema_extra=fields.LATER)
    permuted: bool = Field(default=False, json_schema_extra=fields.LATER)
    positives_of_others: int | None = Field(default=None, gt=0, json_schema_extra=fields.LATER)
    planted: float | None = Field(default=None, ge=0, le=1, json_schema_extra=fields.LATER)
    also_qrels: Annotated[
        tuple[fields.Name, ...], BeforeValidator(fields.parse_names), fields.InputFile("qrels in TREC or BEIR format")
    ] = Field(
        default=(),
        json_schema_extra=fields.FREE,
        description="Files of further judgements, such as your own; their positives are added to the dataset's.",
    )

    @model_validator(mode="after")
    def _complete(self) -> "Mine":
        if (self.permuted or self.planted is not None) and not self.runs:
            raise ValueError("runs: missing; permuted and planted need lists from runs")
        if self.positives_of_others and (self.runs or self.file):
            raise ValueError("positives_of_others: cannot be combined with `runs` or `file`; remove one of them")
        return self

    def problems(self, recipe: RecipeView) -> Iterator[str]:
        miner = recipe.plugin("miner")
        if isinstance(miner, RunJoiner):
            yield from (f"miner: {problem}" for problem in miner.problems(list(self.runs)))
        if types.SCORES in self.runs and fields.Trait.OF_POSITIVES in recipe.traits(self.runs[types.SCORES]):
            trait = fields.Trait.OF_POSITIVES
            yield f"runs.{types.SCORES}: {self.runs[types.SCORES]!r} {trait}; {fields.OF_QUERIES[trait]}"
        if self.file:
            if self.runs.keys() - {types.SCORES}:
                yield f"runs: with `file`, only a run labelled `{types.SCORES}` is allowed; remove the others"
            try:
                form_names.check_form(self.form, Path(self.file))
            except errors.UsageError as error:
                yield f"form: {error}"
        elif self.form != form_names.OWN:
            yield "form: needs `file`; set `file`, or remove form"
        lacking = recipe.collection is not None and not fields.has_answers(recipe.collection, self.split)
        if lacking and (self.without_answers or choosing.needs_answers(self.filters)):
            name = "without_answers" if self.without_answers else "filters"
            yield f"{name}: needs answers, but split {self.split} has none; remove it, or use another dataset"

    def traits(self, recipe: RecipeView) -> Mapping[str, str]:
        return {fields.Trait.MORE_POSITIVES: recipe.name} if self.also_qrels else {}

    def make(self, context: "StageContext[Mine]") -> "MinedBlocks":
        """Return the work in blocks of queries, whose candidates stream through the miner."""
        collection = work.open_collection(context.inputs["dataset"])
        query_ids = work.open_queries(context, collection, self.split).query_ids
        known = qrels.positives(collection.all_qrels())
        if self.also_qrels:
            known = extended(known, [Path(file).expanduser() for file in self.also_qrels], collection)
        texts, miner = filters.MiningTexts(collection, self.split), context.plugins["miner"]
        given = [plugin for path, plugin in context.plugins.items() if path.startswith("filters.")]
        filtering = filters.Filters.of(texts, given, self.answer_match if self.without_answers else None, known)
        file = None
        if self.file:
            file = choosing.ListsOfFile(Path(self.file).expanduser(), self.form, collection, self.split)
        return MinedBlocks(
            context,
            work.query_blocks(len(query_ids), _BLOCK),
            "mining",
            collection=collection,
            query_ids=query_ids,
            texts=texts,
            chooser=choosing.Choosing(collection.corpus, known, miner, filtering, self.seed, self.fill_to),
            file=file,
        )


@dataclass(frozen=True)
class MinedBlocks(work.StageBlocks):
    """The work of stage `mine` in blocks of queries, with its inputs and the selection of negatives."""

    collection: StoredCollection = field(kw_only=True)
    query_ids: Sequence[str] = field(kw_only=True)
    texts: filters.MiningTexts = field(kw_only=True)
    chooser: choosing.Choosing = field(kw_only=True)
    file: choosing.ListsOfFile | None = field(kw_only=True)

    def query_lists(self) -> Iterator[runs.QueryLists]:
        """Return each query with the lists to mine. Raises DataError if `planted` is set but nothing is withheld."""
        spec, known = self.context.spec, self.chooser.positives
        if spec.positives_of_others:
            return choosing.drawn_positives(self.query_ids, known, spec.positives_of_others, spec.seed)
        paths = {label: source.folder / layout.RUN for label, source in self.context.inputs_of("runs").items()}
        query_ids, file = self.query_ids, self.file
        listed = file.listed(query_ids, paths) if file else runs.lists_side_by_side(paths, query_ids)
        if spec.permuted:
            listed = choosing.permuted(listed, known, spec.seed)
        if spec.planted is not None:
            withheld = qrels.positives(self.collection.withheld())
            if withheld.keys().isdisjoint(self.query_ids):
                problem = "no positives of these queries are withheld; set `withheld: {halves: true}` in `dataset`"
                raise errors.DataError(f"{self.context.name}.planted: {problem}")
            listed = choosing.planted(listed, withheld, known, spec.planted, spec.seed)
        return listed

    def make(self, numbers: Sequence[int], task: progress.Task) -> Iterator[tuple[int, BlockResult]]:
        """Yield each block's number with its files (negatives, and candidates that the miner dropped) and counts."""
        for some in contiguous(numbers):
            listed = islice(self.query_lists(), some.start * _BLOCK, None)
            for number in some:
                facts, lists = Counter[str](), islice(listed, _BLOCK)
                with TemporaryDirectory() as folder:
                    names = [Path(folder) / layout.NEGATIVES, Path(folder) / layout.DROPPED]
                    mined = negatives.recorded(self.chooser.negatives(lists, facts), names[1])
                    negatives.write_negatives(names[0], mined)
                    files = {path.name: path.read_bytes() for path in names if path.exists()}
                task.advance(self.sizes[number])
                yield number, BlockResult(files, facts)

    def finish(self) -> Facts:
        """Write the negatives in query order. Raises DataError if no query has a positive or the miner skips all."""
        count, folder = len(self.sizes), self.context.folder
        texts = (self.store.texts(name, count) for name in (layout.NEGATIVES, layout.DROPPED))
        joined = negatives.join_negatives(*texts)
        negatives.write_negatives(folder / layout.NEGATIVES, negatives.recorded(joined, folder / layout.DROPPED))
        facts, total = self.store.facts(count), len(self.query_ids)
        if not facts["queries"]:
            why = "has negatives; the miner skipped all of them"
            if facts["queries without positives"] == total:
                why = "has a positive (a relevance judgement above 0 for a document of the corpus)"
            split = self.context.spec.split
            raise errors.DataError(f"{self.context.name}: none of the {total} queries of split {split} {why}")
        return {**facts, **self.texts.facts, **(self.file.counts if self.file else {})}


class Label(StageSpec):
    """Pseudo-labels those queries of a split for which a reranker's scores are clear enough.

    run: the run to select from. scores: a `rerank` stage's run of the same queries. above, below, count, depth: see
    `pseudo_labels`. size: number of labelled queries to sample with `seed`; a larger sample contains a smaller one.
    """

    version = 1
    artifact_type = "negatives"
    query_disk = (0, 4_000)
    purpose = "pseudo-label queries by a reranker's scores"
    needs_dataset = True
    stage: Literal["label"]
    run: Annotated[fields.Name, fields.Reference(("run",), passes=(fields.Trait.OWN_QUERIES,))]
    scores: Annotated[fields.Name, fields.Reference(("run",))]
    split: fields.Name = UNLABELLED
    above: float = ABOVE
    below: float = thresholds.Denoised.below
    count: int = Field(default=thresholds.Denoised.count, gt=0)
    depth: int = Field(default=layout.SCORED_DEPTH, gt=0)
    size: int | None = Field(default=None, gt=0)
    seed: int = seeding.SEED

    @model_validator(mode="after")
    def _complete(self) -> "Label":
        if self.below > self.above:
            raise ValueError(f"below: must be at most `above` ({self.above:g}), not {self.below:g}")
        return self

    def problems(self, recipe: RecipeView) -> Iterator[str]:
        if recipe.collection is not None and self.split not in (known := recipe.collection["splits"]):
            share = "withhold a share of the queries, as in `dataset: {name: ..., withheld: {unlabelled: 0.5}}`"
            advice = share if self.split == UNLABELLED else f"available: {', '.join(known)}"
            yield f"split: this dataset has no split {self.split!r}; {advice}"

    def identity(self) -> dict[str, Any]:
        identity = super().identity()
        return identity if self.size else {name: value for name, value in identity.items() if name != "seed"}

    def traits(self, recipe: RecipeView) -> Mapping[str, str]:
        return {**super().traits(recipe), fields.Trait.PSEUDO_POSITIVES: recipe.name}

    def make(self, context: "StageContext[Label]") -> Facts:
        """Label the queries without a known positive; facts: counts, and precision if positives are withheld."""
        facts, path = Counter[str](), context.folder / layout.NEGATIVES
        collection = work.open_collection(context.inputs["dataset"])
        known = qrels.positives(collection.all_qrels())
        query_ids = work.queries_of(context, collection, self.split).query_ids
        paths = {
            label: context.inputs[name].folder / layout.RUN
            for label, name in (("run", "run"), (types.SCORES, "scores"))
        }

        def unlabelled() -> Iterator[runs.QueryLists]:
            with context.progress.task("labelling", len(query_ids), "queries") as task:
                for query_id, hits in runs.lists_side_by_side(paths, query_ids):
                    task.advance()
                    if query_id in known:
                        facts["queries with a known positive"] += 1
                    else:
                        yield query_id, hits

        limits = (self.above, self.below, self.count, self.depth)
        negatives.write_negatives(path, pseudo_labels(unlabelled(), collection.corpus, facts, *limits))
        work.pass_on(context)
        rows = negatives.read_negatives(path)
        if self.size is not None:
            before, stay = len(rows), set(seeding.drawn_order(self.seed, "label", rows.query_ids)[: self.size])
            negatives.write_negatives(path, (item for item in rows if item.query_id in stay))
            rows = negatives.read_negatives(path)
            facts["queries above size"] = before - len(rows)
        facts["queries"], facts["negatives"] = len(rows), int(rows.counts.sum())
        if not len(rows):
            scores = f"above {self.above:g} and one below {self.below:g}"
            context.progress.note(f"{context.name}: no query has both a document scored {scores}")
        return {**facts, **_checked(rows, collection)}


def pseudo_labels(
    listed: Iterable[runs.QueryLists],
    corpus: Corpus,
    left_out: Counter[str],
    above: float = ABOVE,
    below: float = thresholds.Denoised.below,
    count: int = thresholds.Denoised.count,
    depth: int = layout.SCORED_DEPTH,
) -> Iterator[types.Negatives]:
    """Yield pseudo-labels: a query's best-scored document as its positive, and the first low-scored ones as negatives.

    Source: Qu et al., RocketQA (NAACL 2021), sections 3.3 and 4.1.3.

    Args:
        listed: for each query, the list to select from and the list labelled `scores`.
        corpus: the documents, used to keep copies of the positive out of the negatives.
        left_out: receives the counts of queries dropped for lack of a positive or a negative.
        above: the score that a positive must exceed.
        below: the score that a negative must stay below.
        count: the maximum number of negatives per query, taken in list order.
        depth: the number of documents at the top of each list to consider.
    """

    def with_positives() -> Iterator[types.Candidates]:
        for query_id, hits in listed:
            if (positive := sure_positive(hits, above, depth)) is None:
                left_out[NO_POSITIVE] += 1
            else:
                yield candidates(corpus, query_id, [positive], hits)

    for item in thresholds.Denoised(depth, count, below=below).mine(with_positives(), seed=0):
        if item.negatives:
            yield item
        else:
            left_out[NO_NEGATIVE] += 1


def sure_positive(hits: Mapping[str, types.RankedList], above: float, depth: int) -> str | None:
    """Return the best-scored of the top `depth` documents; ties go to the better rank. None if none exceeds `above`.

    Only documents of the first list are candidates. Runs store ties as adjacent floats, so close scores count as equal.
    """
    top, scored = next(iter(hits.values())).doc_ids[:depth], hits[types.SCORES]
    scores = thresholds.scores_of(top, scored)
    best = np.max(scores, where=~np.isnan(scores), initial=-np.inf)
    if not best > above:
        return None
    steps = len(scored.doc_ids) * np.spacing(np.abs(best))
    return top[int(np.argmax(scores >= best - steps))]


def _checked(rows: negatives.NegativesFile, collection: StoredCollection) -> dict[str, Any]:
    """Return the agreement of pseudo-labels with withheld labels; copies of a document count as that document."""
    withheld, corpus = qrels.positives(collection.withheld()), collection.corpus
    known = right = wrong = 0
    for item in rows if withheld else ():
        if (own := withheld.get(item.query_id)) is None:
            continue
        doc_ids = [*chain(own, item.positives, item.negatives)]
        contents = corpus.content_hash[corpus.rows(doc_ids)].tolist()
        agrees = [each in contents[: len(own)] for each in contents[len(own) :]]
        known += 1
        right += sum(agrees[: len(item.positives)])
        wrong += sum(agrees[len(item.positives) :])
    if not known:
        return {}
    return {
        "queries with withheld labels": known,
        "pseudo-positives that are withheld positives": right,
        "precision of pseudo-positives": round(right / known, 4),
        "pseudo-negatives that are withheld positives": wrong,
    }
