"""The functions `mine`, `train` and `write_queries`, which mine negatives, train models, and generate queries."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import starmap
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, Unpack, get_args

from hardneg import formats, recipes
from hardneg.functions import arguments, given, results, search
from hardneg.functions.session import ENCODED, MINED, SEARCHED, TRAINED, Session, model_name
from hardneg.records import errors, layout, types
from hardneg.registry import configure, load_plugin
from hardneg.store import Artifact

if TYPE_CHECKING:
    from hardneg.indexes.candidate_scoring import PositiveScores


_FILTERS = "Filters to apply before the miner, in this order; each is a name or {name: NAME, ...}."
_JUDGED = "Files of further judgements, such as your own; their positives are added to the dataset's."
_SCORES = arguments.Arg("With a run: a TREC run with scores to filter by, such as a reranker's.", cli=Path)
_ONE = "mine: give exactly one of {model}, {run}, or {index} with {query_vectors}"
_INPUTS = {"run": "runs.run", "filter_by": f"runs.{types.SCORES}"}
_FILTER = arguments.Arg(_FILTERS, cli=list[str], flag="filter", metavar="NAME")
_MINER = arguments.Arg("The miner; `hardneg plugins list miners` shows all.", plugin="miners")
_RUN = arguments.Arg("Mine from this TREC run instead of searching with a model.", cli=Path)
_LOSS = arguments.Arg("Training loss; `hardneg plugins list losses` shows all.", plugin="losses")

Miner = Annotated[arguments.Setting, _MINER]
MinedDepth = Annotated[int, arguments.Arg("Number of documents per query.", least=1)]
Filters = Annotated[arguments.Setting | Sequence[arguments.Setting], _FILTER]
Judged = Annotated[str | Path | Sequence[str | Path], arguments.Arg(_JUDGED, cli=list[Path])]


@arguments.spelled_out
def mine(
    dataset: arguments.Dataset,
    model: arguments.Model | None = None,
    *,
    run: Annotated[arguments.AnyRun | None, _RUN] = None,
    index: arguments.VectorIndex | None = None,
    query_vectors: arguments.VectorFile | None = None,
    query_ids: arguments.VectorIds | None = None,
    miner: Miner = layout.MINER,
    filters: Filters = (),
    split: arguments.TrainSplit = None,
    depth: MinedDepth = layout.MINED_DEPTH,
    also_qrels: Judged = (),
    filter_by: Annotated[arguments.AnyRun | None, _SCORES] = None,
    **where: Unpack[arguments.Where],
) -> results.MinedNegatives:
    """Mine hard negatives and write them in the format of a training program.

    The vectors, run and negatives are saved in the store, so repeating the call or writing another format is fast.

    Raises:
        UsageError: two arguments conflict, or an argument requires another one.
        RecipeError: an option of the miner is unknown, or a value is invalid.
        DataError: the dataset or the run is malformed.

    Example: hardneg mine --dataset beir:FOLDER --model NAME --form n-tuple --count 8 --output mined.parquet

    Example: hardneg mine --dataset beir:FOLDER --index FOLDER --query-vectors queries.parquet --output mined.parquet
    """
    session, vectors = Session.of(where, mine), search.QueryVectors.of("mine", index, query_vectors, query_ids)
    named = (("run", run), ("filter_by", filter_by))
    files = {name: given.run_file(each, session.store) for name, each in named if each is not None}
    if [model is not None, "run" in files, vectors is not None].count(True) != 1:
        raise errors.UsageError(_ONE, "model", "run", "index", "query_vectors")
    if "filter_by" in files and model is not None:
        raise errors.UsageError("mine: {filter_by} needs {run}, the run to select from", "filter_by", "run")
    fields = {"miner": miner, "filters": filters, "also_qrels": also_qrels, "seed": session.seed}
    mined = arguments.stage("mine", {**fields, "split": split or given.split_of(dataset, "train")})
    stages = {MINED: mined} if model is None else mining_stages(mined, depth)
    reads = [*files.values(), *(vectors.reads if vectors else [])]
    plan = session.begin(session.recipe(mine, dataset, model, stages), reads)
    if model is not None:
        made = session.artifacts(plan)
        return _mined(plan, session, made[layout.DATASET], made[MINED], partial(_scores_of_model, plan, made, session))
    data = session.artifacts(plan, layout.DATASET)[layout.DATASET]
    if vectors is not None:
        files["run"] = vectors.kept_run(session, depth, name := f"{vectors.queries.name}.trec.gz")[0].path / name
    mined_of, facts = session.make_from(plan, MINED, data, {_INPUTS[name]: path for name, path in files.items()})
    return replace(_mined(plan, session, data, mined_of, partial(_scores_of_run, files["run"]), reads), facts=facts)


@arguments.spelled_out
def train(
    dataset: arguments.Dataset,
    model: arguments.Model,
    *,
    miner: Miner = layout.MINER,
    loss: Annotated[arguments.Setting, _LOSS] = layout.LOSS,
    options: Annotated[Mapping[str, Any], arguments.TRAIN_OPTION] = {},
    split: arguments.TrainSplit = None,
    depth: MinedDepth = layout.MINED_DEPTH,
    **where: Unpack[arguments.Where],
) -> results.TrainedModel:
    """Mine negatives with a model and train it on them; load the result with SentenceTransformer(FOLDER).

    Raises:
        RecipeError: an option of the miner, the loss or training is unknown.

    Example: hardneg train --dataset beir:FOLDER --model NAME --train-option max_steps=500 --output model
    """
    session = Session.of(where, train)
    mined = arguments.stage("mine", {"miner": miner, "split": split or given.split_of(dataset, "train")})
    trained = {**arguments.stage("train", {"loss": loss}), "negatives": MINED}
    stages = {**mining_stages(mined, depth), TRAINED: training_stage(trained, arguments.mapping_of("options", options))}
    artifact = session.artifacts(session.begin(session.recipe(train, dataset, model, stages)))[TRAINED]
    name = f"{model_name(model)}-{TRAINED}"
    return results.TrainedModel(name, artifact.key, artifact.path / layout.MODEL_FOLDER, artifact.facts)


def mining_stages(mined: Mapping[str, Any], depth: int) -> dict[str, Any]:
    """Return stages `encode`, `search` and `mine`. mined: the fields of `mine`. depth: documents per query."""
    searched = arguments.stage("search", {"depth": depth})
    searched |= {"index": ENCODED, "split": mined["split"], **list_options(mined)}
    return {ENCODED: {"stage": "encode"}, SEARCHED: searched, MINED: {**mined, "runs": {"dense": SEARCHED}}}


def list_options(mining: Mapping[str, Any]) -> dict[str, Any]:
    """Return search options for mining: `positives`, which appends missed positives, if a plugin needs their scores."""
    from hardneg.fields import parse_setting
    from hardneg.mining.choosing import compares

    plugins: list[object] = []
    for kind, setting in (("miners", mining["miner"]), *(("filters", each) for each in mining.get("filters", ()))):
        with suppress(errors.PluginError):  # the recipe's validation reports it
            plugins.append(configure(kind, parse_setting(setting)))
    return {"positives": True} if compares(*plugins) else {}


def training_stage(fields: Mapping[str, Any], options: Mapping[str, Any]) -> dict[str, Any]:
    """Return a stage `train`. Each option sets the field with the same name or, without one, a key of `options`."""
    known = {*load_plugin("stages", "train").model_fields} - {"stage", "options", *fields}
    own = {name: value for name, value in options.items() if name in known}
    within = {name: value for name, value in options.items() if name not in known}
    return {"stage": "train", **fields, **own, "options": within}


def _mined(
    plan: "recipes.Plan",
    session: Session,
    dataset: "Artifact",
    made: "Artifact",
    scores: Any,
    reads: Sequence[Path] = (),
) -> results.MinedNegatives:
    spec = vars(plan.steps[MINED].spec)
    source = results.TextSource(dataset.path, spec["split"], session.store, [*recipes.inputs_of(plan.recipe), *reads])
    return results.MinedNegatives.of(spec["miner"].name, made.path, made.key, made.facts, source, scores)


def _scores_of_run(run: Path, mined: results.MinedNegatives) -> "PositiveScores":
    """Return the scores of positives in a run; nan if missing."""
    from hardneg.indexes.candidate_scoring import scores_in_run

    return scores_in_run(mined, formats.runs.read_run(run).items())


def _scores_of_model(
    plan: "recipes.Plan", artifacts: "Mapping[str, Artifact]", session: Session, mined: results.MinedNegatives
) -> "PositiveScores":
    """Return the scores of positives in the searched run; the model computes missing ones."""
    import numpy as np

    from hardneg.indexes.candidate_scoring import fill_from_model, pooled, scores_in_run
    from hardneg.indexes.open_store import open_store

    scores = scores_in_run(mined, formats.runs.stream_run(artifacts[SEARCHED].path / layout.RUN))
    if any(np.isnan(values).any() for values in scores.values()):
        collection, folder = mined.source.collection, artifacts[ENCODED].path
        queries, encode = collection.queries(mined.source.split), session.query_encoder(plan)
        searcher = pooled(open_store(folder), folder, collection.corpus.doc_ids)
        fill_from_model(scores, mined, queries, collection, encode, searcher)
    return scores


_WRITTEN, _RERANKED, _KEPT = "written", "reranked", "kept"
_WRITERS = "Query writers; one is drawn at random per passage. Each is a name or {name: NAME, ...}."
_LOWEST = "Keep queries with a relevant passage in the top k."
_PASSAGES = "Number of passages to sample; default: all."
_SPLIT_BY = "Unit of the split: all passages of a document, or single passages."

Writers = Annotated[Sequence[arguments.Setting], arguments.Arg(_WRITERS, cli=list[str], flag="writer", metavar="NAME")]
RoundTrip = Annotated[arguments.Model | None, arguments.Arg("Keep training queries whose passage this model finds.")]


@arguments.spelled_out
def write_queries(
    dataset: arguments.Dataset,
    writers: Writers,
    *,
    per_passage: Annotated[int, arguments.Arg("Maximum number of queries per passage.", least=1)] = 1,
    passages: Annotated[int | None, arguments.Arg(_PASSAGES, least=1)] = None,
    dev_share: Annotated[float, arguments.Arg("Share of documents whose queries are in split dev.")] = 0.1,
    test_share: Annotated[float, arguments.Arg("Share of documents whose queries are in split test.")] = 0.1,
    split_by: Annotated[Literal["group", "passage"], arguments.Arg(_SPLIT_BY)] = "group",
    round_trip: RoundTrip = None,
    first_k: Annotated[int, arguments.Arg(_LOWEST, least=1)] = layout.RETURN_DEPTH,
    reranker: search.Reranker | None = None,
    **where: Unpack[arguments.Where],
) -> results.WrittenQueries:
    """Write queries from the passages of a collection, to train and evaluate a retriever without judgements.

    The result is a folder in BEIR format: passages (without text that became a query), queries, and qrels by split.

    With a round-trip model, a training query is kept only if its passage is in the model's top k or, with a reranker,
    in the top k after reranking.

    Raises:
        RecipeError: an option of a writer is unknown, or a value is invalid.
        DataError: no query was written, or a split has no queries.

    Example: hardneg write-queries --dataset documents:docs --writer heading --writer crop --output written

    Example: hardneg write-queries --dataset D --writer '{name: chat, model: NAME}' --round-trip MODEL --output written
    """
    session = Session.of(where, write_queries)
    for name, differs in (("reranker", reranker is not None), ("first_k", first_k != layout.RETURN_DEPTH)):
        if round_trip is None and differs:
            raise errors.UsageError(f"write-queries: {{{name}}} needs {{round_trip}}", name, "round_trip")
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
    """The stages of the round-trip filter."""
    kept = arguments.stage("round-trip", {"depth": first_k}, {"depth": "first_k"})
    searched, depth = SEARCHED, first_k if reranker is None else max(first_k, layout.LIST_DEPTH)
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
    """Write a stored collection in BEIR format, with its groups."""
    collection = formats.collection.StoredCollection.open(stored)
    queries = (query for split in collection.splits for query in collection.queries(split))
    judged = {
        split: (
            types.Judgement(name, *pair) for name, grades in collection.qrels(split).items() for pair in grades.items()
        )
        for split in collection.splits
    }
    given.write_beir(folder, collection.corpus.documents(), queries, judged)
    for side in get_args(types.Side):
        formats.qrels.write_groups(
            folder / f"{side}-groups.tsv", starmap(types.Membership, collection.groups(side).items())
        )
