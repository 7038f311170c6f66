"""`index`: an index over the texts of a corpus, or over what a model made of them."""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from hardneg.api.adhoc_recipe import ENCODED
from hardneg.lines.base import Argument, Arguments, Job, Line, Of
from hardneg.lines.shared_arguments import DATASET, optional
from hardneg.records.errors import UsageError
from hardneg.records.named_plugins import BM25

if TYPE_CHECKING:
    from hardneg.api.results import BuiltIndex
    from hardneg.api.workplace import Workplace


class IndexLine(Line):
    """Index the texts of a corpus, or a model's vectors of them; Pyserini's searchers open most of these.

    Raises:
        UsageError: the backend is built from the other of the two, or from something else than the folder holds.

    Example: hardneg index build --dataset beir:FOLDER --backend bm25 --output lucene

    Example: hardneg index build --vectors index --backend opq-pq --option subvectors=48 --output small
    """

    name = "index"
    words = "index build"
    returns = "BuiltIndex"
    shows = ("settings", "store")
    counts: ClassVar = {"passages": ("passage", "passages"), "bytes": ("byte", "bytes")}
    unsaid = ("segments",)
    arguments = (
        optional(DATASET),
        Of("index.backend", default=BM25),
        Argument(
            "vectors",
            "For an index over vectors or weights: the folder they are in.",
            "str | Path | BuiltIndex | None",
            None,
            form=Path,
            objects="what `encode` returned",
        ),
    )

    def job(self, args: Arguments, workplace: "Workplace") -> Job:
        """One stage, or the work of a backend on a folder."""
        from hardneg.api.argument_values import file_path

        vectors = None if args.vectors is None else file_path(args.vectors, "vectors")
        _check(args.backend["name"], args.dataset is not None, vectors)
        if vectors is not None:
            return Job(None, partial(_compressed, args), [vectors])
        return Job(self.recipe(args, workplace, {ENCODED: args.of("index")}), partial(_result, args))


def _result(args: Arguments, plan: Any, workplace: "Workplace") -> "BuiltIndex":
    from hardneg.api.results import built_index

    return built_index(args.backend["name"], workplace.make(plan).artifacts[ENCODED])


def _compressed(args: Arguments, plan: None, workplace: "Workplace") -> "BuiltIndex":
    """An index over vectors, in the store under what it was made of."""
    from hardneg.api.content_store import keep_result
    from hardneg.api.results import BuiltIndex, built_index
    from hardneg.formats.vectors.shards import index_bytes
    from hardneg.records.types import PluginSetting
    from hardneg.registry.plugins import configure, plugin_errors
    from hardneg.store.digest import Content, tree_digest
    from hardneg.store.identity import plugin_identity

    vectors, name = args.vectors, args.backend["name"]
    plugin = configure(
        "indexes", PluginSetting(name, {key: args.backend[key] for key in args.backend if key != "name"})
    )
    key = vectors.key if isinstance(vectors, BuiltIndex) else ""
    content = Content.of(lambda: key or tree_digest(Path(vectors)))
    identity = plugin_identity(name, plugin)
    origin = {"stage": "compressed", "plugins": identity, "inputs": {"vectors": content.digest}, "name": "compressed"}

    def make(folder: Path) -> dict[str, int]:
        with plugin_errors([plugin]):
            count = plugin.build(Path(vectors), folder, workplace.progress)
        content.check()
        return {"passages": count, "bytes": index_bytes(folder)}

    return built_index(name, keep_result(workplace.store, "index", origin, make))


def _check(backend: str, texts: bool, vectors: Path | None) -> None:
    """Refuses what an index of a kind is not built from. Raises UsageError."""
    from hardneg.indexes.open_store import form_in
    from hardneg.registry.plugins import load_plugin

    takes = load_plugin("indexes", backend).input
    if texts == (vectors is not None) or (takes == "texts") != texts:
        wanted = "{dataset}" if takes == "texts" else f"{{vectors}}, a folder of {takes}"
        problem = f"index build: {backend} is built from {takes}: give {wanted}, and that alone"
        raise UsageError(problem, "dataset", "vectors")
    if vectors is not None and (form := form_in(vectors)) != takes:
        problem = f"holds {form}" if form else "is no folder that `hardneg encode` or `hardneg index import` wrote"
        raise UsageError(
            f"index build: {vectors} {problem}, and {backend} is built from {takes}: name a folder of {takes}"
        )
