"""What the families of encoders share whose models lie in a folder or on the hub."""

from collections.abc import Set
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from hardneg.encoders.families.adapters.adapter_base import adapter_of
from hardneg.encoders.families.adapters.adapter_source import look_up_adapter
from hardneg.encoders.families.static.static_files import table_files
from hardneg.encoders.open.configuration import Shape, mapping, model_shape
from hardneg.encoders.open.contract import CONFIG, Contract, filled, read_contract, saved_class
from hardneg.encoders.open.model_digest import digest_of, model_content
from hardneg.encoders.spec import FullSpec
from hardneg.records.errors import ModelError
from hardneg.records.types import Lookup

if TYPE_CHECKING:
    from hardneg.encoders.open.resolved import ResolvedModel


class FolderFamily:
    """A family whose models are files.

    called: its name among encoders. own: classes of sentence-transformers and architectures that only its folders name.
    tables: whether its folders may hold no more than a table of token vectors.
    special: families with a higher number are asked first whether a folder is theirs.
    """

    called: ClassVar[str]
    own: ClassVar[tuple[str, ...]] = ()
    tables: ClassVar[bool] = False
    special: ClassVar[int] = 0
    trainable: ClassVar[bool] = True

    @classmethod
    def claims(cls, folder: Path) -> bool:
        """Whether a folder says that it is of this family: by the class that it was saved by, or its architecture."""
        names = mapping(folder / "config.json").get("architectures") or ()
        return any(name in cls.own for name in (mapping(folder / CONFIG).get("model_type"), *names))

    def check_class(self, folder: Path) -> None:
        """Refuses a folder that was saved by a class of another family."""
        table = not self.tables and table_files(folder) is not None
        if table or saved_class(folder) not in ("SentenceTransformer", *self.own):
            other = "static model" if table else saved_class(folder)
            raise ModelError(f"model {folder}: a {other}, not a {self.called} encoder: use another model or encoder")

    def contract(self, folder: Path) -> Contract:
        """What a folder says. Raises ModelError where it holds no whole model."""
        return read_contract(folder)

    def full(self, model: "ResolvedModel") -> FullSpec:
        """The spec with what the model's folder says.

        Raises:
            ModelError: the folder is of another family, holds no whole model, or cannot be used as the spec says.
        """
        self.check_class(model.path)
        return filled(model.spec, model.contract, adapter_of(model.spec, model.path))

    def remarks(self, folder: Path) -> list[str]:
        """What a user should know before a model in a folder becomes one of this family."""
        return []

    def opens_alone(self, folder: Path, others: Set[str]) -> bool:
        """Whether sentence-transformers opens a folder with the vectors that it has here.

        others: the names of what a spec sets, and the folder does not.
        """
        return True

    def digest(self, model: "ResolvedModel") -> str:
        """That of the files' content and the options; of a model on the hub, that of its commit.

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
        """That of a folder."""
        return digest_of(model_content(model.location), model.full)

    def look_up(self, model: "ResolvedModel") -> Lookup:
        """The files' bytes, with those of an adapter."""
        files, adapter = model.location.look_up(), look_up_adapter(model.spec.adapter)
        return Lookup(files.there + adapter.there, files.ahead + adapter.ahead, files.note or adapter.note)

    def shape(self, model: "ResolvedModel") -> Shape:
        """By the configuration."""
        return model_shape(model.spec.name, model.folder)
