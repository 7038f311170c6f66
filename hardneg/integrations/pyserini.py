"""Write Python programs that open indexes in Pyserini, or the reasons why Pyserini cannot open them."""

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import MappingProxyType

from hardneg.encoders.encoder import Encoder
from hardneg.encoders.open import contract, model_card, resolved
from hardneg.encoders.open.model_card import ModelReference, Program, quoted
from hardneg.encoders.spec import ModelSpec
from hardneg.formats.segments import DELIMITER
from hardneg.indexes.lucene import find_java, starts_alone
from hardneg.indexes.open_store import form_in
from hardneg.recipes import published_indexes
from hardneg.records import errors, layout, types
from hardneg.store import Store

_HITS = 'hits = searcher.search("a question", k=10)'
_VECTORS = "hits = searcher.search(vector, k=10)  # a numpy array, [1, dimension]"
_DENSE = "from pyserini.search.faiss import FaissSearcher"
_LUCENE = "from pyserini.search.lucene import LuceneSearcher"
_IMPACT = "from pyserini.search.lucene import LuceneImpactSearcher"
_NONE = {
    "weights": "it has term weights in hardneg's format; build an `impact` index from them for Pyserini",
    "token-vectors": "it has one vector per token, which Pyserini does not support; search it with hardneg",
    "shards": "it is in shards; open each shard separately, or re-encode the corpus into one index",
}
_OF_SEGMENTS = (
    f'segments = searcher.search("a question", k=100)  # ids such as D1{DELIMITER}0; a document has its best score',
    "hits = {}",
    "for segment in segments:",
    f'    hits.setdefault(segment.docid.rpartition("{DELIMITER}")[0], segment.score)',
)


@dataclass(frozen=True)
class QuerySide:
    """The query encoder of an index: the opened model and its location, or the reason why there is no encoder."""

    encoder: Encoder | None = None
    location: ModelReference = field(default_factory=lambda: ModelReference(""))
    reason: str = "no model is given; use the model that encoded the index"

    def program(self, form: str, scale: float = 1.0) -> Program | None:
        """Return a program that creates the encoder; None if its form is not `form` or Pyserini has no class for it."""
        if self.encoder is None or self.encoder.representation.form != form:
            return None
        if form == "vectors":
            return model_card.dense_encoder(self.encoder, self.location)
        return model_card.sparse_encoder(self.location, scale)

    @property
    def lacking(self) -> str:
        """The reason why Pyserini has no query encoder for the model."""
        return self.reason if self.encoder is None else self.location.lacking or "the model does not fit the index"


def opening(folder: Path, options: Mapping[str, object], queries: QuerySide, segments: bool = False) -> str:
    """Return a program that opens and searches an index folder in Pyserini, or a comment on why there is none.

    options: index options by name, such as `scale` or `k1`. segments: whether documents have several vectors.

    Raises:
        ArtifactError: the folder contains no index.
    """
    named = quoted(str(folder))
    if any(folder.glob("segments_*")) and not (folder / layout.TERMS).exists():
        lines = [f"searcher = LuceneSearcher({named})"]
        lines += [f"searcher.set_bm25({options['k1']}, {options['b']})"] if {"k1", "b"} <= options.keys() else []
        language = str(options.get("language", "en"))
        lines += [f"searcher.set_language({quoted(language)})"] if language != "en" else []
        return Program().then(_LUCENE, *lines, _HITS).text()
    if any(folder.glob("segments_*")):
        scale = float(str(options.get("scale", model_card.IMPACT_SCALE)))
        if (program := queries.program("weights", scale)) is None:
            return f"# {folder}: {queries.lacking}"
        searcher = f"searcher = LuceneImpactSearcher({named}, encoder, min_idf=-1)"
        return program.then(_IMPACT, searcher, f"{_HITS}  # scores are {scale:g} * {scale:g} times hardneg's").text()
    form = "shards" if (folder / layout.SHARDS).exists() else form_in(folder)
    form = "token-vectors" if form is None and any(folder.glob("*.npy")) else form
    if form is None:
        wanted = "choose a run folder, or a folder from `hardneg encode` or `hardneg index build`"
        raise errors.ArtifactError(f"{folder}: contains no index; {wanted}")
    if form != "vectors":
        return f"# Pyserini cannot open {folder}: {_NONE[form]}"
    if (program := queries.program("vectors")) is None:
        alone = Program().then(_DENSE, f"searcher = FaissSearcher({named}, None)", _VECTORS)
        return f"# {folder}: {queries.lacking}\n{alone.text()}"
    lines = [*_OF_SEGMENTS] if segments else [_HITS]
    return program.then(_DENSE, f"searcher = FaissSearcher({named}, encoder)", *lines).text()


