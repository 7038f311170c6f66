"""From the name of a model to the opened model: its location, its family, its contract, its weights.

A model is resolved once. Every later question goes to its family with the resolved model, never with a name.
"""

import logging
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from hardneg.encoders.families.adapters.adapter_base import with_base
from hardneg.encoders.open.configuration import Shape
from hardneg.encoders.open.contract import Contract
from hardneg.encoders.open.folder_family import FolderFamily
from hardneg.encoders.open.source import Location, locate
from hardneg.encoders.protocol import EncoderFamily, TextEncoder
from hardneg.encoders.spec import SIDES, FullSpec, ModelSpec
from hardneg.records.errors import HardnegError, ModelError, PluginError
from hardneg.records.types import Lookup, PluginSetting
from hardneg.registry.plugins import configure, load_plugin, plugin_names
from hardneg.runtime.seeding import FIXED, derive_seed

if TYPE_CHECKING:
    from hardneg.encoders.encoder import Encoder
    from hardneg.encoders.speed.fastest import Precision

_LOG = logging.getLogger(__name__)


def load_encoder(spec: ModelSpec, device: str | None = None, precision: "Precision | None" = None) -> TextEncoder:
    """Opens the model that a spec describes; precision: that of the encoding, None to train.

    Raises:
        ModelError: the model does not exist, or does not support what the spec sets.
    """
    if problems := spec.problems():
        raise ModelError(f"model {spec.name!r}: " + "; ".join(problems))
    model = resolve(spec, fetch=True)
    if model.folder is None:
        return model.family.load(model, device, precision)
    with opening(f"model {spec.name!r}", model.folder):
        encoder = model.family.load(model, device, precision)
        _check_fit(encoder)
    return encoder


def open_encoder(folder: Path, device: str | None = None, precision: "Precision | None" = None) -> TextEncoder:
    """Opens the model in a folder that hardneg saved, with its saved prompts and lengths.

    Raises:
        ModelError: the folder does not exist, or hardneg did not write it.
    """
    from hardneg.encoders.open.save import read_spec

    return load_encoder(read_spec(folder), device, precision)


@dataclass(frozen=True)
class ResolvedModel:
    """A model that was located once.

    spec: its description; of an adapter alone, that of its base with the adapter. location: of the files of
    `spec.name`. family: the plugin that knows such models. origins: the spec as it was written with its location, and
    `spec` with `location` where that is another one.
    """

    spec: ModelSpec
    location: Location
    family: EncoderFamily
    origins: tuple[tuple[ModelSpec, Location], ...]

    @property
    def folder(self) -> Path | None:
        """The folder of its files; None where they are not on this machine, and for a model without files."""
        return self.location.folder

    @property
    def path(self) -> Path:
        """The same. Raises ModelError where there is none."""
        return self.location.path

    @property
    def known_family(self) -> EncoderFamily | None:
        """Its family, where the spec names it or the model is on this machine; None where it is not known yet."""
        spec, location = self.origins[0]
        return None if spec.encoder is None and location.folder is None else self.family

    @cached_property
    def contract(self) -> Contract:
        """How its folder declares that it is used.

        Raises:
            ModelError: its files are not on this machine, incomplete or not readable; or its family has no files.
        """
        if not isinstance(self.family, FolderFamily):
            raise ModelError(f"model {self.spec.name!r}: its family has no files that declare how it is used")
        return self.family.contract(self.path)

    @cached_property
    def full(self) -> FullSpec:
        """The spec, filled in with the model's own values. Raises ModelError where these are not available."""
        return self.family.full(self)

    @property
    def known(self) -> FullSpec | None:
        """The same; None where it is not known without a download."""
        try:
            return self.full
        except (ModelError, OSError):
            return None

    @property
    def dimension(self) -> int | None:
        """The size of a vector, or the number of terms; None where the local files do not declare it."""
        if size := self.spec.truncate_dim or self.spec.projection:
            return size
        try:
            return self.contract.truncate_dim or self.contract.dimension
        except (ModelError, OSError):
            return None

    @cached_property
    def digest(self) -> str:
        """32 hexadecimal digits that identify the model; others whenever its encoding of a text may differ.

        Raises:
            ModelError: there is no such model, or it is of another family than the spec says.
        """
        return self.family.digest(self)

    def look_up(self) -> Lookup:
        """The files to read. Raises ModelError where there are none."""
        return self.family.look_up(self)

    @property
    def shape(self) -> Shape:
        """The shape that decides its cost."""
        return self.family.shape(self)

    @property
    def remarks(self) -> list[str]:
        """Remarks for the user before its files become a model of its family."""
        if self.folder is None or not isinstance(self.family, FolderFamily):
            return []
        return self.family.remarks(self.folder)


