"""Verb `label`: pseudo-labels by a reranker's scores, in the form of mined negatives."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from hardneg.datasets.held_out import UNLABELLED
from hardneg.fields import Name, Reference, Trait
from hardneg.formats.collection import StoredCollection
from hardneg.formats.corpus import Corpus
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
from hardneg.verbs.shared.stage_spec import RecipeView, Row, Sizes, StageSpec

_BLOCK = 4096


class Label(StageSpec):
    """Labels the queries of a split by a reranker's scores; queries without a sure positive and negative are left out.

    run: the list to select from. scores: a rerank stage's run of the same queries. above, below, count, depth: those of
    `pseudo_labels`. size: keep so many of the labelled queries, drawn by `seed`; a larger size has those
    of a smaller one.
    """

    version = 1
    artifact_type = "negatives"
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
        """The positives are those of the reranker."""
        return {**super().traits(recipe), Trait.PSEUDO_POSITIVES: recipe.name}

    def estimate(self, sizes: Sizes) -> Row:
        """One pass over the lists."""
        count = sizes.queries(self.split)
        return Row(count, "queries", count * 200 * 20)

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
            facts["queries left out by size"] = _shrink(path, spec.size, spec.seed)
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


def _shrink(path: Path, size: int, seed: int) -> int:
    """Keeps `size` of the queries in the file, in their order; returns how many went."""
    rows = read_negatives(path)
    draws = np.array([derive_seed(seed, "label", query_id) for query_id in rows.query_ids], np.uint64)
    kept = np.sort(np.argsort(draws, stable=True)[:size])
    write_negatives(path, (rows[row] for row in kept.tolist()))
    return len(rows) - len(kept)


def _checked(rows: NegativesFile, collection: StoredCollection) -> dict[str, Any]:
    """How many labels agree with the withheld ones, copies of a document counted as that document."""
    withheld = positives(collection.withheld())
    known = [row for row, query_id in enumerate(rows.query_ids) if query_id in withheld]
    right = wrong = 0
    for start in range(0, len(known), _BLOCK):
        items = [rows[row] for row in known[start : start + _BLOCK]]
        truths = [withheld[item.query_id] for item in items]
        right += int(_in_common([item.positives for item in items], truths, collection.corpus).sum())
        wrong += int(_in_common([item.negatives for item in items], truths, collection.corpus).sum())
    if not known:
        return {}
    return {
        "queries with withheld labels": len(known),
        "pseudo-positives that are withheld positives": right,
        "precision of pseudo-positives": round(right / len(known), 4),
        "pseudo-negatives that are withheld positives": wrong,
    }


def _in_common(lists: Sequence[Sequence[str]], truths: Sequence[Sequence[str]], corpus: Corpus) -> NDArray[np.bool_]:
    """Which documents of all lists, one after the other, have the contents of one of their own list's truths."""
    contents, owner = _contents(lists, corpus)
    wanted, of = _contents(truths, corpus)
    number = np.unique(np.concatenate([contents, wanted]), return_inverse=True)[1].astype(np.int64)
    pairs = number * len(lists) + np.concatenate([owner, of])
    return np.isin(pairs[: len(contents)], pairs[len(contents) :])


def _contents(lists: Sequence[Sequence[str]], corpus: Corpus) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
    """A hash of each document's contents, uint64 [n], and the list it is in, int64 [n]."""
    rows = corpus.rows([doc_id for doc_ids in lists for doc_id in doc_ids])
    return corpus.content_hash[rows], np.repeat(np.arange(len(lists)), [len(doc_ids) for doc_ids in lists])
