"""What the kinds of encoders share that lie in a folder or on the hub: what is known of them before they are opened."""

from collections.abc import Set
from pathlib import Path
from typing import ClassVar

from hardneg.encoders.adapters.base import based, fetch_whole
from hardneg.encoders.adapters.source import look_up_adapter
from hardneg.encoders.configuration import Shape, model_shape
from hardneg.encoders.contract import Contract, made_as, read_contract, resolve
from hardneg.encoders.files import check_files
from hardneg.encoders.identity import model_digest
from hardneg.encoders.source import at_hand, look_up
from hardneg.encoders.spec import FullSpec, ModelSpec
from hardneg.encoders.static.files import table_files
from hardneg.errors import ModelError
from hardneg.types import Lookup


class FolderKind:
    """A kind whose models are files.

    called: its name among encoders. classes: of sentence-transformers, what its folders may be saved by.
    tables: whether its folders may hold no more than a table of token vectors.
    """

    called: ClassVar[str]
    tables: ClassVar[bool] = False

    trainable: ClassVar[bool] = True
    classes: ClassVar[tuple[str, ...]] = ("SentenceTransformer",)

    def full(self, spec: ModelSpec, folder: Path) -> FullSpec:
        """The spec with what the model's folder says.

        Raises:
            ModelError: the folder is of another kind, or not readable.
        """
        self.check_class(folder)
        return resolve(spec, folder)

    def check_class(self, folder: Path) -> None:
        """Refuses a folder that was saved by a class of another kind."""
        table = not self.tables and table_files(folder) is not None
        if table or made_as(folder) not in self.classes:
            made = "a static model" if table else f"a {made_as(folder)}"
            raise ModelError(f"model {folder}: {made}, not a {self.called} encoder: use another model or encoder")

    def contract(self, folder: Path) -> Contract:
        """What a folder says. Raises ModelError where it holds no whole model."""
        check_files(folder)
        return read_contract(folder)

    def resolve(self, spec: ModelSpec) -> FullSpec:
        """The spec with what the model's folder says, which is fetched."""
        return self.full(*fetch_whole(spec))

    def known(self, spec: ModelSpec) -> FullSpec | None:
        """The same, if the files are on this machine and readable."""
        folder = at_hand(spec)
        try:
            if folder is not None and (whole := based(spec, folder)) != spec:
                return self.known(whole)
            return self.full(spec, folder) if folder else None
        except (ModelError, OSError):
            return None

    def remarks(self, folder: Path) -> list[str]:
        """What a user should know before a model in a folder becomes one of this kind."""
        return []

    def opens_alone(self, folder: Path, others: Set[str]) -> bool:
        """Whether sentence-transformers opens a folder with the vectors that it has here.

        others: the names of what a spec sets, and the folder does not.
        """
        return True

    def digest(self, spec: ModelSpec) -> str:
        """That of the files' content and the options."""
        return model_digest(spec, self.full)

    def look_up(self, spec: ModelSpec) -> Lookup:
        """The files' bytes, with those of an adapter and of its base."""
        folder = at_hand(spec)
        if folder is not None and (whole := based(spec, folder)) != spec:
            return self.look_up(whole)
        model, adapter = look_up(spec), look_up_adapter(spec.adapter)
        return Lookup(model.there + adapter.there, model.ahead + adapter.ahead, model.note or adapter.note)

    def shape(self, spec: ModelSpec) -> Shape:
        """By the configuration."""
        return model_shape(spec)
