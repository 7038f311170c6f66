"""The kind of a model: the one that its spec names, or that its folder says; what is asked of a model goes to it."""

from collections.abc import Set
from pathlib import Path
from typing import TYPE_CHECKING, cast

from hardneg.encoders.adapters.base import based
from hardneg.encoders.configuration import Shape, mapping
from hardneg.encoders.contract import Contract
from hardneg.encoders.folder_kind import FolderKind
from hardneg.encoders.protocol import EncoderKind, TextEncoder
from hardneg.encoders.source import at_hand, fetch
from hardneg.encoders.spec import FullSpec, ModelSpec
from hardneg.encoders.static.files import table_files
from hardneg.errors import ModelError
from hardneg.registry import configure
from hardneg.types import Lookup, PluginSetting

if TYPE_CHECKING:
    from hardneg.encoders.encoder import Encoder
    from hardneg.encoders.fastest import Precision

_CLASSES = {"SparseEncoder": "sparse", "MultiVectorEncoder": "multi-vector", "ColBERT": "multi-vector"}
_STANFORD = "HF_ColBERT"


def kind_of(spec: ModelSpec) -> EncoderKind:
    """The kind that the spec names, or that the model's folder says; `dense` where it is not on this machine.

    Raises:
        PluginError: there is no such kind, or its options are wrong.
    """
    if spec.encoder is not None:
        return cast(EncoderKind, configure("encoders", spec.encoder))
    folder = at_hand(spec)
    if folder is not None and (whole := based(spec, folder)) != spec:
        return kind_of(whole)
    return cast(EncoderKind, configure("encoders", PluginSetting("dense" if folder is None else kind_in(folder))))


def _fetched_kind(spec: ModelSpec) -> EncoderKind:
    """The kind of a model that is fetched now, if need be, so that its own files say it."""
    if spec.encoder is None and at_hand(spec) is None:
        fetch(spec)
    return kind_of(spec)


def certain_kind(spec: ModelSpec) -> EncoderKind | None:
    """The same, where the spec names it or the model is on this machine; None where it cannot be told yet."""
    return None if spec.encoder is None and at_hand(spec) is None else kind_of(spec)


def kind_in(folder: Path) -> str:
    """The name of the kind that a model's folder says it is."""
    try:
        config = mapping(folder / "config_sentence_transformers.json")
        if _STANFORD in (mapping(folder / "config.json").get("architectures") or ()):
            return "multi-vector"
        if table_files(folder) is not None:
            return "static"
    except (ModelError, OSError, LookupError, TypeError):
        return "dense"
    return _CLASSES.get(str(config.get("model_type")), "dense")


def contract_of(spec: ModelSpec, folder: Path) -> Contract | None:
    """What the folder of a model says of it; None for a kind whose models lie elsewhere.

    Raises:
        ModelError: the folder holds no whole model, or is not readable.
    """
    kind = kind_of(spec)
    return kind.contract(folder) if isinstance(kind, FolderKind) else None


def remarks(spec: ModelSpec, folder: Path) -> list[str]:
    """What a user should know before the model in a folder becomes one of its kind."""
    kind = kind_of(spec)
    return kind.remarks(folder) if isinstance(kind, FolderKind) else []


def opens_alone(spec: ModelSpec, folder: Path, others: Set[str]) -> bool:
    """Whether sentence-transformers opens the model in a folder with the vectors that it has here.

    others: the names of what the spec sets, and the folder does not.
    """
    kind = kind_of(spec)
    return not isinstance(kind, FolderKind) or kind.opens_alone(folder, others)


def load_encoder(spec: ModelSpec, device: str | None = None, precision: "Precision | None" = None) -> TextEncoder:
    """The opened model that a spec describes; precision: what it will encode in, None to train.

    Raises:
        ModelError: the model is not there, or it cannot do what the spec says.
    """
    if problems := spec.problems():
        raise ModelError(f"model {spec.name!r}: " + "; ".join(problems))
    kind = _fitting(spec, _fetched_kind(spec))
    opened = _opened if isinstance(kind, FolderKind) else type(kind).load
    return opened(kind, spec, device, precision)


def _opened(kind: EncoderKind, spec: ModelSpec, device: str | None, precision: "Precision | None") -> TextEncoder:
    """The model of a folder, whose modules fit each other."""
    from hardneg.encoders.encoder import Encoder
    from hardneg.encoders.load import opening
    from hardneg.encoders.trial import check_fit

    with opening(f"model {spec.name!r}", at_hand(spec) or spec.name):
        encoder = kind.load(spec, device, precision)
        if isinstance(encoder, Encoder):
            check_fit(encoder)
    return encoder


def open_encoder(folder: Path, device: str | None = None, precision: "Precision | None" = None) -> TextEncoder:
    """The model in a folder that hardneg saved, with the prompts and lengths it was saved with.

    Raises:
        ModelError: the folder is not there, or hardneg did not write it.
    """
    from hardneg.encoders.save import read_spec

    return load_encoder(read_spec(folder), device, precision)


def load_learner(spec: ModelSpec, device: str | None = None, precision: "Precision | None" = None) -> "Encoder":
    """The same as `load_encoder`, of a model that can learn.

    Raises:
        ModelError: it cannot.
    """
    return learner(load_encoder(spec, device, precision))


def learner(encoder: TextEncoder) -> "Encoder":
    """The encoder, which can learn. Raises ModelError where it cannot."""
    from hardneg.encoders.encoder import Encoder

    if not isinstance(encoder, Encoder):
        raise ModelError(f"model {encoder.spec.name!r} has no weights here: it cannot be trained, name another model")
    return encoder


def model_digest(spec: ModelSpec) -> str:
    """32 hexadecimal digits that name the model; others whenever what it makes of a text may differ.

    Raises:
        ModelError: there is no such model, or it is of another kind than the spec says.
    """
    return _fitting(spec, kind_of(spec)).digest(spec)


def _fitting(spec: ModelSpec, kind: EncoderKind) -> EncoderKind:
    """The kind, where a static model's folder is not to be read as one with a network, whose files it lacks."""
    folder = at_hand(spec)
    if isinstance(kind, FolderKind) and folder is not None and kind_in(folder) == "static":
        kind.check_class(folder)
    return kind


def known_dimension(spec: ModelSpec) -> int | None:
    """How many numbers a vector has, or how many terms there are; None where the files at hand do not tell."""
    folder = at_hand(spec)
    if said := spec.truncate_dim or spec.projection:
        return said
    try:
        contract = contract_of(spec, folder) if folder is not None else None
    except (ModelError, OSError):
        return None
    return None if contract is None else contract.truncate_dim or contract.dimension


def resolve(spec: ModelSpec) -> FullSpec:
    """The spec with what the model says of itself filled in. Raises ModelError where it cannot be had."""
    return _fetched_kind(spec).resolve(spec)


def known(spec: ModelSpec) -> FullSpec | None:
    """The same without fetching anything; None where it cannot be told."""
    return kind_of(spec).known(spec)


def look_up(spec: ModelSpec) -> Lookup:
    """The files that would be read. Raises ModelError where there are none."""
    return kind_of(spec).look_up(spec)


def model_shape(spec: ModelSpec) -> Shape:
    """What decides a model's cost."""
    return kind_of(spec).shape(spec)