def model_location(model: resolved.ResolvedModel) -> ModelReference:
    """Return the location of a model, with settings that its folder does not record, or why Pyserini cannot use it."""
    spec, full, folder, family = model.spec, model.full, model.location.folder, model.family
    if folder is None or not isinstance(family, resolved.FolderFamily):
        return ModelReference(spec.name, lacking=f"the files of the model {spec.name!r} are not on this machine")
    on_hub = types.HUB_ID.fullmatch(spec.name) and spec.revision is None and not Path(spec.name).expanduser().is_dir()
    name = spec.name if on_hub else str(folder)
    first = model.files.sides["query"][0]
    transformer = name if first == folder else str(first)
    if (folder / layout.SPEC_FILE).is_file():
        return ModelReference(name, transformer)
    others = contract.overrides(full, model.contract)
    if not family.opens_alone(model.files, others.keys()):
        plain = asdict(ModelSpec(""))
        settings = {name: value for name, value in asdict(spec).items() if value != plain[name]}
        path = Path(spec.name).expanduser()
        return ModelReference(name, spec={**settings, "name": str(path.absolute())} if path.is_dir() else settings)
    options: dict[str, object] = {"prompts": {"query": full.query_prompt}} if "query_prompt" in others else {}
    options |= {"truncate_dim": full.truncate_dim} if "truncate_dim" in others else {}
    options |= {model_card.ROUNDED: {"dtype": "float32"}} if model.contract.dtype != "float32" else {}
    lengths = {"max_seq_length": full.query_length} if "query_length" in others else {}
    lacking = others.keys() | ({"head of masked words"} if family.remarks(model.files) else set())
    added = [name for name in ("projection", "layer_norm", "adapter", "twins") if getattr(spec, name)]
    added += [name for name in ("pooling", "head of masked words") if name in lacking]
    added += ["token types"] if full.typed else []
    additions = f"{', '.join(added)}, which the folder of the model {spec.name!r} does not have"
    why = f"hardneg adds {additions}; pass query vectors" if added else ""
    return ModelReference(name, transformer, options, lengths, why)


def openings(
    folder: Path, store: Store, model: ModelSpec | None = None, options: Mapping[str, object] = MappingProxyType({})
) -> Iterator[tuple[str, str]]:
    """Yield (name, Pyserini program) for each index of a run folder, or for a single index folder.

    model, options: for a single index folder, the encoding model and the build options.

    Raises:
        ArtifactError: no index of the run is in the store, or the folder contains no index.
        DataError, RecipeError: the run's lock file is damaged, or this version of hardneg cannot read its recipe.
        ModelError: a model cannot be opened.
    """
    run = folder.parent if folder.name == layout.INDEX_FOLDER and not (folder / layout.LOCK).exists() else folder
    if not (run / layout.LOCK).exists():
        yield folder.name, opening(folder, options, QuerySide() if model is None else query_side(model))
        return
    published = published_indexes(run, store)
    if run != folder:
        published = [index for index in published if index.folder == folder]
    if not published:
        raise errors.ArtifactError(
            f"{folder}: its indexes are not in this store; set {{store}} to the store of the run", "store"
        )
    opened = {repr(None): QuerySide(reason="its queries were encoded by another program")}
    for index in published:
        if index.model is not None and repr(index.model) not in opened:
            opened[repr(index.model)] = query_side(index.model)
        built_with = {} if index.backend is None else asdict(index.backend)
        yield index.stage, opening(index.folder, built_with, opened[repr(index.model)], index.segments)


def query_side(spec: ModelSpec) -> QuerySide:
    """Open a model on the CPU and return its query side. Raises ModelError if it cannot be opened."""
    encoder = resolved.load_encoder(spec, "cpu", "fp32")
    if not isinstance(encoder, Encoder):
        return QuerySide(reason=f"Pyserini has no class for the model {spec.name!r}; pass query vectors")
    return QuerySide(encoder, model_location(resolved.resolve(spec, fetch=True)))


def with_java(text: str) -> str:
    """Return the program `text`, preceded by code that starts Java if Pyserini would start an unsuitable version.

    Raises:
        MissingDependency: there is no suitable Java.
    """
    if "searcher = " not in text or starts_alone():
        return text
    java = find_java()
    return f"from hardneg.plugin import start_java\n\nstart_java()  # Java {java.version} in {java.home}\n\n{text}"
