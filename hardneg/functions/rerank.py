"""`rerank`: the documents of anyone's run, scored anew."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Unpack

from hardneg.functions.adhoc_recipe import ENCODED, SEARCHED
from hardneg.functions.arguments import AnyRun, Arg, Dataset, Setting, Split, Where, spelled_out
from hardneg.records import BM25, LIST_DEPTH

if TYPE_CHECKING:
    from hardneg.functions.results import RankedRun

_RERANKED = "reranked"

Reranker = Annotated[
    Setting, Arg("A trained reranker: cross-encoder:FOLDER or cross-encoder:HUB-ID.", plugin="rerankers")
]


@spelled_out
def rerank(
    dataset: Dataset,
    run: Annotated[AnyRun, Arg("The TREC run to take the documents from, plain or gzip.", cli=Path)],
    reranker: Reranker,
    *,
    split: Split = None,
    depth: Annotated[int, Arg("How many documents of each query are scored, the best ones.", least=1)] = LIST_DEPTH,
    **where: Unpack[Where],
) -> "RankedRun":
    """Score the best documents of a run anew, query and document together.

    Raises:
        RecipeError: there is no such reranker, or it has no such option.
        DataError: the run has a mistake, or none of its queries is in the split.

    Example: hardneg rerank --dataset beir:FOLDER --run run.trec.gz --reranker cross-encoder:MODEL --output best.trec.gz
    """
    from hardneg.functions.argument_values import stage
    from hardneg.functions.content_store import make_dataset, make_from
    from hardneg.functions.dataset_argument import split_of
    from hardneg.functions.results import TextSource, run_of
    from hardneg.functions.run_argument import run_file
    from hardneg.functions.session import Session

    session, split = Session.of(where, rerank), split_of(dataset, split, "test")
    reranked = stage("rerank", {"plugin": reranker, "split": split, "depth": depth}, {"plugin": "reranker"})
    file, plugin = run_file(run, session.store), reranked["plugin"]
    stages = {  # the search only stands for the run that is given
        ENCODED: {"stage": "index", "backend": BM25},
        SEARCHED: {"stage": "search", "index": ENCODED, "split": split},
        _RERANKED: {**reranked, "run": SEARCHED},
    }
    recipe = session.recipe(rerank, dataset, None, stages, {f"{_RERANKED}.plugin": "reranker"})
    plan = session.begin(recipe, [file])
    collection = make_dataset(plan, session)
    artifact, facts = make_from(plan, _RERANKED, collection, {"run": file}, session)
    source = TextSource.of(collection, split, session.store)
    return replace(run_of(str(plugin.get("source", plugin["name"])), artifact, source), facts=facts)
