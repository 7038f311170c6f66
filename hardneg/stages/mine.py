"""Stage `mine`: negatives selected from runs, known positives and copies of them left out."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, model_validator

from hardneg import fields
from hardneg.fields import FREE, LATER, SPLIT, InputFile, Name, Reference, Trait, has_answers
from hardneg.formats.collection import StoredCollection, extended
from hardneg.formats.form_names import OWN, check_form
from hardneg.formats.negatives import join_negatives, recorded, write_negatives
from hardneg.formats.qrels import positives
from hardneg.formats.runs import QueryLists, lists_side_by_side
from hardneg.mining import listing
from hardneg.mining.choosing import Choosing, Filters, needs_answers
from hardneg.mining.filters import MiningTexts
from hardneg.mining.listing import ListsOfFile
from hardneg.protocols import NegativeMiner, RunJoiner
from hardneg.records import DROPPED, NEGATIVES, RUN, SCORES, DataError, UsageError
from hardneg.runtime import SEED, Task
from hardneg.stages.shared import inputs
from hardneg.stages.shared.blocks import StageBlocks, query_blocks
from hardneg.stages.shared.context import Facts, StageContext
from hardneg.stages.shared.stage_spec import RecipeView, Row, Sizes, StageSpec
from hardneg.store.blocks import BlockResult, contiguous

_BLOCK = 1024  # queries


class Mine(StageSpec):
    """Selects negatives for the queries of one split; the first of `runs` is the list to select from.

    file: negatives that another program mined are that list, in the form that `form` names, as `hardneg export` has it.
    without_answers: the filter `answers`, in front of all others. answer_match: how answers are looked for:
    as words, or as regular expressions. fill_to: a query with fewer negatives gets random documents of the corpus until
    it has so many; those that a filter drops then go. What `also_qrels` call relevant is positive too, here and where
    the negatives are trained on. permuted: each query has the lists of another one. positives_of_others: in place of a
    run, each query has so many positives of other queries, drawn at random. planted: of this share of the queries for
    which the dataset withholds positives, the lists are these alone; those of others lack them.
    """

    version = 2
    artifact_type = "negatives"
    every_process = True
    purpose = "take passages that rank high and are not labelled: the hard negatives"
    needs_dataset = True
    stage: Literal["mine"]
    miner: fields.MinerSetting = Field(description="A miner; `hardneg plugins list` shows them.")
    filters: fields.FilterSettings = Field(
        (),
        description="Leave candidates out before the miner selects, one after another; a name, or {name: NAME, ...}.",
    )
    runs: Annotated[dict[str, Name], Reference(("run",))] = Field(default_factory=dict)
    file: Annotated[Name | None, InputFile("negatives that another program mined")] = Field(
        default=None, json_schema_extra=FREE
    )
    form: Name = Field(default="hardneg", json_schema_extra=LATER)
    split: Name = Field("train", description=SPLIT)
    seed: int = Field(SEED, description="For miners that draw.")
    without_answers: bool = Field(default=False, json_schema_extra=LATER)
    answer_match: fields.AnswerMatch = Field(default="string", json_schema_extra=LATER)
    fill_to: int | None = Field(default=None, gt=0, json_schema_extra=LATER)
    permuted: bool = Field(default=False, json_schema_extra=LATER)
    positives_of_others: int | None = Field(default=None, gt=0, json_schema_extra=LATER)
    planted: float | None = Field(default=None, ge=0, le=1, json_schema_extra=LATER)
    also_qrels: Annotated[
        tuple[Name, ...], BeforeValidator(fields.parse_names), InputFile("judgements, as TREC or BEIR have them")
    ] = Field(
        default=(),
        json_schema_extra=FREE,
        description="Judgements whose positives count beside the dataset's, such as a reader's marks.",
    )

    @model_validator(mode="after")
    def _complete(self) -> "Mine":
        if (self.permuted or self.planted is not None) and not self.runs:
            raise ValueError("permuted and planted change the lists of `runs`, and there are none")
        if self.positives_of_others and (self.runs or self.file):
            raise ValueError("positives_of_others: they are drawn in place of `runs` and `file`; leave one of them out")
        return self

    def problems(self, recipe: RecipeView) -> Iterator[str]:
        """What a miner that joins several runs has against them; a file of another form, or beside a run."""
        miner = recipe.plugin("miner")
        if isinstance(miner, RunJoiner):
            yield from (f"miner: {problem}" for problem in miner.problems(list(self.runs)))
        if SCORES in self.runs and Trait.OF_POSITIVES in recipe.traits(self.runs[SCORES]):
            yield f"runs.{SCORES}: {self.runs[SCORES]!r} {Trait.OF_POSITIVES}; {fields.OF_QUERIES[Trait.OF_POSITIVES]}"
        if self.file:
            if self.runs.keys() - {SCORES}:
                yield f"runs: beside `file`, which is selected from, only one labelled {SCORES}, which filters judge by"
            try:
                check_form(self.form, Path(self.file))
            except UsageError as error:
                yield f"form: {error}"
        elif self.form != OWN:
            yield "form: it is that of `file`, and there is none"

    def missing(self, collection: Mapping[str, Any]) -> Iterator[str]:
        """Answers, where negatives are told by them."""
        needing = "without_answers" if self.without_answers else "filters" if needs_answers(self.filters) else ""
        if needing and not has_answers(collection, self.split):
            yield f"{needing}: needs answers, and split {self.split} has none: leave it out, or take another dataset"

    def traits(self, recipe: RecipeView) -> Mapping[str, str]:
        return {Trait.MORE_POSITIVES: recipe.name} if self.also_qrels else {}

    def estimate(self, sizes: Sizes) -> Row:
        count = sizes.queries(self.split)
        return Row(count, "queries", count * 200 * 20)

    def blocks(self, context: "StageContext[Mine]", first: bool = True) -> "MinedBlocks":
        """Blocks of queries, whose candidates stream through the miner."""
        collection = inputs.open_collection(context.inputs["dataset"])
        query_ids = inputs.open_queries(context, collection, self.split).query_ids
        known = positives(collection.all_qrels())
        if self.also_qrels:
            known = extended(known, [Path(file).expanduser() for file in self.also_qrels], collection)
        texts, miner = MiningTexts(collection, self.split), context.plugin("miner", NegativeMiner)
        filters = Filters.of(texts, context.filters(), self.answer_match if self.without_answers else None, known)
        return MinedBlocks(
            context,
            query_blocks(len(query_ids), _BLOCK),
            "mining",
            collection=collection,
            query_ids=query_ids,
            texts=texts,
            choosing=Choosing(collection.corpus, known, miner, filters, self.seed, self.fill_to),
            file=ListsOfFile(Path(self.file).expanduser(), self.form, collection, self.split) if self.file else None,
        )


@dataclass(frozen=True)
class MinedBlocks(StageBlocks):
    """A mining at work, in blocks of queries: what it reads, and how it chooses."""

    collection: StoredCollection = field(kw_only=True)
    query_ids: Sequence[str] = field(kw_only=True)
    texts: MiningTexts = field(kw_only=True)
    choosing: Choosing = field(kw_only=True)
    file: ListsOfFile | None = field(kw_only=True)

    def listed(self) -> Iterator[QueryLists]:
        """All queries with their lists. Raises DataError where `planted` finds no positives that are withheld."""
        spec, known = self.context.spec, self.choosing.positives
        if spec.positives_of_others:
            return listing.drawn_positives(self.query_ids, known, spec.positives_of_others, spec.seed)
        runs = {label: source.folder / RUN for label, source in self.context.inputs_of("runs").items()}
        listed = self.file.listed(self.query_ids, runs) if self.file else lists_side_by_side(runs, self.query_ids)
        if spec.permuted:
            listed = listing.permuted(listed, known, spec.seed)
        if spec.planted is not None:
            withheld = positives(self.collection.withheld())
            if withheld.keys().isdisjoint(self.query_ids):
                problem = "the dataset withholds no positives of these queries; give it `withheld: {halves: true}`"
                raise DataError(f"{self.context.name}: planted: {problem}")
            listed = listing.planted(listed, withheld, known, spec.planted, spec.seed)
        return listed

    def make(self, numbers: Sequence[int], task: Task) -> Iterator[tuple[int, BlockResult]]:
        """The negatives of each block as files, beside them what a miner tells that it has dropped; counts."""
        for some in contiguous(numbers):
            listed = islice(self.listed(), some.start * _BLOCK, None)
            for number in some:
                facts, lists = Counter[str](), islice(listed, _BLOCK)
                with TemporaryDirectory() as folder:
                    names = [Path(folder) / NEGATIVES, Path(folder) / DROPPED]
                    write_negatives(names[0], recorded(self.choosing.negatives(lists, facts), names[1]))
                    files = {path.name: path.read_bytes() for path in names if path.exists()}
                task.advance(self.sizes[number])
                yield number, BlockResult(files, facts)

    def finish(self) -> Facts:
        """Writes the negatives in the order of the queries. Raises DataError where there are none."""
        count, folder = len(self.sizes), self.context.folder
        joined = join_negatives(self.store.texts(NEGATIVES, count), self.store.texts(DROPPED, count))
        write_negatives(folder / NEGATIVES, recorded(joined, folder / DROPPED))
        facts, total = self.store.facts(count), len(self.query_ids)
        if not facts["queries"]:
            why = "was mined; the miner left them all out"
            if facts["queries without positives"] == total:
                why = "has a positive, a judgement above zero of a document in the corpus"
            split = self.context.spec.split
            raise DataError(f"{self.context.name}: none of the {total} queries of split {split} {why}")
        return {**facts, **self.texts.facts, **(self.file.counts if self.file else {})}
