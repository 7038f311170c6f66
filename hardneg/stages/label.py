"""Verb `label`: pseudo-labels by a reranker's scores, in the form of mined negatives."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field, model_validator

from hardneg.datasets.held_out import UNLABELLED
from hardneg.fields import Name, Reference, Trait
from hardneg.formats.collection import StoredCollection
from hardneg.formats.corpus import Corpus, candidates
from hardneg.formats.negatives import NegativesFile, read_negatives, write_negatives
from hardneg.formats.qrels import positives
from hardneg.formats.runs import QueryLists, lists_side_by_side
from hardneg.mining.miners.selection import scores_of
from hardneg.mining.miners.thresholds import Denoised
from hardneg.records import NEGATIVES, RUN, SCORED_DEPTH, SCORES, Candidates, Negatives, RankedList
from hardneg.runtime import SEED, drawn_order
from hardneg.stages.shared.context import Facts, StageContext
from hardneg.stages.shared.inputs import open_collection, pass_on, queries_of
from hardneg.stages.shared.stage_spec import RecipeView, StageSpec

NO_POSITIVE, NO_NEGATIVE = "queries without a pseudo-positive", "queries without a pseudo-negative"
ABOVE = 0.9


class Label(StageSpec):
    """Labels the queries of a split by a reranker's scores; queries without a sure positive and negative are left out.

    run: the list to select from. scores: a rerank stage's run of the same queries. above, below, count, depth: those of
    `pseudo_labels`. size: keep so many of the labelled queries, drawn by `seed`; a larger size has those
    of a smaller one.
    """

    version = 1
    artifact_type = "negatives"
    query_disk = (0, 4_000)
    purpose = "make labels out of a reranker's scores"
    needs_dataset = True
    stage: Literal["label"]
    run: Annotated[Name, Reference(("run",), passes=(Trait.OWN_QUERIES,))]
    scores: Annotated[Name, Reference(("run",))]
    split: Name = UNLABELLED
    above: float = ABOVE
    below: float = Denoised.below
    count: int = Field(default=Denoised.count, gt=0)
    depth: int = Field(default=SCORED_DEPTH, gt=0)
    size: int | None = Field(default=None, gt=0)
    seed: int = SEED

    @model_validator(mode="after")
    def _complete(self) -> "Label":
        if self.below > self.above:
            raise ValueError(f"below: {self.below:g} is more than above: {self.above:g}; nothing is sure then")
        return self

    def missing(self, collection: Mapping[str, Any]) -> Iterator[str]:
        if self.split not in collection["splits"]:
            share = "set the share of the training queries it gets: `dataset: {name: ..., withheld: {unlabelled: 0.5}}`"
            advice = share if self.split == UNLABELLED else f"it has {', '.join(collection['splits'])}"
            yield f"split: no split {self.split!r} in this dataset; {advice}"

    def identity(self) -> dict[str, Any]:
        """The seed counts where something is drawn."""
        identity = super().identity()
        return identity if self.size else {name: value for name, value in identity.items() if name != "seed"}

    def traits(self, recipe: RecipeView) -> Mapping[str, str]:
        return {**super().traits(recipe), Trait.PSEUDO_POSITIVES: recipe.name}

    def make(self, context: "StageContext[Label]") -> Facts:
        """Labels the split's queries; facts: how many, those left out by reason, and how right they are where known.

        Queries for which a positive is known are left out: they need no label.
        """
        facts, path = Counter[str](), context.folder / NEGATIVES
        collection = open_collection(context.inputs["dataset"])
        listed, limits = _listed(context, collection, facts), (self.above, self.below, self.count, self.depth)
        write_negatives(path, pseudo_labels(listed, collection.corpus, facts, *limits))
        pass_on(context)
        if self.size is not None:
            rows = read_negatives(path)
            stay = set(drawn_order(self.seed, "label", rows.query_ids)[: self.size])
            write_negatives(path, (item for item in rows if item.query_id in stay))
            facts["queries left out by size"] = len(rows) - len(stay)
        rows = read_negatives(path)
        facts["queries"], facts["negatives"] = len(rows), int(rows.counts.sum())
        if not len(rows):
            scores = f"above {self.above:g} and one below {self.below:g}"
            context.progress.note(f"{context.name}: no query has a document {scores}")
        return {**facts, **_checked(rows, collection)}


def _listed(context: StageContext[Label], collection: StoredCollection, facts: Counter[str]) -> Iterator[QueryLists]:
    """The lists of the queries without known positives."""
    known = positives(collection.all_qrels())
    query_ids = queries_of(context, collection, context.spec.split).query_ids
    runs = {label: context.inputs[field].folder / RUN for label, field in (("run", "run"), (SCORES, "scores"))}
    with context.progress.task("labelling", len(query_ids), "queries") as task:
        for query_id, hits in lists_side_by_side(runs, query_ids):
            task.advance()
            if query_id in known:
                facts["queries that have a positive"] += 1
            else:
                yield query_id, hits


def pseudo_labels(
    listed: Iterable[QueryLists],
    corpus: Corpus,
    left_out: Counter[str],
    above: float = ABOVE,
    below: float = Denoised.below,
    count: int = Denoised.count,
    depth: int = SCORED_DEPTH,
) -> Iterator[Negatives]:
    """Labels by thresholds: the one best document is the positive, the first ones with low scores are negatives.

    Source: Qu et al., RocketQA (NAACL 2021), sections 3.3 and 4.1.3.

    Args:
        listed: each query's list to select from, and the one labelled `scores`.
        corpus: their documents; copies of the positive are no negatives.
        left_out: counts the queries without a positive or a negative.
        above: the positive scores strictly more.
        below: negatives score strictly less.
        count: how many negatives to keep, in the order of the list.
        depth: how many documents of the list to look at.
    """

    def with_positives() -> Iterator[Candidates]:
        for query_id, hits in listed:
            if (positive := sure_positive(hits, above, depth)) is None:
                left_out[NO_POSITIVE] += 1
            else:
                yield candidates(corpus, query_id, [positive], hits)

    for item in Denoised(depth, count, below=below).mine(with_positives(), seed=0):
        if item.negatives:
            yield item
        else:
            left_out[NO_NEGATIVE] += 1


def sure_positive(hits: Mapping[str, RankedList], above: float = ABOVE, depth: int = SCORED_DEPTH) -> str | None:
    """Return the document with the highest score, if that is high enough; the best ranked of those that share it.

    A run has no equal scores: each is written as the next smaller number. So close ones count as equal.
    """
    top, scored = next(iter(hits.values())).doc_ids[:depth], hits[SCORES]
    scores = scores_of(top, scored)
    best = np.max(scores, where=~np.isnan(scores), initial=-np.inf)
    if not best > above:
        return None
    steps = len(scored.doc_ids) * np.spacing(np.abs(best))
    return top[int(np.argmax(scores >= best - steps))]


def _checked(rows: NegativesFile, collection: StoredCollection) -> dict[str, Any]:
    """How many labels agree with the withheld ones, copies of a document counted as that document."""
    withheld, corpus = positives(collection.withheld()), collection.corpus
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
