"""The lines of Python that open an index, or those of a run folder, in Pyserini, or the reason why there are none."""

import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from hardneg.encoders.open.contract import overrides
from hardneg.encoders.open.model_card import (
    IMPACT_SCALE,
    ROUNDED,
    ModelReference,
    Program,
    dense_encoder,
    quoted,
    sparse_encoder,
)
from hardneg.encoders.open.model_files import sides
from hardneg.encoders.open.resolved import FolderFamily, ResolvedModel, load_encoder, resolve
from hardneg.encoders.spec import ModelSpec
from hardneg.formats.segments import DELIMITER
from hardneg.indexes.kernels.lucene import find_java, starts_alone
from hardneg.indexes.open_store import form_in
from hardneg.recipes.laid_indexes import laid_indexes
from hardneg.records import errors, layout, types, wording
from hardneg.store import Store

if TYPE_CHECKING:
    from hardneg.encoders.encoder import Encoder

_HITS = 'hits = searcher.search("a question", k=10)'
_VECTORS = "hits = searcher.search(vector, k=10)  # of numpy, [1, dimension]"
_DENSE = "from pyserini.search.faiss import FaissSearcher"
_LUCENE = "from pyserini.search.lucene import LuceneSearcher"
_IMPACT = "from pyserini.search.lucene import LuceneImpactSearcher"
_NONE = {
    "weights": "weights of terms as hardneg stores them; build the index `impact` of them, which Pyserini opens",
    "token-vectors": "a vector a token, which Pyserini has no index for; hardneg searches it",
}


@dataclass(frozen=True)
class QuerySide:
    """The query encoder of an index: the opened model and its location; or, without one, the reason."""

    encoder: "Encoder | None" = None
    location: ModelReference = field(default_factory=lambda: ModelReference(""))
    reason: str = "no model is named: name the one that encoded the index"

    def program(self, form: str, scale: float = 1.0) -> Program | None:
        """The lines that make an encoder of its queries; None where Pyserini has none for it."""
        if self.encoder is None or self.encoder.representation.form != form:
            return None
        return dense_encoder(self.encoder, self.location) if form == "vectors" else sparse_encoder(self.location, scale)

    @property
    def lacking(self) -> str:
        """The reason without such lines."""
        return self.reason if self.encoder is None else self.location.lacking or "the model is not of the index's kind"


def form_of(folder: Path) -> str:
    """The form of an index folder: `lucene`, `impacts`, `vectors`, `weights` or `token-vectors`.

    Raises:
        ArtifactError: it holds no index.
    """
    if any(folder.glob("segments_*")):
        return "impacts" if (folder / layout.TERMS).exists() else "lucene"
    if form := form_in(folder):
        return form
    if any(folder.glob("*.npy")):
        return "token-vectors"
    raise errors.ArtifactError(
        f"{folder}: no index; name a run folder, or a folder of `hardneg encode` or `hardneg index`"
    )


def opening(folder: Path, options: Mapping[str, object], queries: QuerySide, segments: bool = False) -> str:
    """The lines that open an index folder in Pyserini and search it; a line after `#` where it cannot.

    options: those of the index by name, such as `scale` or `k1`. segments: whether documents have several vectors.

    Raises:
        ArtifactError: it holds no index.
    """
    form, named = form_of(folder), quoted(str(folder))
    if form == "lucene":
        lines = [f"searcher = LuceneSearcher({named})"]
        lines += [f"searcher.set_bm25({options['k1']}, {options['b']})"] if {"k1", "b"} <= options.keys() else []
        language = str(options.get("language", "en"))
        lines += [f"searcher.set_language({quoted(language)})"] if language != "en" else []
        return Program().then(_LUCENE, *lines, _HITS).text()
    if form == "impacts":
        scale = float(str(options.get("scale", IMPACT_SCALE)))
        if (program := queries.program("weights", scale)) is None:
            return f"# {folder}: {queries.lacking}"
        searcher = f"searcher = LuceneImpactSearcher({named}, encoder, min_idf=-1)"
        return program.then(_IMPACT, searcher, f"{_HITS}  # scores are {scale:g} * {scale:g} times hardneg's").text()
    if form != "vectors":
        return f"# Pyserini does not open {folder}: {_NONE[form]}"
    if (program := queries.program("vectors")) is None:
        alone = Program().then(_DENSE, f"searcher = FaissSearcher({named}, None)", _VECTORS)
        return f"# {folder}: {queries.lacking}\n{alone.text()}"
    lines = [*_OF_SEGMENTS] if segments else [_HITS]
    return program.then(_DENSE, f"searcher = FaissSearcher({named}, encoder)", *lines).text()


_OF_SEGMENTS = (
    f'segments = searcher.search("a question", k=100)  # ids such as D1{DELIMITER}0; a document counts by its best',
    "hits = {}",
    "for segment in segments:",
    f'    hits.setdefault(segment.docid.rpartition("{DELIMITER}")[0], segment.score)',
)


