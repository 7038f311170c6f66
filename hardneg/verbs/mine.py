"""Stage `mine`: negatives selected from runs, known positives and copies of them left out."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BeforeValidator, Field, model_validator

from hardneg.fields import (
    FREE,
    LATER,
    OF_QUERIES,
    SPLIT,
    AnswerMatch,
    FilterSettings,
    InputFile,
    MinerSetting,
    Name,
    Reference,
    Trait,
    has_answers,
    parse_names,
)
from hardneg.records.errors import DataError, UsageError
from hardneg.records.layout import DROPPED, NEGATIVES, RUN
from hardneg.records.types import Negatives
from hardneg.registry.protocols import NegativeMiner, RunJoiner
from hardneg.runtime.progress import Task
from hardneg.runtime.seeding import SEED
from hardneg.verbs.shared.blocks import StageBlocks, query_blocks
from hardneg.verbs.shared.context import Facts, StageContext
from hardneg.verbs.shared.stage_spec import RecipeView, Row, Sizes, StageSpec

if TYPE_CHECKING:
    from hardneg.formats.runs import QueryLists
    from hardneg.mining.choosing import Choosing
    from hardneg.mining.filters import MiningTexts
    from hardneg.mining.lists_of_file import ListsOfFile
    from hardneg.store.blocks import BlockResult

_BLOCK = 1024  # queries


class Mine(StageSpec):
    """Selects negatives for the queries of one split; the first of `runs` is the list to select from.

    file: negatives that another program mined are that list, in the form that `form` names, as `hardneg export` has it.
    without_answers: the filter `answers`, in front of all others. pseudo_positives: the first of so many documents of
    that list that has an answer is the positive of a query for which none is known. answer_match: how answers are
    looked for: as words, or as regular expressions. fill_to: a query with fewer negatives gets random documents of the
    corpus until it has so many; those that a filter drops then go. What `also_qrels` call relevant is positive too,
    here and where the negatives are trained on. permuted: each query has the lists of another one. positives_of_others:
    in place of a run, each query has so many positives of other queries, drawn at random. planted: of this share of the
    queries for which the dataset withholds positives, the lists are these alone; those of others lack them.
    """

    version = 2
    artifact_type = "negatives"
    every_process = True
    purpose = "take passages that rank high and are not labelled: the hard negatives"
    needs_dataset = True
    stage: Literal["mine"]
    miner: MinerSetting = Field(description="A miner; `hardneg plugins list` shows them.")
    filters: FilterSettings = Field(
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
    pseudo_positives: int | None = Field(default=None, gt=0, json_schema_extra=LATER)
    answer_match: AnswerMatch = Field(default="string", json_schema_extra=LATER)
    fill_to: int | None = Field(default=None, gt=0, json_schema_extra=LATER)
    permuted: bool = Field(default=False, json_schema_extra=LATER)
    positives_of_others: int | None = Field(default=None, gt=0, json_schema_extra=LATER)
    planted: float | None = Field(default=None, ge=0, le=1, json_schema_extra=LATER)
    also_qrels: Annotated[
        tuple[Name, ...], BeforeValidator(parse_names), InputFile("judgements, as TREC or BEIR have them")
    ] = Field(
        default=(),
        json_schema_extra=FREE,
        description="Judgements whose positives count beside the dataset's, such as a reader's marks.",
    )

    @model_validator(mode="after")
    def _complete(self) -> "Mine":
        if self.pseudo_positives and not self.runs:
            raise ValueError("pseudo_positives: they come from the first of `runs`, and there is none")
        if (self.permuted or self.planted is not None) and not self.runs:
            raise ValueError("permuted and planted change the lists of `runs`, and there are none")
        if self.positives_of_others and (self.runs or self.file):
            raise ValueError("positives_of_others: they are drawn in place of `runs` and `file`; leave one of them out")
        return self

    def problems(self, recipe: RecipeView) -> Iterator[str]:
        """What a miner that joins several runs has against them; a file of another form, or beside a run."""
        from hardneg.formats.export.catalogue import OWN, check_form
        from hardneg.records.types import SCORES

        miner = recipe.plugin("miner")
        if isinstance(miner, RunJoiner):
            yield from (f"miner: {problem}" for problem in miner.problems(list(self.runs)))
        if SCORES in self.runs and Trait.OF_POSITIVES in recipe.traits(self.runs[SCORES]):
            yield f"runs.{SCORES}: {self.runs[SCORES]!r} {Trait.OF_POSITIVES}; {OF_QUERIES[Trait.OF_POSITIVES]}"
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
        """Answers, where negatives or positives are told by them."""
        from hardneg.mining.choosing import needs_answers

        needing = [name for name in ("without_answers", "pseudo_positives") if getattr(self, name)]
        needing += ["filters"] if needs_answers(self.filters) else []
        if needing and not has_answers(collection, self.split):
            yield f"{needing[0]}: needs answers, and split {self.split} has none: leave it out, or take another dataset"

    def traits(self, recipe: RecipeView) -> Mapping[str, str]:
        """Positives that answers tell, or more judgements."""
        marks: dict[str, object] = {
            Trait.PSEUDO_POSITIVES: self.pseudo_positives,
            Trait.MORE_POSITIVES: self.also_qrels,
        }
        return {trait: recipe.name for trait, value in marks.items() if value}

    def estimate(self, sizes: Sizes) -> Row:
        """By the query."""
        count = sizes.queries(self.split)
        return Row(count, "queries", count * 200 * 20)

    def blocks(self, context: "StageContext[Mine]", first: bool = True) -> "MinedBlocks":
        """Blocks of queries, whose candidates stream through the miner."""
        mining = _Mining.of(context)
        return MinedBlocks(context, query_blocks(len(mining.query_ids), _BLOCK), "mining", mining=mining)


@dataclass(frozen=True)
class _Mining:
    """A mining at work: what it reads, and how it chooses."""

    context: StageContext[Mine]
    query_ids: Sequence[str]
    known: dict[str, list[str]]
    texts: "MiningTexts"
    choosing: "Choosing"
    file: "ListsOfFile | None" = None

    @classmethod
    def of(cls, context: StageContext[Mine]) -> "_Mining":
        from hardneg.formats.collection import extended
        from hardneg.formats.qrels import positives
        from hardneg.mining.choosing import Choosing, Filters
        from hardneg.mining.filters import MiningTexts
        from hardneg.mining.lists_of_file import ListsOfFile
        from hardneg.verbs.shared.inputs import open_collection, open_queries

        spec, collection = context.spec, open_collection(context.inputs["dataset"])
        query_ids = open_queries(context, collection, spec.split).query_ids
        known = positives(collection.all_qrels())
        if spec.also_qrels:
            known = extended(known, [Path(file).expanduser() for file in spec.also_qrels], collection)
        texts, miner = MiningTexts(collection, spec.split), context.plugin("miner", NegativeMiner)
        filters = Filters.of(texts, context.filters(), spec.answer_match if spec.without_answers else None, known)
        choosing = Choosing(collection.corpus, known, miner, filters, spec.seed, spec.fill_to)
        path = Path(spec.file).expanduser() if spec.file else None
        file = ListsOfFile(path, spec.form, collection, spec.split) if path else None
        return cls(context, query_ids, known, texts, choosing, file)

    def listed(self) -> "Iterator[QueryLists]":
        """All queries with their lists."""
        from hardneg.formats.runs import lists_side_by_side
        from hardneg.mining.listing import drawn_positives, permuted, planted

        spec = self.context.spec
        if spec.positives_of_others:
            return drawn_positives(self.query_ids, self.known, spec.positives_of_others, spec.seed)
        runs = {label: source.folder / RUN for label, source in self.context.inputs_of("runs").items()}
        listed = self.file.listed(self.query_ids, runs) if self.file else lists_side_by_side(runs, self.query_ids)
        if spec.permuted:
            listed = permuted(listed, self.known, spec.seed)
        if spec.planted is not None:
            listed = planted(listed, self._withheld(), self.known, spec.planted, spec.seed)
        return listed

    def _withheld(self) -> dict[str, list[str]]:
        """The positives that the dataset withholds, by query. Raises DataError where these queries have none."""
        from hardneg.formats.qrels import positives
        from hardneg.verbs.shared.inputs import open_collection

        withheld = positives(open_collection(self.context.inputs["dataset"]).withheld())
        if withheld.keys().isdisjoint(self.query_ids):
            message = "planted: the dataset withholds no positives of these queries; give it `withheld: {halves: true}`"
            raise DataError(f"{self.context.name}: {message}")
        return withheld

    def mined(self, listed: "Iterator[QueryLists]", facts: Counter[str]) -> Iterator[Negatives]:
        """The negatives of some queries; facts count them, and what was left out."""
        from hardneg.mining.listing import add_pseudo_labels

        if depth := self.context.spec.pseudo_positives:
            answers = self.texts.answers(self.context.spec.answer_match)
            listed = add_pseudo_labels(listed, self.known, answers, depth, facts)
        return self.choosing.negatives(listed, facts)

    def summary(self, facts: Counter[str]) -> Facts:
        """What was counted, of all queries. Raises DataError where none was mined."""
        total, spec = len(self.query_ids), self.context.spec
        if not facts["queries"]:
            why = "was mined; the miner left them all out"
            if facts["queries without positives"] == total:
                why = "has a positive, a judgement above zero of a document in the corpus"
            raise DataError(f"{self.context.name}: none of the {total} queries of split {spec.split} {why}")
        return {**facts, **self.texts.facts, **(self.file.counts if self.file else {})}


@dataclass(frozen=True)
class MinedBlocks(StageBlocks):
    """The negatives in blocks of queries, and beside them what a miner tells that it has dropped."""

    mining: _Mining = field(kw_only=True)

    def make(self, numbers: Sequence[int], task: Task) -> "Iterator[tuple[int, BlockResult]]":
        """The negatives of each block as files, and what its mining has counted."""
        from hardneg.formats.negatives import recorded, write_negatives
        from hardneg.store.blocks import BlockResult, contiguous

        for some in contiguous(numbers):
            listed = islice(self.mining.listed(), some.start * _BLOCK, None)
            for number in some:
                facts = Counter[str]()
                with TemporaryDirectory() as folder:
                    names = [Path(folder) / NEGATIVES, Path(folder) / DROPPED]
                    mined = self.mining.mined(_telling(islice(listed, _BLOCK), task), facts)
                    write_negatives(names[0], recorded(mined, names[1]))
                    files = {path.name: path.read_bytes() for path in names if path.exists()}
                yield number, BlockResult(files, facts)

    def finish(self) -> Facts:
        """Writes the negatives in the order of the queries. Raises DataError where there are none."""
        from hardneg.formats.negatives import join_negatives, recorded, write_negatives

        count, folder = len(self.sizes), self.context.folder
        joined = join_negatives(self.store.texts(NEGATIVES, count), self.store.texts(DROPPED, count))
        write_negatives(folder / NEGATIVES, recorded(joined, folder / DROPPED))
        return self.mining.summary(self.store.facts(count))


def _telling(listed: "Iterator[QueryLists]", task: Task) -> "Iterator[QueryLists]":
    for item in listed:
        yield item
        task.advance()
