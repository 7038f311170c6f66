"""From the name of a model to the opened model: its location, its family, its contract, its weights.

A model is resolved once. Every later question goes to its family with the resolved model, never with a name.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, cast

from hardneg.encoders.families.adapters.adapter_base import with_base
from hardneg.encoders.open.resolved_model import ResolvedModel
from hardneg.encoders.open.source import Location, locate
from hardneg.encoders.protocol import EncoderFamily, TextEncoder
from hardneg.encoders.spec import ModelSpec
from hardneg.records.errors import HardnegError, ModelError
from hardneg.registry.plugins import configure
from hardneg.runtime.seeding import FIXED, derive_seed

if TYPE_CHECKING:
    from hardneg.encoders.encoder import Encoder
    from hardneg.encoders.speed.fastest import Precision


def load_encoder(spec: ModelSpec, device: str | None = None, precision: "Precision | None" = None) -> TextEncoder:
    """Opens the model that a spec describes; precision: that of the encoding, None to train.

    Raises:
        ModelError: the model does not exist, or does not support what the spec sets.
    """
    if problems := spec.problems():
        raise ModelError(f"model {spec.name!r}: " + "; ".join(problems))
    model = resolve(spec, fetch=True)
    if model.location.folder is None:
        return model.family.load(model, device, precision)
    with opening(f"model {spec.name!r}", model.location.folder):
        from hardneg.encoders.encoder import Encoder

        encoder = model.family.load(model, device, precision)
        if isinstance(encoder, Encoder):
            encoder.check_fit()
    return encoder


def open_encoder(folder: Path, device: str | None = None, precision: "Precision | None" = None) -> TextEncoder:
    """Opens the model in a folder that hardneg saved, with its saved prompts and lengths.

    Raises:
        ModelError: the folder does not exist, or hardneg did not write it.
    """
    from hardneg.encoders.open.save import read_spec

    return load_encoder(read_spec(folder), device, precision)


def resolve(model: str | ModelSpec, fetch: bool = False, family: EncoderFamily | None = None) -> ResolvedModel:
    """Resolves a model by its name or spec: locates its files and determines their family.

    fetch: downloads what is not on this machine, and fills in the spec; without it a model that is not there, or that
    does not support what the spec sets, is no error yet.
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
    location = locate(spec.name, spec.revision, fetch)
    bases = (with_base(spec, location, fetch),) if location.adapter else ()
    return ResolvedModel.of(((spec, location), *bases), family, whole=fetch)


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


def learner(encoder: TextEncoder) -> "Encoder":
    """The encoder, if it can be trained. Raises ModelError where it cannot."""
    from hardneg.encoders.encoder import Encoder

    if not isinstance(encoder, Encoder):
        raise ModelError(f"model {encoder.spec.name!r} has no weights here: it cannot be trained, name another model")
    return encoder
