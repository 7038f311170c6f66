"""`hardneg.encode`, `index`, `search`, `rerank` and `train`: one stage and what it needs."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Unpack

from hardneg.api.adhoc_recipe import (
    ENCODED,
    RERANKED,
    SEARCHED,
    TRAINED,
    mining_stage,
    reranker_setting,
    reranking_stages,
    searching_stages,
    training_stages,
)
from hardneg.api.given_dataset import Dataset, named_dataset, split_of
from hardneg.api.given_model import Model, model_name, named_model
from hardneg.api.given_run import AnyRun, run_file
from hardneg.api.making import make_dataset, make_from
from hardneg.api.results import BuiltIndex, FoundRun, TextSource, TrainedModel, run_of
from hardneg.api.workplace import Where, Workplace, taken
from hardneg.errors import UsageError
from hardneg.layout import MODEL_FOLDER


def encode(dataset: Dataset, model: Model, **where: Unpack[Where]) -> BuiltIndex:
    """Encodes a corpus into an index, a dense one of which Pyserini's FaissSearcher opens.

    Args:
        dataset: a name, a folder, a `datasets.Dataset` or dicts.
        model: a folder, a hub id, `packaged:NAME` or a live one.
        where: what every function takes (`Where`).
    """
    place = Workplace.of(where)
    named = named_model(model, place.store)
    stages = {ENCODED: {"stage": "encode"}}
    plan = place.recipe("encode", named_dataset(dataset, place.store), stages, named).plan()
    made = place.make(plan).artifacts[ENCODED]
    return BuiltIndex(model_name(model), made.key, made.path, made.facts)


def index(dataset: Dataset, backend: str | Mapping[str, Any] = "bm25", **where: Unpack[Where]) -> BuiltIndex:
    """Indexes the texts of a corpus.

    Args:
        dataset: a name, a folder, a `datasets.Dataset` or dicts.
        backend: a kind of index over texts, or a dict of its options with its `name`.
        where: what every function takes (`Where`).
    """
    place = Workplace.of(where)
    setting = {"name": backend} if isinstance(backend, str) else dict(backend)
    stages = {ENCODED: {"stage": "index", "backend": setting}}
    made = place.make(place.recipe("index", named_dataset(dataset, place.store), stages).plan()).artifacts[ENCODED]
    return BuiltIndex(str(setting["name"]), made.key, made.path, made.facts)


class SearchOptions(Where, total=False):
    """What `search` takes besides.

    backend: an index over texts instead of a model, such as `bm25`. candidates: with a model, an index over texts whose
    best documents alone are ranked.
    """

    backend: str
    candidates: str


def search(
    dataset: Dataset,
    model: Model | None = None,
    *,
    split: str | None = None,
    depth: int = 100,
    **given: Unpack[SearchOptions],
) -> FoundRun:
    """Searches a corpus for the queries of one split.

    Args:
        dataset: a name, a folder, a `datasets.Dataset` or dicts.
        model: a folder, a hub id, `packaged:NAME` or a live one; or give `backend`.
        split: whose queries; `test`, or the only one of a dataset in memory.
        depth: how many documents for each query.
        given: `SearchOptions`, and what every function takes (`Where`).

    Raises:
        UsageError: both a model and a backend, or none.
    """
    own = taken(given, SearchOptions)
    backend, candidates = own.get("backend"), own.get("candidates")
    check_searched(model is not None, backend, candidates)
    place = Workplace.of(given)
    named = None if model is None else named_model(model, place.store)
    wanted = split_of(dataset, split, "test")
    stages = searching_stages(wanted, depth, backend, candidates)
    plan = place.recipe("search", named_dataset(dataset, place.store), stages, named).plan()
    made = place.make(plan).artifacts
    source = TextSource.of(made["dataset"], wanted, place.store)
    return run_of(backend or model_name(model), made[SEARCHED], source)


def check_searched(by_model: bool, backend: str | None, candidates: str | None) -> None:
    """Refuses a search of nothing, or of two things. Raises UsageError."""
    if by_model == (backend is not None):
        raise UsageError("search: give --dataset NAME, and --model NAME or --backend NAME, one of them")
    if candidates is not None and not by_model:
        raise UsageError("search: --candidates are ranked by a model: give --model NAME")


def rerank(
    dataset: Dataset,
    run: AnyRun,
    reranker: str | Mapping[str, Any],
    *,
    split: str | None = None,
    depth: int = 100,
    **where: Unpack[Where],
) -> FoundRun:
    """Scores the best documents of a run anew, query and document together.

    Args:
        dataset: a name, a folder, a `datasets.Dataset` or dicts.
        run: what a search found, a TREC run, or `{query_id: {doc_id: score}}`.
        reranker: `cross-encoder:FOLDER` or `cross-encoder:HUB-ID`, or a dict of its options with its `name`.
        split: whose queries; `test`, or the only one of a dataset in memory.
        depth: how many documents of each query to score.
        where: what every function takes (`Where`).
    """
    place, wanted = Workplace.of(where), split_of(dataset, split, "test")
    setting = reranker_setting(reranker, {}) if isinstance(reranker, str) else dict(reranker)
    stages = reranking_stages(setting, wanted, depth)
    plan = place.recipe("rerank", named_dataset(dataset, place.store), stages).plan()
    read = make_dataset(plan, place)
    made, facts = make_from(plan, RERANKED, read, {"run": run_file(run, place.store)}, place)
    found = run_of(str(setting.get("source", setting["name"])), made, TextSource.of(read, wanted, place.store))
    return replace(found, facts=facts)


class TrainingOptions(Where, total=False):
    """What `train` takes besides.

    miner: a miner's name, or a dict of its options with its `name`; topk. depth: how many documents to search for each
    query; 210. split: whose queries; train.
    """

    miner: str | Mapping[str, Any]
    depth: int
    split: str


def train(
    dataset: Dataset,
    model: Model,
    *,
    loss: str | Mapping[str, Any] = "star",
    options: Mapping[str, Any] | None = None,
    **given: Unpack[TrainingOptions],
) -> TrainedModel:
    """Trains a model on negatives that it mines first.

    Args:
        dataset: a name, a folder, a `datasets.Dataset` or dicts.
        model: the model to begin with.
        loss: its name, or a dict of its options with its `name`.
        options: of training, such as `{"max_steps": 200}`.
        given: `TrainingOptions`, and what every function takes (`Where`).
    """
    own = taken(given, TrainingOptions)
    place = Workplace.of(given)
    mining = mining_stage(own.get("miner", "topk"), split_of(dataset, own.get("split"), "train"))
    named = named_model(model, place.store)
    stages = training_stages(mining, own.get("depth", 210), loss, options or {})
    plan = place.recipe("train", named_dataset(dataset, place.store), stages, named).plan()
    made = place.make(plan).artifacts[TRAINED]
    return TrainedModel(f"{model_name(model)}-{TRAINED}", made.key, made.path / MODEL_FOLDER, made.facts)
