"""`write-queries`: queries written from documents alone, as a collection in files."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from itertools import starmap
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from hardneg.api.adhoc_recipe import ENCODED, SEARCHED
from hardneg.lines.base import Arguments, Job, Line, Of
from hardneg.lines.shared_arguments import DATASET, MODEL, optional
from hardneg.records.errors import UsageError
from hardneg.records.types import Judgement, Membership, Side

if TYPE_CHECKING:
    from hardneg.api.results import WrittenQueries
    from hardneg.api.workplace import Workplace
    from hardneg.recipe.plan import Plan

_WRITTEN, _RERANKED, _KEPT = "written", "reranked", "kept"


class WriteQueriesLine(Line):
    """Write queries from the passages of a collection alone, to train a retriever with and to measure it by.

    The result is a folder in BEIR's form: the passages as their queries leave them, queries, and qrels by split.

    With a model for the round trip, a training query stays if its passage is among the first k that the model finds;
    with a reranker too, among the first k after reranking.

    Raises:
        RecipeError: a writer has no such option, or another mistake in what was asked.
        DataError: no query was written, or a split has none.

    Example: hardneg write-queries --dataset documents:docs --writer heading --writer crop --output written

    Example: hardneg write-queries --dataset D --writer '{name: chat, model: NAME}' --round-trip MODEL --output written
    """

    name = "write_queries"
    words = "write-queries"
    returns = "WrittenQueries"
    shows = ("settings", "store", "device")
    arguments = (
        DATASET,
        Of("write-queries.writers"),
        Of("write-queries.per_passage"),
        Of("write-queries.passages"),
        Of("write-queries.dev_share"),
        Of("write-queries.test_share"),
        Of("write-queries.split_by"),
        replace(optional(MODEL), name="round_trip", help="A model that must find a training query's passage again."),
        Of("round-trip.depth", "first_k"),
        Of("rerank.plugin", "reranker"),
        Of("write-queries.seed"),
    )

    def job(self, args: Arguments, workplace: "Workplace") -> Job:
        """Writes; with a model it encodes, searches, may rerank, and keeps the queries whose passage is found again."""
        for name, unset in (("reranker", None), ("first_k", self.resolved()["first_k"].default)):
            if args.round_trip is None and getattr(args, name) != unset:
                raise UsageError(f"write-queries: {{{name}}} goes with {{round_trip}}", name, "round_trip")
        stages = {_WRITTEN: args.of("write-queries"), **(_round_trip(args) if args.round_trip is not None else {})}
        recipe = self.recipe(Arguments(**{**vars(args), "model": args.round_trip}), workplace, stages)
        return Job(recipe, partial(_result, stages))

    def sentences(self, result: Any) -> Iterator[str]:
        """The queries of each split, and what was written and left out."""
        yield ", ".join(f"{split}: {counts['queries']:,} queries" for split, counts in result.facts["splits"].items())
        for name, count in result.facts.items():
            if count and name not in ("documents", "seconds") and isinstance(count, int | float):
                yield f"  {name}: {count:,}"


def _round_trip(args: Arguments) -> dict[str, Any]:
    from hardneg.records.depths import LIST_DEPTH

    searched, depth = SEARCHED, args.first_k if args.reranker is None else max(args.first_k, LIST_DEPTH)
    split = {"split": "train", "dataset": _WRITTEN}
    stages: dict[str, Any] = {
        ENCODED: {"stage": "encode", "dataset": _WRITTEN},
        SEARCHED: {"stage": "search", "index": ENCODED, "depth": depth, **split},
    }
    if args.reranker is not None:
        stages[_RERANKED] = {"stage": "rerank", "plugin": args.reranker, "run": SEARCHED, "depth": depth, **split}
        searched = _RERANKED
    return {**stages, _KEPT: {"stage": "round-trip", "run": searched, "depth": args.first_k, **split}}


def _result(stages: Mapping[str, Any], plan: "Plan", workplace: "Workplace") -> "WrittenQueries":
    from hardneg.api.content_store import keep_result
    from hardneg.api.dataset_argument import write_beir
    from hardneg.api.results import WrittenQueries
    from hardneg.formats.collection import StoredCollection
    from hardneg.formats.id_pairs import write_groups

    artifacts = workplace.make(plan).artifacts
    last = artifacts[list(stages)[-1]]

    def write(folder: Path) -> None:
        collection = StoredCollection.open(last.path)
        queries = (query for split in collection.splits for query in collection.queries(split))
        judged = {split: _judgements(collection.qrels(split)) for split in collection.splits}
        write_beir(folder, collection.corpus.documents(), queries, judged)
        for side in get_args(Side):
            write_groups(folder / f"{side}-groups.tsv", starmap(Membership, collection.groups(side).items()))

    origin = {"stage": "beir-collection", "inputs": {"collection": last.key}, "name": "beir-collection"}
    laid = keep_result(workplace.store, "beir-collection", origin, write)
    return WrittenQueries(_WRITTEN, laid.key, laid.path, {**artifacts[_WRITTEN].facts, **last.facts})


def _judgements(qrels: Mapping[str, Mapping[str, int]]) -> Iterator[Judgement]:
    return (Judgement(query_id, *pair) for query_id, judged in qrels.items() for pair in judged.items())
