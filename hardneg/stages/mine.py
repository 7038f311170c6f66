"""Stage `mine`: negatives selected from runs, known positives and copies of them left out."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from hardneg.data.answer_matching import PassageAnswers, first_with_answer, without_answers, without_drawn_answers
from hardneg.data.collection import StoredCollection
from hardneg.data.corpus import candidates
from hardneg.data.negatives import recorded, write_negatives
from hardneg.data.qrels import positives
from hardneg.data.runs import QueryLists, lists_side_by_side
from hardneg.errors import DataError
from hardneg.fields import LATER, AnswerMatch, MinerSetting, Name, Reference, Trait, has_answers
from hardneg.layout import DROPPED, NEGATIVES, RUN
from hardneg.protocols import NegativeMiner
from hardneg.stages.context import Facts, StageContext
from hardneg.stages.inputs import open_collection, open_queries
from hardneg.stages.spec import RecipeView, Row, Sizes, StageSpec
from hardneg.types import Candidates, Negatives

_QUERIES = 256


class Mine(StageSpec):
    """Selects negatives for the queries of one split; the first of `runs` is the list to select from.

    without_answers: documents that have an answer to the query are no negatives of it. pseudo_positives: the first of
    so many documents of that list that has an answer is the positive of a query for which none is known. answer_match:
    how answers are looked for: as words, or as regular expressions.
    """

    version = 1
    kind = "negatives"
    purpose = "take passages that rank high and are not labelled: the hard negatives"
    needs_dataset = True
    stage: Literal["mine"]
    miner: MinerSetting
    runs: Annotated[dict[str, Name], Reference(("run",))] = Field(default_factory=dict)
    split: Name = "train"
    seed: int = 42
    without_answers: bool = Field(default=False, json_schema_extra=LATER)
    pseudo_positives: int | None = Field(default=None, gt=0, json_schema_extra=LATER)
    answer_match: AnswerMatch = Field(default="string", json_schema_extra=LATER)

    @model_validator(mode="after")
    def _complete(self) -> "Mine":
        if self.pseudo_positives and not self.runs:
            raise ValueError("pseudo_positives: they come from the first of `runs`, and there is none")
        return self

    def missing(self, collection: Mapping[str, Any]) -> Iterator[str]:
        """Answers, where negatives or positives are told by them."""
        asked = [name for name in ("without_answers", "pseudo_positives") if getattr(self, name)]
        if asked and not has_answers(collection, self.split):
            yield f"{asked[0]}: needs answers, and split {self.split} has none: leave it out, or take another dataset"

    def traits(self, recipe: RecipeView) -> Mapping[str, str]:
        """Positives that answers tell."""
        return {Trait.PSEUDO_POSITIVES: recipe.name} if self.pseudo_positives else {}

    def estimate(self, sizes: Sizes) -> Row:
        """By the query."""
        count = sizes.queries(self.split)
        return Row(count, "queries", count * 200 * 20, seconds=count / 5_000 + 1)

    def make(self, context: "StageContext[Mine]") -> Facts:
        """Streams candidates through the miner; facts: queries, negatives, and what was dropped for which reason.

        Beside the negatives stands what was dropped, candidate by candidate, from a miner that tells it.
        """
        collection = open_collection(context.inputs["dataset"])
        runs = {label: source.folder / RUN for label, source in context.inputs_of("runs").items()}
        facts, dropped = Counter[str](), Counter[str]()
        known = positives(collection.all_qrels())
        query_ids = open_queries(context, collection, self.split).query_ids
        answers = _answers(context, collection)
        listed = _listed(context, query_ids, runs)
        if self.pseudo_positives:
            listed = _labelled(listed, known, answers, self.pseudo_positives, facts)
        offered = _candidates(listed, known, collection, facts)
        if self.without_answers:
            offered = without_answers(offered, answers, dropped)
        mined = context.plugin("miner", NegativeMiner).mine(offered, seed=self.seed)
        if self.without_answers:
            mined = without_drawn_answers(mined, answers)
            facts["queries without answers"] = len(query_ids) - len(answers.query_ids)
        write_negatives(context.folder / NEGATIVES, _counted(recorded(mined, context.folder / DROPPED), facts))
        if not facts["queries"]:
            why = "was mined; the miner left them all out"
            if facts["queries without positives"] == len(query_ids):
                why = "has a positive, a judgement above zero of a document in the corpus"
            raise DataError(f"{context.name}: none of the {len(query_ids)} queries of split {self.split} {why}")
        for reason, count in dropped.items():
            facts[f"dropped as {reason}"] += count
        return {**facts, **answers.left_out}


def _answers(context: StageContext[Mine], collection: StoredCollection) -> PassageAnswers:
    if context.spec.without_answers or context.spec.pseudo_positives:
        return PassageAnswers.of(collection, context.spec.split, context.spec.answer_match)
    return PassageAnswers(collection.corpus, {})


def _counted(mined: Iterator[Negatives], facts: Counter[str]) -> Iterator[Negatives]:
    for item in mined:
        facts["queries"] += 1
        facts["negatives"] += len(item.negatives)
        facts["queries without negatives"] += not item.negatives
        for reason, count in item.dropped.items():
            facts[f"dropped as {reason}"] += count
        for note in item.noted:
            facts[f"queries with {note}"] += 1
        yield item


def _listed(context: StageContext[Mine], query_ids: Sequence[str], runs: Mapping[str, Path]) -> Iterator[QueryLists]:
    with context.progress.task("mining", len(query_ids), "queries") as task:
        for item in lists_side_by_side(runs, query_ids):
            yield item
            task.advance()


def _labelled(
    listed: Iterator[QueryLists], known: dict[str, list[str]], answers: PassageAnswers, depth: int, facts: Counter[str]
) -> Iterator[QueryLists]:
    """Gives a query without positives the first of the first run's top that has an answer, before it goes by."""
    while block := list(islice(listed, _QUERIES)):
        unknown = {query_id: next(iter(hits.values())) for query_id, hits in block if query_id not in known}
        tops = [ranked.doc_ids[:depth] for ranked in unknown.values()]
        for query_id, doc_id in first_with_answer(list(unknown), tops, answers).items():
            known[query_id] = [doc_id]
            facts["pseudo-positives"] += 1
        yield from block


def _candidates(
    listed: Iterator[QueryLists], known: Mapping[str, Sequence[str]], collection: StoredCollection, facts: Counter[str]
) -> Iterator[Candidates]:
    for query_id, hits in listed:
        if query_id in known:
            yield candidates(collection.corpus, query_id, known[query_id], hits)
        else:
            facts["queries without positives"] += 1
