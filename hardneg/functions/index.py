"""`encode` and `index`: a corpus as vectors, and an index over its texts or over what a model made of them."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Unpack

from hardneg.functions import arguments, given, results
from hardneg.functions.session import ENCODED, Session
from hardneg.records import errors, named_plugins, types
from hardneg.registry import configure, load_plugin, plugin_errors
from hardneg.store.digest import Content, tree_digest
from hardneg.store.identity import plugin_identity

Vectors = Annotated[
    str | Path | Any,
    arguments.Arg("For an index over vectors or weights: the folder they are in.", "what `encode` returned", cli=Path),
]
_BACKEND = arguments.Arg("The kind of index; `hardneg plugins list indexes` shows them.", plugin="indexes")


@arguments.spelled_out
def encode(dataset: arguments.Dataset, model: arguments.Model, **where: Unpack[arguments.Where]) -> results.BuiltIndex:
    """Encode a corpus into a dense index that Pyserini's FaissSearcher opens.

    Example: hardneg encode --dataset beir:FOLDER --model NAME --output index
    """
    session = Session.of(where, encode)
    plan = session.begin(session.recipe(encode, dataset, model, {ENCODED: arguments.stage("encode", {})}))
    return results.BuiltIndex.of(given.model_name(model), session.artifacts(plan)[ENCODED])


@arguments.spelled_out
def index(
    dataset: arguments.Dataset | None = None,
    backend: Annotated[arguments.Setting, _BACKEND] = named_plugins.BM25,
    *,
    vectors: Vectors | None = None,
    **where: Unpack[arguments.Where],
) -> results.BuiltIndex:
    """Index the texts of a corpus, or a model's vectors of them; Pyserini's searchers open most of these.

    Raises:
        UsageError: the backend is built from the other of the two, or from something else than the folder holds.

    Example: hardneg index build --dataset beir:FOLDER --backend bm25 --output lucene

    Example: hardneg index build --vectors index --backend opq-pq --option subvectors=48 --output small
    """
    session, built = Session.of(where, index), arguments.stage("index", {"backend": backend})
    setting, folder = built["backend"], None if vectors is None else arguments.file_path(vectors, "vectors")
    name, takes = setting["name"], load_plugin("indexes", setting["name"]).input
    if (dataset is None) == (folder is None) or (takes == "texts") != (dataset is not None):
        wanted = "{dataset}" if takes == "texts" else f"{{vectors}}, a folder of {takes}"
        problem = f"index build: {name} is built from {takes}: give {wanted}, and that alone"
        raise errors.UsageError(problem, "dataset", "vectors")
    if folder is not None:
        return _of_vectors(setting, folder, vectors.key if isinstance(vectors, results.BuiltIndex) else "", session)
    plan = session.begin(session.recipe(index, dataset, None, {ENCODED: built}))
    return results.BuiltIndex.of(name, session.artifacts(plan)[ENCODED])


def _of_vectors(setting: Mapping[str, Any], vectors: Path, key: str, session: Session) -> results.BuiltIndex:
    """An index over vectors, in the store under what it was made of; key: of an artifact that they are."""
    from hardneg.formats.vectors.shards import index_bytes
    from hardneg.indexes.open_store import form_in

    name, options = setting["name"], {key: value for key, value in setting.items() if key != "name"}
    plugin: Any = configure("indexes", types.PluginSetting(name, options))
    if (form := form_in(vectors)) != plugin.input:
        problem = f"holds {form}" if form else "is no folder that `hardneg encode` or `hardneg index import` wrote"
        wanted = f"and {name} is built from {plugin.input}: name a folder of {plugin.input}"
        raise errors.UsageError(f"index build: {vectors} {problem}, {wanted}")
    session.begin(None, [vectors])
    content = Content.of(lambda: key or tree_digest(vectors))
    identity = plugin_identity(name, plugin)
    origin = {"stage": "compressed", "plugins": identity, "inputs": {"vectors": content.digest}, "name": "compressed"}

    def make(folder: Path) -> dict[str, int]:
        with plugin_errors([plugin]):
            count = plugin.build(vectors, folder, session.progress)
        content.check()
        return {"passages": count, "bytes": index_bytes(folder)}

    return results.BuiltIndex.of(name, given.keep_result(session.store, "index", origin, make))
