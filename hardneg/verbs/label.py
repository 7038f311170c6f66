"""Verb `label`: pseudo-labels by a reranker's scores, in the form of mined negatives."""

from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import chain
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field, model_validator

from hardneg.datasets.held_out import UNLABELLED
from hardneg.fields import Name, Reference, Trait
from hardneg.formats.collection import StoredCollection
from hardneg.formats.negatives import NegativesFile, read_negatives, write_negatives
from hardneg.formats.qrels import positives
from hardneg.formats.runs import QueryLists, lists_side_by_side
from hardneg.mining.miners.pseudo_labels import PseudoLabels
from hardneg.records.depths import SCORED_DEPTH
from hardneg.records.layout import NEGATIVES, RUN
from hardneg.records.types import SCORES
from hardneg.runtime.seeding import SEED, derive_seed
from hardneg.verbs.shared.context import Facts, StageContext
from hardneg.verbs.shared.inputs import open_collection, pass_on, queries_of
from hardneg.verbs.shared.stage_spec import RecipeView, StageSpec

_BLOCK = 4096


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
    above: float = PseudoLabels.above
    below: float = PseudoLabels.below
    count: int = Field(default=PseudoLabels.count, gt=0)
    depth: int = Field(default=SCORED_DEPTH, gt=0)
    size: int | None = Field(default=None, gt=0)
    seed: int = SEED

    @model_validator(mode="after")
    def _complete(self) -> "Label":
        if self.below > self.above:
            raise ValueError(f"below: {self.below:g} is more than above: {self.above:g}; nothing is sure then")
        return self

    def missing(self, collection: Mapping[str, Any]) -> Iterator[str]:
        """The split."""
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
        spec, facts = self, Counter[str]()
        collection = open_collection(context.inputs["dataset"])
        rule = PseudoLabels(spec.above, spec.below, spec.count, spec.depth)
        labelled = rule.of(_listed(context, collection, facts), collection.corpus, facts)
        path = context.folder / NEGATIVES
        write_negatives(path, labelled)
        pass_on(context)
        if spec.size is not None:
            rows = read_negatives(path)
            draws = np.array([derive_seed(spec.seed, "label", query_id) for query_id in rows.query_ids], np.uint64)
            stay = np.sort(np.argsort(draws, stable=True)[: spec.size])
            write_negatives(path, (rows[row] for row in stay.tolist()))
            facts["queries left out by size"] = len(rows) - len(stay)
        rows = read_negatives(path)
        facts["queries"], facts["negatives"] = len(rows), int(rows.counts.sum())
        if not len(rows):
            context.progress.note(
                f"{context.name}: no query has a document above {spec.above:g} and one below {spec.below:g}"
            )
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


def _checked(rows: NegativesFile, collection: StoredCollection) -> dict[str, Any]:
    """How many labels agree with the withheld ones, copies of a document counted as that document."""
    withheld, corpus = positives(collection.withheld()), collection.corpus
    known = [row for row, query_id in enumerate(rows.query_ids) if query_id in withheld]
    right = wrong = 0
    for start in range(0, len(known), _BLOCK):
        items = [rows[row] for row in known[start : start + _BLOCK]]
        truths = [withheld[item.query_id] for item in items]
        doc_ids = [
            each for item, own in zip(items, truths, strict=True) for each in chain(item.positives, item.negatives, own)
        ]
        contents = dict(zip(doc_ids, corpus.content_hash[corpus.rows(doc_ids)].tolist(), strict=True))
        for item, own in zip(items, truths, strict=True):
            wanted = {contents[doc_id] for doc_id in own}
            right += sum(contents[doc_id] in wanted for doc_id in item.positives)
            wrong += sum(contents[doc_id] in wanted for doc_id in item.negatives)
    if not known:
        return {}
    return {
        "queries with withheld labels": len(known),
        "pseudo-positives that are withheld positives": right,
        "precision of pseudo-positives": round(right / len(known), 4),
        "pseudo-negatives that are withheld positives": wrong,
    }
