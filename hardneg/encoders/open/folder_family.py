"""The base of the families of encoders whose models are folders or on the hub."""

from collections.abc import Set
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from hardneg.encoders.families.adapters.adapter_base import adapter_of
from hardneg.encoders.families.adapters.adapter_source import look_up_adapter
from hardneg.encoders.families.static.static_files import table_files
from hardneg.encoders.open.configuration import Shape, model_shape
from hardneg.encoders.open.contract import CONFIG, Contract, filled, read_contract, saved_class
from hardneg.encoders.open.model_digest import digest_of, model_content
from hardneg.encoders.open.model_files import json_object
from hardneg.encoders.spec import FullSpec
from hardneg.records.errors import ModelError
from hardneg.records.types import Lookup

if TYPE_CHECKING:
    from hardneg.encoders.open.resolved import ResolvedModel


class FolderFamily:
    """A family whose models are files.

    called: its name among encoders. own: classes of sentence-transformers and architectures that only its folders have.
    tables: whether its folders may hold a table of token vectors alone.
    special: families with a higher number claim folders first.
    """

    called: ClassVar[str]
    own: ClassVar[tuple[str, ...]] = ()
    tables: ClassVar[bool] = False
    special: ClassVar[int] = 0
    trainable: ClassVar[bool] = True

    @classmethod
    def claims(cls, folder: Path) -> bool:
        """Whether a folder declares this family, by the class that saved it or by its architecture."""
        names = json_object(folder / "config.json").get("architectures") or ()
        return any(name in cls.own for name in (json_object(folder / CONFIG).get("model_type"), *names))

    def check_class(self, folder: Path) -> None:
        """Refuses a folder that was saved by a class of another family."""
        table = not self.tables and table_files(folder) is not None
        if table or saved_class(folder) not in ("SentenceTransformer", *self.own):
            other = "static model" if table else saved_class(folder)
            raise ModelError(f"model {folder}: a {other}, not a {self.called} encoder: use another model or encoder")

    def contract(self, folder: Path) -> Contract:
        """The contract of a folder. Raises ModelError where it holds no whole model."""
        return read_contract(folder)

    def full(self, model: "ResolvedModel") -> FullSpec:
        """The spec, filled in from the model's folder.

        Raises:
            ModelError: the folder is of another family, holds no whole model, or does not support what the spec sets.
        """
        self.check_class(model.path)
        return filled(model.spec, model.contract, adapter_of(model.spec, model.path))

    def remarks(self, folder: Path) -> list[str]:
        """Remarks for the user before a model in a folder becomes one of this family."""
        return []

    def opens_alone(self, folder: Path, others: Set[str]) -> bool:
        """Whether sentence-transformers alone opens a folder with the same vectors.

        others: the fields that a spec sets and the folder does not.
        """
        return True

    def digest(self, model: "ResolvedModel") -> str:
        """The digest of the files' content and the options; of a model on the hub, of its commit.

        Raises:
            ModelError: there is no such model, it is of another family, or the hub cannot be reached.
        """
        if model.folder is not None:
            self.check_class(model.folder)
        for spec, location in model.origins:
            if location.commit is not None:
                return digest_of(model_content(location), spec)
        return self.content_digest(model)

    def content_digest(self, model: "ResolvedModel") -> str:
        """The digest of a folder."""
        return digest_of(model_content(model.location), model.full)

    def look_up(self, model: "ResolvedModel") -> Lookup:
        """The size of the files, with those of an adapter."""
        files, adapter = model.location.look_up(), look_up_adapter(model.spec.adapter)
        return Lookup(files.there + adapter.there, files.ahead + adapter.ahead, files.note or adapter.note)

    def shape(self, model: "ResolvedModel") -> Shape:
        """The shape in the configuration."""
        return model_shape(model.spec.name, model.folder)