def resolve(model: str | ModelSpec, fetch: bool = False, family: EncoderFamily | None = None) -> ResolvedModel:
    """Resolves a model by its name or spec: locates its files and determines their family.

    fetch: downloads what is not on this machine; without it a model that is not there is no error yet.
    family: by default that of the spec, or else the one that claims the folder; `dense` where none does.

    Raises:
        PluginError: there is no such family, or its options are wrong.
        ModelError: the model cannot be fetched; or its folder holds an adapter without the name of its base.
    """
    spec = ModelSpec(model) if isinstance(model, str) else model
    if family is None and spec.encoder is not None:
        family = cast(EncoderFamily, configure("encoders", spec.encoder))
    if family is not None and not hasattr(family, "claims"):  # its models have no folder
        elsewhere = Location(spec.name, spec.revision)
        return ResolvedModel(spec, elsewhere, family, ((spec, elsewhere),))
    written = spec, locate(spec.name, spec.revision, fetch)
    based = with_base(*written, fetch)
    origins = (written,) if based[0] is spec else (written, based)
    return ResolvedModel(*based, family or _claiming(based[1].folder), origins)


def _claiming(folder: Path | None) -> EncoderFamily:
    """The family that claims a folder, with its default options; the most special ones claim first."""
    families: dict[str, Any] = {}
    for name in plugin_names("encoders") if folder is not None else ():
        try:
            family = load_plugin("encoders", name)
        except PluginError as error:
            _LOG.warning("%s; it claims no model's folder", error)
        else:
            families |= {name: family} if hasattr(family, "claims") else {}
    for name in sorted(families, key=lambda name: -getattr(families[name], "special", 1)):
        with suppress(ModelError, OSError, LookupError, TypeError, ValueError, AttributeError):  # opening it tells
            if families[name].claims(folder):
                return cast(EncoderFamily, configure("encoders", PluginSetting(name)))
    return cast(EncoderFamily, configure("encoders", PluginSetting("dense")))


@contextmanager
def quiet() -> Iterator[None]:
    """Silences the progress bars of transformers, and its warnings of what is checked here."""
    from transformers.utils import logging

    level, shown = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if shown:
            logging.enable_progress_bar()


@contextmanager
def opening(what: str, folder: Path | str, seed: int = FIXED) -> Iterator[None]:
    """Draws weights that a folder lacks from the seed, and turns errors of opening it into a ModelError."""
    import torch

    with quiet(), torch.random.fork_rng(devices=[]):
        torch.manual_seed(derive_seed(seed, "weights that the files lack") >> 1)
        try:
            yield
        except (HardnegError, MemoryError, torch.OutOfMemoryError):
            raise
        except Exception as error:  # the libraries that read a model's files let errors of many classes through
            lines = (str(error).strip() or type(error).__name__).splitlines()[:2]
            reason = " ".join(" ".join(lines).split())
            raise ModelError(f"{what} cannot be opened ({reason}): check {folder}") from error


def _check_fit(encoder: TextEncoder) -> None:
    """Encodes a few words as a query and as a document.

    Raises:
        Exception: of any class, where the modules do not fit each other or the family.
    """
    import numpy as np
    import torch

    from hardneg.encoders.encoder import Encoder
    from hardneg.encoders.towers import evaluating

    if not isinstance(encoder, Encoder):
        return
    representation = encoder.representation
    with evaluating(encoder.module), torch.inference_mode():
        for side in SIDES:
            encoded = representation.run(encoder.parts(side), encoder.features(["a trial"], side), encoder.device, side)
            representation.gathered([(np.zeros(1, np.int64), encoded)], 1, encoder.dimension)


def learner(encoder: TextEncoder) -> "Encoder":
    """The encoder, if it can be trained. Raises ModelError where it cannot."""
    from hardneg.encoders.encoder import Encoder

    if not isinstance(encoder, Encoder):
        raise ModelError(f"model {encoder.spec.name!r} has no weights here: it cannot be trained, name another model")
    return encoder
