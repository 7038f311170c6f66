"""`search`: a corpus searched for the queries of one split, or an index for vectors of queries."""

from typing import TYPE_CHECKING, Annotated, Any, Unpack

from hardneg.functions.adhoc_recipe import ENCODED, SEARCHED
from hardneg.functions.arguments import (
    Arg,
    Dataset,
    Model,
    Setting,
    Split,
    VectorFile,
    VectorIds,
    VectorIndex,
    Where,
    spelled_out,
)
from hardneg.records import LIST_DEPTH, RUN, UsageError

if TYPE_CHECKING:
    from hardneg.functions.results import RankedRun

_LISTED, _LISTED_RUN = "candidates-index", "candidates"

Backend = Annotated[Setting | None, Arg("An index over texts instead of a model, such as bm25.", plugin="indexes")]
Candidates = Annotated[
    Setting | None, Arg("An index over texts, such as bm25: rank only its best documents.", plugin="indexes")
]


@spelled_out
def search(
    dataset: Dataset | None = None,
    model: Model | None = None,
    *,
    backend: Backend = None,
    index: VectorIndex | None = None,
    query_vectors: VectorFile | None = None,
    query_ids: VectorIds | None = None,
    split: Split = None,
    depth: Annotated[int, Arg("How many documents are ranked for each query.", least=1)] = LIST_DEPTH,
    candidates: Candidates = None,
    **where: Unpack[Where],
) -> "RankedRun":
    """Search a corpus for the queries of one split and write a TREC run; or search an index with query vectors.

    Raises:
        UsageError: both a model and a backend, or none.

    Example: hardneg search --dataset beir:FOLDER --model NAME --split test --output run.trec.gz

    Example: hardneg search --index FOLDER --query-vectors queries.parquet --output run.trec.gz
    """
    from hardneg.functions.argument_values import stage
    from hardneg.functions.dataset_argument import model_name, split_of
    from hardneg.functions.results import RankedRun, TextSource, run_of
    from hardneg.functions.run_argument import named_vectors
    from hardneg.functions.session import Session

    session, searched = Session.of(where, search), stage("search", {"depth": depth})
    vectors = named_vectors("search", index, query_vectors, query_ids)
    _check(vectors, dataset, model, backend, candidates)
    if vectors:
        session.begin(None, vectors.reads)
        found, count = vectors.kept_run(session, depth)
        return RankedRun(vectors.queries.stem, found.key, found.path / RUN, {"queries": count}, session.store, None)
    searched["split"] = split = split_of(dataset, split, "test")
    encoded: Any = {"stage": "encode"} if backend is None else stage("index", {"backend": backend})
    name = model_name(model) if backend is None else encoded["backend"]["name"]
    stages: dict[str, dict[str, Any]] = {ENCODED: encoded, SEARCHED: {**searched, "index": ENCODED}}
    if candidates is not None:
        stages[_LISTED] = stage("index", {"backend": candidates}, {"backend": _LISTED_RUN})
        stages[_LISTED_RUN] = {**searched, "index": _LISTED}
        stages[SEARCHED]["candidates"] = _LISTED_RUN
    recipe = session.recipe(search, dataset, model, stages, {f"{_LISTED}.backend": _LISTED_RUN})
    artifacts = session.artifacts(session.begin(recipe))
    return run_of(name, artifacts[SEARCHED], TextSource.of(artifacts["dataset"], split, session.store))


def _check(vectors: Any, dataset: Any, model: Any, backend: Any, candidates: Any) -> None:
    """Refuse arguments that do not go together. Raises UsageError."""
    if vectors:
        if any(each is not None for each in (dataset, model, backend, candidates)):
            problem = "search: {index} and {query_vectors} are all that is read: leave the others out"
            raise UsageError(problem, "index", "query_vectors")
        return
    if dataset is None or (model is None) == (backend is None):
        problem = "search: give {dataset}, and {model} or {backend}, one of them"
        raise UsageError(problem, "dataset", "model", "backend")
    if candidates is not None and model is None:
        raise UsageError("search: {candidates} are ranked by a model: give {model}", "candidates", "model")
