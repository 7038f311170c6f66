"""`write-queries`: queries written from documents alone, as a collection in files."""

from collections.abc import Sequence
from itertools import starmap
from pathlib import Path
from typing import Annotated, Any, Literal, Unpack, get_args

from hardneg.functions import arguments, given, results, search
from hardneg.functions.session import ENCODED, SEARCHED, Session
from hardneg.records import depths, errors
from hardneg.records.types import Judgement, Membership, Side

_WRITTEN, _RERANKED, _KEPT = "written", "reranked", "kept"
_WRITERS = "Writers of queries; one of them, drawn, writes for a passage; a name, or {name: NAME, ...}."
_PASSAGES = "Write for so many passages, drawn; by default for all."
_SPLIT_BY = "What stays together in one split: a document's passages, or each passage alone."

Writers = Annotated[Sequence[arguments.Setting], arguments.Arg(_WRITERS, cli=list[str], flag="writer", metavar="NAME")]
RoundTrip = Annotated[arguments.Model | None, arguments.Arg("A model that must find a training query's passage again.")]


@arguments.spelled_out
def write_queries(
    dataset: arguments.Dataset,
    writers: Writers,
    *,
    per_passage: Annotated[int, arguments.Arg("The most queries of a passage.", least=1)] = 1,
    passages: Annotated[int | None, arguments.Arg(_PASSAGES, least=1)] = None,
    dev_share: Annotated[float, arguments.Arg("The part of the documents whose queries are split dev.")] = 0.1,
    test_share: Annotated[float, arguments.Arg("The part of the documents whose queries are split test.")] = 0.1,
    split_by: Annotated[Literal["group", "passage"], arguments.Arg(_SPLIT_BY)] = "group",
    round_trip: RoundTrip = None,
    first_k: Annotated[int, arguments.Arg("A relevant passage must be among so many.", least=1)] = depths.RETURN_DEPTH,
    reranker: search.Reranker | None = None,
    **where: Unpack[arguments.Where],
) -> results.WrittenQueries:
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
    session = Session.of(where, write_queries)
    for name, differs in (("reranker", reranker is not None), ("first_k", first_k != depths.RETURN_DEPTH)):
        if round_trip is None and differs:
            raise errors.UsageError(f"write-queries: {{{name}}} goes with {{round_trip}}", name, "round_trip")
    fields = {"writers": writers, "per_passage": per_passage, "passages": passages, "dev_share": dev_share}
    fields |= {"test_share": test_share, "split_by": split_by, "seed": session.seed}
    stages = {_WRITTEN: arguments.stage("write-queries", fields)} | (
        {} if round_trip is None else _found(first_k, reranker)
    )
    names = {f"{_KEPT}.depth": "first_k", f"{_RERANKED}.plugin": "reranker"}
    artifacts = session.artifacts(session.begin(session.recipe(write_queries, dataset, round_trip, stages, names)))
    last = artifacts[list(stages)[-1]]
    origin = {"stage": "beir-collection", "inputs": {"collection": last.key}, "name": "beir-collection"}
    laid = given.keep_result(session.store, "beir-collection", origin, lambda folder: _write(last.path, folder))
    return results.WrittenQueries(_WRITTEN, laid.key, laid.path, {**artifacts[_WRITTEN].facts, **last.facts})


def _found(first_k: int, reranker: arguments.Setting | None) -> dict[str, Any]:
    """The stages that keep the training queries whose passage is found again."""
    kept = arguments.stage("round-trip", {"depth": first_k}, {"depth": "first_k"})
    searched, depth = SEARCHED, first_k if reranker is None else max(first_k, depths.LIST_DEPTH)
    split = {"split": "train", "dataset": _WRITTEN}
    stages: dict[str, Any] = {
        ENCODED: {"stage": "encode", "dataset": _WRITTEN},
        SEARCHED: {"stage": "search", "index": ENCODED, "depth": depth, **split},
    }
    if reranker is not None:
        plugin = arguments.stage("rerank", {"plugin": reranker}, {"plugin": "reranker"})
        stages[_RERANKED] = {**plugin, "run": SEARCHED, "depth": depth, **split}
        searched = _RERANKED
    return {**stages, _KEPT: {**kept, "run": searched, **split}}


def _write(stored: Path, folder: Path) -> None:
    """Write a stored collection in BEIR's form, with the groups of each side."""
    from hardneg.formats.collection import StoredCollection
    from hardneg.formats.id_pairs import write_groups

    collection = StoredCollection.open(stored)
    queries = (query for split in collection.splits for query in collection.queries(split))
    judged = {
        split: (Judgement(name, *pair) for name, grades in collection.qrels(split).items() for pair in grades.items())
        for split in collection.splits
    }
    given.write_beir(folder, collection.corpus.documents(), queries, judged)
    for side in get_args(Side):
        write_groups(folder / f"{side}-groups.tsv", starmap(Membership, collection.groups(side).items()))
