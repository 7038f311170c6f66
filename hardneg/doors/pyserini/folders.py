"""The lines for the indexes of a run folder, or for an index folder by itself."""

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

from hardneg.doors.pyserini.openings import QuerySide, model_location, opening
from hardneg.encoders.open.resolved import load_encoder, resolve
from hardneg.encoders.spec import ModelSpec
from hardneg.recipe.laid_indexes import laid_indexes
from hardneg.records.errors import ArtifactError
from hardneg.records.layout import INDEX_FOLDER, LOCK
from hardneg.store.artifacts import Store

_OF_TEXTS = "it is searched with vectors of another program"


@dataclass(frozen=True)
class Named:
    """The user's settings of an index folder: the model that encoded it, and its options by name."""

    model: ModelSpec | None = None
    options: Mapping[str, object] = field(default_factory=dict)


def openings(folder: Path, store: Store, named: Named) -> Iterator[tuple[str, str]]:
    """Each index of a run folder, or the one index folder: its name, and its lines.

    Raises:
        ArtifactError: there is no index.
        DataError, RecipeError: the lock file of the run folder is damaged, or no recipe of this hardneg's.
        ModelError: a model cannot be opened.
    """
    run = folder.parent if folder.name == INDEX_FOLDER and not (folder / LOCK).exists() else folder
    if not (run / LOCK).exists():
        queries = QuerySide() if named.model is None else query_side(named.model)
        yield folder.name, opening(folder, named.options, queries)
        return
    laid_out = laid_indexes(run, store)
    if run != folder:
        laid_out = [laid for laid in laid_out if laid.folder == folder]
    if not laid_out:
        raise ArtifactError(f"{folder}: none of its indexes is there: name the right {{store}}", "store")
    opened: dict[str, QuerySide] = {}
    for laid in laid_out:
        if laid.model is not None and repr(laid.model) not in opened:
            opened[repr(laid.model)] = query_side(laid.model)
        queries = QuerySide(reason=_OF_TEXTS) if laid.model is None else opened[repr(laid.model)]
        options = {} if laid.backend is None else asdict(laid.backend)
        yield laid.stage, opening(laid.folder, options, queries, laid.segments)


def query_side(spec: ModelSpec) -> QuerySide:
    """The opened model of a spec. Raises ModelError where it cannot be opened."""
    from hardneg.encoders.encoder import Encoder

    encoder = load_encoder(spec, "cpu", "fp32")
    if not isinstance(encoder, Encoder):
        return QuerySide(reason=f"Pyserini has no class for the model {spec.name!r}: give query vectors")
    return QuerySide(encoder, model_location(resolve(spec, fetch=True)))
