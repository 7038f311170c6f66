"""`mine`: hard negatives, mined by a model or from anyone's run."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Unpack

from hardneg.functions.adhoc_recipe import ENCODED, MINED, SEARCHED
from hardneg.functions.arguments import (
    AnyRun,
    Arg,
    Dataset,
    Model,
    Setting,
    TrainSplit,
    VectorFile,
    VectorIds,
    VectorIndex,
    Where,
    spelled_out,
)
from hardneg.records import DATASET, MINED_DEPTH, MINER, SCORES, UsageError
from hardneg.store import Artifact

if TYPE_CHECKING:
    from hardneg.functions.mined import KnowsScores, MinedNegatives
    from hardneg.functions.run_argument import QueryVectors
    from hardneg.functions.session import Session
    from hardneg.recipes import Plan

_FILTERS = "Leave candidates out before the miner selects, one after another; a name, or {name: NAME, ...}."
_JUDGED = "Judgements whose positives count beside the dataset's, such as a reader's marks."
_SCORES = "With a run: a TREC run whose scores the miner filters by, such as a reranker's."

Miner = Annotated[Setting, Arg("A miner; `hardneg plugins list` shows them.", plugin="miners")]
MinedDepth = Annotated[int, Arg("How many documents are ranked for each query.", least=1)]
Filters = Annotated[Setting | Sequence[Setting], Arg(_FILTERS, cli=list[str], flag="filter", metavar="NAME")]
Judged = Annotated[str | Path | Sequence[str | Path], Arg(_JUDGED, cli=list[Path])]


@spelled_out
def mine(
    dataset: Dataset,
    model: Model | None = None,
    *,
    run: Annotated[AnyRun | None, Arg("Select from this TREC run instead of a model's search.", cli=Path)] = None,
    index: VectorIndex | None = None,
    query_vectors: VectorFile | None = None,
    query_ids: VectorIds | None = None,
    miner: Miner = MINER,
    filters: Filters = (),
    split: TrainSplit = None,
    depth: MinedDepth = MINED_DEPTH,
    also_qrels: Judged = (),
    filter_by: Annotated[AnyRun | None, Arg(_SCORES, cli=Path)] = None,
    **where: Unpack[Where],
) -> "MinedNegatives":
    """Mine hard negatives and write them in the form a training program reads.

    The vectors, the run and the negatives are kept in the store: repeating it, or writing another form, is quick.

    Raises:
        UsageError: arguments do not go together.
        RecipeError: the miner has no such option, or another mistake in what was asked.
        DataError: the dataset or the run has a mistake.

    Example: hardneg mine --dataset beir:FOLDER --model NAME --form n-tuple --count 8 --output mined.parquet

    Example: hardneg mine --dataset beir:FOLDER --index FOLDER --query-vectors queries.parquet --output mined.parquet
    """
    from hardneg.functions.argument_values import stage
    from hardneg.functions.dataset_argument import split_of
    from hardneg.functions.mined import scores_of_model
    from hardneg.functions.run_argument import named_vectors, run_file
    from hardneg.functions.session import Session

    session, runs = Session.of(where, mine), {"run": run, "filter_by": filter_by}
    files = {name: run_file(each, session.store) for name, each in runs.items() if each is not None}
    vectors = named_vectors("mine", index, query_vectors, query_ids)
    _check(model, files, vectors)
    fields = {"miner": miner, "filters": filters, "split": split_of(dataset, split, "train")}
    mined = stage("mine", {**fields, "also_qrels": also_qrels, "seed": session.seed})
    stages = mining_stages(mined, depth) if vectors is None and not files else {MINED: mined}
    reads = [*files.values(), *(vectors.reads if vectors else [])]
    plan = session.begin(session.recipe(mine, dataset, model, stages), reads)
    if reads:
        return _from_runs(plan, session, files, vectors, depth)
    artifacts = session.artifacts(plan)
    scores = partial(scores_of_model, plan, artifacts, session)
    return _mined(plan, artifacts[DATASET], artifacts[MINED], scores, session)


def _check(model: Any, files: Mapping[str, Path], vectors: Any) -> None:
    """Refuse arguments that do not go together. Raises UsageError."""
    if [model is not None, "run" in files, vectors is not None].count(True) != 1:
        problem = "mine: give {model}, {run}, or {index} with {query_vectors}, one of them"
        raise UsageError(problem, "model", "run", "index", "query_vectors")
    if "filter_by" in files and model is not None:
        raise UsageError("mine: {filter_by} goes with {run}, the list to select from", "filter_by", "run")


def mining_stages(mined: Mapping[str, Any], depth: int) -> dict[str, Any]:
    """The stages that encode, search and mine; mined: the last one's fields."""
    from hardneg.functions.adhoc_recipe import list_options
    from hardneg.functions.argument_values import stage

    searched = stage("search", {"depth": depth})
    searched |= {"index": ENCODED, "split": mined["split"], **list_options(mined)}
    return {ENCODED: {"stage": "encode"}, SEARCHED: searched, MINED: {**mined, "runs": {"dense": SEARCHED}}}


def _from_runs(
    plan: "Plan", session: "Session", files: Mapping[str, Path], vectors: "QueryVectors | None", depth: int
) -> "MinedNegatives":
    """What is mined from a file of a run, or from what an index has for vectors of queries."""
    from hardneg.functions.content_store import make_dataset, make_from
    from hardneg.functions.mined import scores_of_run

    dataset = make_dataset(plan, session)
    session.leave()
    if vectors is None:
        run = files["run"]
    else:
        name = f"{vectors.queries.name}.trec.gz"
        run = vectors.kept_run(session, depth, name)[0].path / name
    scores = {f"runs.{SCORES}": files["filter_by"]} if "filter_by" in files else {}
    artifact, facts = make_from(plan, MINED, dataset, {"runs.run": run, **scores}, session)
    reads = [*files.values(), *(vectors.reads if vectors else [])]
    return replace(_mined(plan, dataset, artifact, partial(scores_of_run, run), session, reads), facts=facts)


def _mined(
    plan: "Plan",
    dataset: "Artifact",
    result: "Artifact",
    scores: "KnowsScores",
    session: "Session",
    reads: Sequence[Path] = (),
) -> "MinedNegatives":
    from hardneg.functions.mined import mined_in
    from hardneg.functions.results import TextSource
    from hardneg.recipes import inputs_of

    spec = vars(plan.steps[MINED].spec)
    source = TextSource.of(dataset, spec["split"], session.store, [*inputs_of(plan.recipe), *reads])
    return mined_in(spec["miner"].name, result.path, result.key, result.facts, source, scores)
