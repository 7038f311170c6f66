"""`index`: an index over the texts of a corpus, or over what a model made of them."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Unpack

from hardneg.functions.adhoc_recipe import ENCODED
from hardneg.functions.arguments import Arg, Dataset, Setting, Where, spelled_out
from hardneg.records import BM25, PluginSetting, UsageError
from hardneg.store import Content, plugin_identity, tree_digest

if TYPE_CHECKING:
    from hardneg.functions.results import BuiltIndex
    from hardneg.functions.session import Session

Vectors = Annotated[
    str | Path | Any,
    Arg("For an index over vectors or weights: the folder they are in.", "what `encode` returned", cli=Path),
]


@spelled_out
def index(
    dataset: Dataset | None = None,
    backend: Annotated[
        Setting, Arg("The kind of index; `hardneg plugins list indexes` shows them.", plugin="indexes")
    ] = BM25,
    *,
    vectors: Vectors | None = None,
    **where: Unpack[Where],
) -> "BuiltIndex":
    """Index the texts of a corpus, or a model's vectors of them; Pyserini's searchers open most of these.

    Raises:
        UsageError: the backend is built from the other of the two, or from something else than the folder holds.

    Example: hardneg index build --dataset beir:FOLDER --backend bm25 --output lucene

    Example: hardneg index build --vectors index --backend opq-pq --option subvectors=48 --output small
    """
    from hardneg.functions.argument_values import file_path, stage
    from hardneg.functions.results import built_index
    from hardneg.functions.session import Session

    session, built = Session.of(where, index), stage("index", {"backend": backend})
    setting, folder = built["backend"], None if vectors is None else file_path(vectors, "vectors")
    _check(setting["name"], dataset is not None, folder)
    if folder is not None:
        session.begin(None, [folder])
        return _of_vectors(setting, vectors, session)
    plan = session.begin(session.recipe(index, dataset, None, {ENCODED: built}))
    return built_index(setting["name"], session.artifacts(plan)[ENCODED])


def _of_vectors(setting: Mapping[str, Any], vectors: Any, session: "Session") -> "BuiltIndex":
    """An index over vectors, in the store under what it was made of."""
    from hardneg.formats.vectors import index_bytes
    from hardneg.functions.content_store import keep_result
    from hardneg.functions.results import BuiltIndex, built_index
    from hardneg.registry import configure, plugin_errors

    name, options = setting["name"], {key: value for key, value in setting.items() if key != "name"}
    plugin = configure("indexes", PluginSetting(name, options))
    key = vectors.key if isinstance(vectors, BuiltIndex) else ""
    content = Content.of(lambda: key or tree_digest(Path(vectors)))
    identity = plugin_identity(name, plugin)
    origin = {"stage": "compressed", "plugins": identity, "inputs": {"vectors": content.digest}, "name": "compressed"}

    def make(folder: Path) -> dict[str, int]:
        with plugin_errors([plugin]):
            count = plugin.build(Path(vectors), folder, session.progress)
        content.check()
        return {"passages": count, "bytes": index_bytes(folder)}

    return built_index(name, keep_result(session.store, "index", origin, make))


def _check(backend: str, texts: bool, vectors: Path | None) -> None:
    """Refuse what an index of a kind is not built from. Raises UsageError."""
    from hardneg.indexes.open_store import form_in
    from hardneg.registry import load_plugin

    takes = load_plugin("indexes", backend).input
    if texts == (vectors is not None) or (takes == "texts") != texts:
        wanted = "{dataset}" if takes == "texts" else f"{{vectors}}, a folder of {takes}"
        problem = f"index build: {backend} is built from {takes}: give {wanted}, and that alone"
        raise UsageError(problem, "dataset", "vectors")
    if vectors is not None and (form := form_in(vectors)) != takes:
        problem = f"holds {form}" if form else "is no folder that `hardneg encode` or `hardneg index import` wrote"
        wanted = f"and {backend} is built from {takes}: name a folder of {takes}"
        raise UsageError(f"index build: {vectors} {problem}, {wanted}")
