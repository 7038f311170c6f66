"""The family `dense`: a transformer with one vector a text."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from hardneg.encoders.open.contract import saved_class
from hardneg.encoders.open.model_files import json_object, module_folders
from hardneg.encoders.open.resolved import FolderFamily, ResolvedModel
from hardneg.encoders.protocol import Form
from hardneg.encoders.spec import Precision
from hardneg.records import ModelError
from hardneg.registry import not_installed

if TYPE_CHECKING:
    from hardneg.encoders.encoder import Encoder

_OTHERS = {"SparseEncoder": "sparse", "SpladePooling": "sparse", "MultiVectorMask": "multi-vector"}
_OTHERS |= dict.fromkeys(("MultiVectorEncoder", "ColBERT", "HF_ColBERT"), "multi-vector")
"""Families by the modules, saved classes and architectures that are theirs alone."""


@dataclass(frozen=True)
class Dense(FolderFamily):
    """A transformer with a pooling: one vector a text, compared by the inner product."""

    called: ClassVar[str] = "dense"
    version: ClassVar[int] = 1
    form: ClassVar[Form] = "vectors"

    def check_class(self, folder: Path) -> None:
        """Refuses a folder of another family, also one that does not declare it."""
        architectures = json_object(folder / "config.json").get("architectures") or ()
        modules = module_folders(folder).values()
        for family in (_OTHERS[name] for name in (saved_class(folder), *architectures, *modules) if name in _OTHERS):
            if where := not_installed("encoders", family):
                raise ModelError(f"model {folder}: it is of the family {family}, {where}")
        super().check_class(folder)
        if family := next((_OTHERS[name] for name in modules if name in _OTHERS), ""):
            raise ModelError(f"model {folder}: its modules are those of a {family} encoder: set encoder: {family}")

    def load(self, model: ResolvedModel, device: str | None = None, precision: Precision | None = None) -> "Encoder":
        """The model in evaluation mode. Raises ModelError: it does not support what its spec sets."""
        from hardneg.encoders.encoder import Encoder
        from hardneg.encoders.open.loading import load_module

        return Encoder(load_module(model, device, precision), model.full)