def model_location(model: ResolvedModel) -> ModelReference:
    """The location of a model, and the settings that its folder lacks."""
    spec, full, folder, family = model.spec, model.full, model.folder, model.family
    if folder is None or not isinstance(family, FolderFamily):
        return ModelReference(spec.name, lacking=f"no files of the model {spec.name!r} are here")
    on_hub = types.HUB_ID.fullmatch(spec.name) and spec.revision is None and not Path(spec.name).expanduser().is_dir()
    name = spec.name if on_hub else str(folder)
    first = sides(folder)["query"][0]
    transformer = name if first == folder else str(first)
    if (folder / layout.SPEC_FILE).is_file():
        return ModelReference(name, transformer)
    others = overrides(full, model.contract)
    if not family.opens_alone(folder, others.keys()):
        plain = asdict(ModelSpec(""))
        settings = {name: value for name, value in asdict(spec).items() if value != plain[name]}
        path = Path(spec.name).expanduser()
        return ModelReference(name, spec={**settings, "name": str(path.absolute())} if path.is_dir() else settings)
    options: dict[str, object] = {"prompts": {"query": full.query_prompt}} if "query_prompt" in others else {}
    options |= {"truncate_dim": full.truncate_dim} if "truncate_dim" in others else {}
    options |= {ROUNDED: {"dtype": "float32"}} if model.contract.dtype != "float32" else {}
    lengths = {"max_seq_length": full.query_length} if "query_length" in others else {}
    lacking = others.keys() | ({"head of masked words"} if family.remarks(folder) else set())
    added = [name for name in ("projection", "layer_norm", "adapter", "twins") if getattr(spec, name)]
    added += [name for name in ("pooling", "head of masked words") if name in lacking]
    added += ["token types"] if full.typed else []
    additions = f"{', '.join(added)}, which the folder of the model {spec.name!r} lacks"
    why = f"hardneg adds {additions}: only query vectors can be given" if added else ""
    return ModelReference(name, transformer, options, lengths, why)


def openings(
    folder: Path, store: Store, model: ModelSpec | None = None, options: Mapping[str, object] = MappingProxyType({})
) -> Iterator[tuple[str, str]]:
    """Each index of a run folder, or the one index folder: its name, and its lines.

    model, options: of an index folder alone, the model that encoded it, and what it was built with.

    Raises:
        ArtifactError: there is no index.
        DataError, RecipeError: the lock file of the run folder is damaged, or no recipe of this hardneg's.
        ModelError: a model cannot be opened.
    """
    run = folder.parent if folder.name == layout.INDEX_FOLDER and not (folder / layout.LOCK).exists() else folder
    if not (run / layout.LOCK).exists():
        yield folder.name, opening(folder, options, QuerySide() if model is None else query_side(model))
        return
    laid_out = laid_indexes(run, store)
    if run != folder:
        laid_out = [laid for laid in laid_out if laid.folder == folder]
    if not laid_out:
        raise errors.ArtifactError(f"{folder}: none of its indexes is there: name the right {{store}}", "store")
    opened = {repr(None): QuerySide(reason="it is searched with vectors of another program")}
    for laid in laid_out:
        if laid.model is not None and repr(laid.model) not in opened:
            opened[repr(laid.model)] = query_side(laid.model)
        built_with = {} if laid.backend is None else asdict(laid.backend)
        yield laid.stage, opening(laid.folder, built_with, opened[repr(laid.model)], laid.segments)


def query_side(spec: ModelSpec) -> QuerySide:
    """The opened model of a spec. Raises ModelError where it cannot be opened."""
    from hardneg.encoders.encoder import Encoder

    encoder = load_encoder(spec, "cpu", "fp32")
    if not isinstance(encoder, Encoder):
        return QuerySide(reason=f"Pyserini has no class for the model {spec.name!r}: give query vectors")
    return QuerySide(encoder, model_location(resolve(spec, fetch=True)))


_VECTOR = "searcher.search(vector"


def with_java(text: str) -> str:
    """The lines, after those that start Java where Pyserini would start none that fits.

    Raises:
        MissingDependency: there is none that fits.
    """
    if "searcher = " not in text or starts_alone():
        return text
    java = find_java()
    return f"from hardneg.plugin import start_java\n\nstart_java()  # Java {java.version} in {java.home}\n\n{text}"


def check(text: str) -> str | None:
    """Run the lines of an index and return the outcome, which begins with `fails` where they do; None without lines."""
    if "searcher = " not in text:
        return None
    lines = [line for line in text.splitlines() if _VECTOR not in line]
    lines.append("print(len(hits))" if _VECTOR not in text else "print(end='')")
    done = subprocess.run([sys.executable, "-c", "\n".join(lines)], capture_output=True, text=True, check=False)
    if done.returncode:
        messages = [line for line in done.stderr.splitlines() if line.strip()]
        return f"fails: {messages[-1].strip() if messages else f'exit code {done.returncode}'}"
    *_, last = done.stdout.split() or [""]
    return f"runs: {wording.counted(int(last), 'hit')}" if last else "opens; not searched, as it takes vectors"
