"""The kind `static`: a table with one vector a token, whose mean over a text's tokens is the text's vector."""

from collections.abc import Set
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from hardneg.encoders.configuration import Shape
from hardneg.encoders.contract import Contract, filled
from hardneg.encoders.folder_kind import FolderKind
from hardneg.encoders.identity import digest_of, file_identity, model_content, model_digest, module_contents
from hardneg.encoders.protocol import Form
from hardneg.encoders.source import HubCommit, at_hand, fetch, locate, look_up
from hardneg.encoders.spec import FullSpec, ModelSpec
from hardneg.encoders.static.contract import made_contract, static_contract
from hardneg.encoders.static.files import check_table, table_files, table_shape
from hardneg.errors import ModelError, PluginError
from hardneg.types import Lookup

if TYPE_CHECKING:
    from hardneg.encoders.encoder import Encoder
    from hardneg.encoders.fastest import Precision

_OF_TRANSFORMERS = ("adapter", "pooling", "query_token_type", "document_token_type", "dtype")
_ROWS = 30_522


@dataclass(frozen=True)
class Static(FolderKind):
    """One vector a token, looked up in a table: a text's vector is the mean of its tokens' ones.

    A folder of sentence-transformers with a `StaticEmbedding`, one of model2vec, and `packaged:wordllama` are taken as
    they are. Of a transformer's folder the token table is taken, as the options say.

    Args:
        dimensions: principal components of the table that are kept; none keeps the table as it is.
        sif: the smaller, the less frequent tokens weigh (a / (a + frequency), by Zipf's law); none weighs all alike.
    """

    dimensions: int | None = 256
    sif: float | None = 1e-4
    called: ClassVar[str] = "static"
    tables: ClassVar[bool] = True
    version: ClassVar[int] = 1
    form: ClassVar[Form] = "vectors"

    def __post_init__(self) -> None:
        if self.dimensions is not None and self.dimensions < 1:
            raise PluginError(f"static: dimensions must be 1 or above, not {self.dimensions}")
        if self.sif is not None and not self.sif > 0:
            raise PluginError(f"static: sif must be above 0, not {self.sif}")

    def contract(self, folder: Path) -> Contract:
        """What the folder says. Raises ModelError where it has no whole model."""
        files = table_files(folder)
        return made_contract(self.dimensions) if files is None else static_contract(files)

    def opens_alone(self, folder: Path, others: Set[str]) -> bool:
        """A table of sentence-transformers' own form, whose library has no length to be set for it."""
        files = table_files(folder)
        return files is not None and files.modules and "query_length" not in others

    def full(self, spec: ModelSpec, folder: Path) -> FullSpec:
        """The spec with what the model's folder says.

        Raises:
            ModelError: the folder is of another kind or no whole model, or the spec asks for what a table has not.
        """
        self.check_class(folder)
        plain = replace(spec, dtype="auto") if spec.dtype == "fp32" else spec
        if asked := [name for name in _OF_TRANSFORMERS if getattr(plain, name) != getattr(ModelSpec, name)]:
            raise ModelError(f"model {spec.name!r} is static: it has no {', '.join(asked)}, leave that out")
        return filled(spec, self.contract(folder))

    def digest(self, spec: ModelSpec) -> str:
        """By the files' content and the options; the same whether the folder or the spec says that it is static."""
        found = locate(spec)
        if isinstance(found, HubCommit):
            return model_digest(spec, self.full)
        files, full = table_files(found), replace(self.full(spec, found), encoder=None)
        if files is None:
            return digest_of(["static", self.version, asdict(self), model_content(spec)], full)
        if files.modules:
            return digest_of(module_contents(found), full)
        read = [[path.name, file_identity(path)] for path in (*files.weights, files.tokenizer)]
        return digest_of(["static", files.normalised, read], full)

    def look_up(self, spec: ModelSpec) -> Lookup:
        """The files' bytes."""
        folder = at_hand(spec)
        files = table_files(folder) if folder else None
        if files is None:
            return look_up(spec)
        check_table(files)
        return Lookup(there=sum(path.stat().st_size for path in (*files.weights, files.tokenizer)))

    def shape(self, spec: ModelSpec) -> Shape:
        """By the table: no layers."""
        folder = at_hand(spec)
        files = table_files(folder) if folder else None
        rows, dimension = (files and table_shape(files)) or (_ROWS, self.dimensions or Shape().hidden)
        return Shape(dimension, 0, 4 * rows * dimension)

    def load(self, spec: ModelSpec, device: str | None = None, precision: "Precision | None" = None) -> "Encoder":
        """The model that the spec describes, in evaluation mode, always in float32.

        Raises:
            ModelError: the model is not there, or it cannot do what the spec says.
        """
        from hardneg.encoders.static.load import make_static, open_static

        folder = fetch(spec)
        files, full = table_files(folder), self.full(spec, folder)
        if files is None:
            return make_static(folder, self, full, device)
        if self != Static():
            raise ModelError(f"model {spec.name!r} is static already: leave the options of encoder out")
        return open_static(files, full, device)
