"""`hardneg.encode`, `index`, `search`, `rerank` and `train`: one stage and what it needs."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Unpack

from hardneg.api.adhoc_recipe import ENCODED, SEARCHED, TRAINED, mining_stage, searching_stages, training_stages
from hardneg.api.content_store import keep_content, keep_made
from hardneg.api.given_dataset import Dataset, named_dataset, split_of
from hardneg.api.given_model import Model, model_name, named_model
from hardneg.api.given_values import file_path, mapping_of, plugin_setting
from hardneg.api.given_vectors import GivenVectors, named_vectors
from hardneg.api.results import BuiltIndex, FoundRun, TextSource, TrainedModel, run_of
from hardneg.api.workplace import Where, Workplace, taken
from hardneg.digest import tree_digest
from hardneg.errors import UsageError
from hardneg.indexes.stored import form_in
from hardneg.layout import MODEL_FOLDER, RUN
from hardneg.registry import configure, load_plugin, plugin_errors
from hardneg.store.identity import plugin_identity
from hardneg.types import PluginSetting


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


def index(
    dataset: Dataset | None = None,
    backend: str | Mapping[str, Any] = "bm25",
    *,
    vectors: str | Path | BuiltIndex | None = None,
    **where: Unpack[Where],
) -> BuiltIndex:
    """Indexes the texts of a corpus, or what a model made of them.

    Args:
        dataset: for an index over texts: a name, a folder, a `datasets.Dataset` or dicts.
        backend: a kind of index, or a dict of its options with its `name`.
        vectors: for one over vectors or weights: what `encode` returned, or such a folder.
        where: what every function takes (`Where`).

    Raises:
        UsageError: the backend is built from the other of the two, or from something else than the folder holds.
    """
    place = Workplace.of(where)
    setting = plugin_setting("backend", backend)
    check_built_from(setting["name"], dataset is not None, None if vectors is None else file_path(vectors, "vectors"))
    if vectors is not None:
        return _compressed(vectors, setting, place)
    stages = {ENCODED: {"stage": "index", "backend": setting}}
    made = place.make(place.recipe("index", named_dataset(dataset, place.store), stages).plan()).artifacts[ENCODED]
    return BuiltIndex(str(setting["name"]), made.key, made.path, made.facts)


def _compressed(vectors: str | Path | BuiltIndex, setting: Mapping[str, Any], place: Workplace) -> BuiltIndex:
    """An index over vectors, in the store under what it was made of."""
    options = {name: value for name, value in setting.items() if name != "name"}
    plugin = configure("indexes", PluginSetting(str(setting["name"]), options))
    content = vectors.key if isinstance(vectors, BuiltIndex) and vectors.key else tree_digest(Path(vectors))
    identity = plugin_identity(str(setting["name"]), plugin)
    origin = {"stage": "compressed", "plugins": identity, "inputs": {"vectors": content}, "name": "compressed"}

    def make(folder: Path) -> Mapping[str, int]:
        with plugin_errors([plugin]):
            return {"passages": plugin.build(Path(vectors), folder, place.progress)}

    made = keep_made(place.store, "index", origin, make)
    return BuiltIndex(str(setting["name"]), made.key, made.path, made.facts)


def check_built_from(backend: str, texts: bool, vectors: Path | None) -> None:
    """Refuses what an index of a kind is not built from. Raises UsageError."""
    takes = load_plugin("indexes", backend).input
    if texts == (vectors is not None) or (takes == "texts") != texts:
        wanted = "--dataset NAME" if takes == "texts" else f"--vectors FOLDER, one of {takes}"
        raise UsageError(f"index build: {backend} is built from {takes}: give {wanted}, and that alone")
    if vectors is not None and (found := form_in(vectors)) != takes:
        told = f"holds {found}" if found else "is no folder that `hardneg encode` or `hardneg index import` wrote"
        raise UsageError(
            f"index build: {vectors} {told}, and {backend} is built from {takes}: name a folder of {takes}"
        )


class SearchOptions(Where, total=False):
    """What `search` takes besides.

    backend: an index over texts instead of a model, such as `bm25`. candidates: with a model, an index over texts whose
    best documents alone are ranked. index, query_vectors, query_ids: instead of all that, a folder of vectors, and
    files of those of the queries, as other programs made them.
    """

    backend: str
    candidates: str
    index: str | Path | BuiltIndex
    query_vectors: str | Path
    query_ids: str | Path


def search(
    dataset: Dataset | None = None,
    model: Model | None = None,
    *,
    split: str | None = None,
    depth: int = 100,
    **given: Unpack[SearchOptions],
) -> FoundRun:
    """Searches a corpus for the queries of one split, or an index for vectors of queries.

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
    place, backend, candidates = Workplace.of(given), own.get("backend"), own.get("candidates")
    if vectors := named_vectors("search", own):
        check_alone([dataset, model, backend, candidates])
        return _given(vectors, depth, place)
    check_searched(dataset is not None, model is not None, backend, candidates)
    named = None if model is None else named_model(model, place.store)
    wanted = split_of(dataset, split, "test")
    stages = searching_stages(wanted, depth, backend, candidates)
    plan = place.recipe("search", named_dataset(dataset, place.store), stages, named).plan()
    made = place.make(plan).artifacts
    source = TextSource.of(made["dataset"], wanted, place.store)
    return run_of(backend or model_name(model), made[SEARCHED], source)


def _given(vectors: GivenVectors, depth: int, place: Workplace) -> FoundRun:
    """What an index has for given vectors."""
    made = keep_content(
        place.store, "given-run", lambda folder: vectors.write_run(folder / RUN, depth, place.device, place.progress)
    )
    return FoundRun(vectors.queries.stem, made.key, made.path / RUN, made.facts, place.store, None)


def check_alone(others: Sequence[Any]) -> None:
    """Refuses what goes with vectors of queries. Raises UsageError."""
    if any(each is not None for each in others):
        raise UsageError("search: --index and --query-vectors are all that is read: leave the others out")


def check_searched(of_dataset: bool, by_model: bool, backend: str | None, candidates: str | None) -> None:
    """Refuses a search of nothing, or of two things. Raises UsageError."""
    if not of_dataset or by_model == (backend is not None):
        raise UsageError("search: give --dataset NAME, and --model NAME or --backend NAME, one of them")
    if candidates is not None and not by_model:
        raise UsageError("search: --candidates are ranked by a model: give --model NAME")


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
    stages = training_stages(mining, own.get("depth", 210), loss, mapping_of("options", options or {}))
    plan = place.recipe("train", named_dataset(dataset, place.store), stages, named).plan()
    made = place.make(plan).artifacts[TRAINED]
    return TrainedModel(f"{model_name(model)}-{TRAINED}", made.key, made.path / MODEL_FOLDER, made.facts)
