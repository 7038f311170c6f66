"""`hardneg encode`, `index`, `search` and `train`: one stage and what it needs, published as plain files."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from hardneg.api.adhoc_recipe import (
    ENCODED,
    SEARCHED,
    TRAINED,
    AdhocRecipe,
    mining_stage,
    searching_stages,
    training_stages,
)
from hardneg.atomic_write import replacing_folder
from hardneg.cli import completion, options
from hardneg.cli.adhoc_recipe import Place, plugin_options, publish
from hardneg.cli.console import bars, say
from hardneg.cli.engines import ENGINE, ENGINE_OPTION, place_of
from hardneg.cli.outputs import check_run, store_outputs
from hardneg.errors import PartDone, UsageError
from hardneg.layout import MODEL_FOLDER, RUN
from hardneg.outputs import Outputs, Target
from hardneg.wording import counted

if TYPE_CHECKING:
    from hardneg.api.given_vectors import GivenVectors
    from hardneg.types import PluginSetting

_INDEXES = completion.plugins("indexes")
_BUILD = "index build"

_IN_SHARDS = "In shards"
SHARDS = typer.Option(None, min=1, help="Write the index in so many shards.", rich_help_panel=_IN_SHARDS)
SHARD_ROWS = typer.Option(None, min=1, help="Or in shards of so many rows each.", rich_help_panel=_IN_SHARDS)
PLACE = typer.Option(None, "--place", help="A URL to put the shards at: s3, gs, hf, file.", rich_help_panel=_IN_SHARDS)
TAKE = typer.Option(
    None, help="Make these alone, such as 0:4; other machines make the others.", rich_help_panel=_IN_SHARDS
)

index_app = typer.Typer(
    help="Indexes over texts and over vectors, and dense ones from vectors that other programs made.",
    no_args_is_help=True,
)


def encode(
    dataset: str = options.DATASET,
    model: str = options.MODEL,
    output: Path = options.OUTPUT_FOLDER,
    overwrite: bool = options.OVERWRITE,
    settings: list[str] = options.SET,
    store: Path | None = options.STORE,
    device: str | None = options.DEVICE,
    processes: int | None = options.PROCESSES,
    engine: str = ENGINE,
    engine_option: list[str] = ENGINE_OPTION,
    shards: int | None = SHARDS,
    shard_rows: int | None = SHARD_ROWS,
    place_url: str | None = PLACE,
    take: str | None = TAKE,
) -> None:
    """Encode a corpus into a dense index that Pyserini's FaissSearcher opens.

    Example: hardneg encode --dataset beir:FOLDER --model NAME --output index

    Example: hardneg encode --dataset D --model M --shards 8 --place s3://bucket/index --take 0:4 --output index
    """
    given = {"shards": shards, "shard_rows": shard_rows, "place": place_url, "take": take}
    stage = {"stage": "encode", **{name: value for name, value in given.items() if value is not None}}
    recipe = AdhocRecipe("encode", dataset, {ENCODED: stage}, model, settings)
    place = place_of(store, device, processes, engine, engine_option)
    try:
        publish(recipe, ENCODED, output, place, overwrite=overwrite)
    except PartDone as done:
        say(str(done))


def search(
    dataset: str | None = options.DATASET_OR_OTHER,
    model: str | None = options.MODEL_OR_OTHER,
    backend: str | None = typer.Option(
        None, help="An index over texts instead of a model, such as bm25.", autocompletion=_INDEXES
    ),
    index: Path | None = options.INDEX_GIVEN,
    query_vectors: Path | None = options.QUERY_VECTORS,
    query_ids: Path | None = options.QUERY_IDS,
    split: str = options.TEST_SPLIT,
    depth: int = typer.Option(100, min=1, help="How many documents for each query."),
    candidates: str | None = typer.Option(
        None, help="An index over texts, such as bm25: rank only its best documents.", autocompletion=_INDEXES
    ),
    output: Path = options.OUTPUT_RUN,
    overwrite: bool = options.OVERWRITE,
    settings: list[str] = options.SET,
    store: Path | None = options.STORE,
    device: str | None = options.DEVICE,
    processes: int | None = options.PROCESSES,
    engine: str = ENGINE,
    engine_option: list[str] = ENGINE_OPTION,
) -> None:
    """Search a corpus for the queries of one split and write a TREC run; or an index, for vectors of queries.

    Example: hardneg search --dataset beir:FOLDER --model NAME --split test --output run.trec.gz

    Example: hardneg search --index FOLDER --query-vectors queries.parquet --output run.trec.gz
    """
    from hardneg.api.given_vectors import given_vectors
    from hardneg.api.searching import check_searched

    if given := given_vectors("search", index, query_vectors, query_ids):
        return _search_given(given, (dataset, model, backend, candidates), output, depth, device, overwrite)
    check_searched(dataset is not None, model is not None, backend, candidates)
    check_run(output)
    stages = searching_stages(split, depth, backend, candidates)
    place = place_of(store, device, processes, engine, engine_option)
    publish(AdhocRecipe("search", str(dataset), stages, model, settings), SEARCHED, output, place, RUN, overwrite)


def _search_given(
    given: "GivenVectors", others: Sequence[str | None], output: Path, depth: int, device: str | None, overwrite: bool
) -> None:
    from hardneg.api.searching import check_alone

    check_alone(others)
    check_run(output)
    outputs = store_outputs("search", [Target(output)], given.reads, overwrite)
    outputs.check()
    with outputs.laid_out():
        count = given.write_run(output, depth, device, bars())
    say(f"{output}: {counted(count, 'query')}")


def train(
    dataset: str = options.DATASET,
    model: str = options.MODEL,
    miner: str = options.MINER,
    option: list[str] = options.MINER_OPTION,
    loss: str = typer.Option(
        "star", help="A loss; `hardneg plugins list` shows them.", autocompletion=completion.plugins("losses")
    ),
    train_option: list[str] = options.key_values("One of training, such as max_steps=200."),
    split: str = options.TRAIN_SPLIT,
    depth: int = options.MINED_DEPTH,
    output: Path = options.OUTPUT_FOLDER,
    overwrite: bool = options.OVERWRITE,
    settings: list[str] = options.SET,
    store: Path | None = options.STORE,
    device: str | None = options.DEVICE,
    processes: int | None = options.PROCESSES,
) -> None:
    """Train a model on negatives that it mines first; SentenceTransformer(FOLDER) opens the result.

    Example: hardneg train --dataset beir:FOLDER --model NAME --train-option max_steps=500 --output model
    """
    mining = mining_stage({"name": miner, **plugin_options(option)}, split)
    stages = training_stages(mining, depth, loss, plugin_options(train_option))
    recipe = AdhocRecipe("train", dataset, stages, model, settings)
    publish(recipe, TRAINED, output, Place(store, device, processes), MODEL_FOLDER, overwrite)


@index_app.command()
def build(
    dataset: str | None = typer.Option(
        None, help="For an index over texts: as in the other commands.", autocompletion=completion.plugins("datasets")
    ),
    vectors: Path | None = typer.Option(
        None, "--vectors", help="For one over vectors or weights: the folder they are in."
    ),
    backend: str = typer.Option(
        "bm25", help="The kind of index; `hardneg plugins list indexes` shows them.", autocompletion=_INDEXES
    ),
    option: list[str] = options.key_values("An option of the index, such as k1=1.2."),
    output: Path = options.OUTPUT_FOLDER,
    overwrite: bool = options.OVERWRITE,
    settings: list[str] = options.SET,
    store: Path | None = options.STORE,
) -> None:
    """Index the texts of a corpus, or what a model made of them; Pyserini's searchers open most of these.

    Example: hardneg index build --dataset beir:FOLDER --backend bm25 --output lucene

    Example: hardneg index build --vectors index --backend opq-pq --option subvectors=48 --output small
    """
    from hardneg.api.searching import check_built_from
    from hardneg.types import PluginSetting

    setting = PluginSetting(backend, plugin_options(option))
    check_built_from(backend, dataset is not None, vectors)
    if vectors is not None:
        _compress(vectors, setting, store_outputs(_BUILD, [Target(output, folder=True)], [vectors], overwrite))
        return
    stage = {"stage": "index", "backend": {"name": backend, **setting.options}}
    recipe = AdhocRecipe(_BUILD, str(dataset), {ENCODED: stage}, settings=settings)
    publish(recipe, ENCODED, output, Place(store), overwrite=overwrite)


def _compress(source: Path, setting: "PluginSetting", outputs: Outputs) -> None:
    from hardneg.data.shards import index_bytes
    from hardneg.registry import configure, plugin_errors

    plugin = configure("indexes", setting)
    with _aside(outputs) as folder, plugin_errors([plugin]):
        count = plugin.build(source, folder, bars())
    output = outputs.targets[0].path
    what = "vector" if plugin.input == "vectors" else "document"
    say(f"{output}: {counted(count, what)} in {counted(index_bytes(output), 'byte')}")


@index_app.command("import")
def import_(
    output: Path = options.OUTPUT_FOLDER,
    overwrite: bool = options.OVERWRITE,
    vectors: Path | None = typer.Option(
        None, "--vectors", help="A .npy array, one row a vector, with --ids; or Parquet with an id and a list a row."
    ),
    ids: Path | None = typer.Option(None, "--ids", help="The document ids, one a line, in the order of the rows."),
    embeddings: Path | None = typer.Option(None, "--embeddings", help="Pyserini's embeddings.jsonl instead."),
) -> None:
    """Stream vectors into a flat index that Pyserini's FaissSearcher opens.

    Example: hardneg index import --vectors vectors.npy --ids ids.txt --output index

    Example: hardneg index import --vectors vectors.parquet --output index
    """
    from hardneg.data.vector_files import open_vectors
    from hardneg.data.vectors_import import import_vectors

    source = vectors or embeddings
    if source is None or (embeddings is not None and (vectors is not None or ids is not None)):
        raise UsageError("index import: give --vectors, a .npy array with --ids or Parquet alone, or --embeddings")
    reads = [path for path in (source, ids) if path is not None]
    with _aside(store_outputs("index import", [Target(output, folder=True)], reads, overwrite)) as folder:
        file = open_vectors(source, ids)
        count = import_vectors(file, folder, bars())
    say(f"{output}: {counted(count, 'vector')} of dimension {file.dimension}")


@contextmanager
def _aside(outputs: Outputs) -> Iterator[Path]:
    """A folder to write, which becomes the output at the end of the block; where that fails, nothing is left of it.

    Raises:
        UsageError: the output is there already, and is not this command's own.
    """
    outputs.check()
    with outputs.laid_out(), replacing_folder(outputs.targets[0].path) as aside:
        yield aside
