"""The family `static`: a table with one vector a token, whose mean over a text's tokens is the text's vector."""

from collections.abc import Set
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from hardneg.encoders.families.static.static_files import check_table, static_contract, table_files
from hardneg.encoders.open.contract import Contract, filled
from hardneg.encoders.open.resolved import (
    FolderFamily,
    ResolvedModel,
    digest_of,
    file_identity,
    model_content,
    module_contents,
)
from hardneg.encoders.protocol import Form
from hardneg.encoders.spec import FullSpec, Precision
from hardneg.records import Lookup, ModelError, PluginError
from hardneg.store import options_in_key

if TYPE_CHECKING:
    from hardneg.encoders.encoder import Encoder

_OF_TRANSFORMERS = ("adapter", "pooling", "query_token_type", "document_token_type", "dtype")


@dataclass(frozen=True)
class Static(FolderFamily):
    """One vector a token, looked up in a table: a text's vector is the mean of its tokens' ones.

    A folder of sentence-transformers with a `StaticEmbedding`, one of model2vec, and `packaged:wordllama` are taken as
    they are. Of a transformer's folder the token table is taken, as the options say.

    Args:
        dimensions: principal components of the table that are kept; none keeps the table as it is.
        sif: the smaller, the less frequent tokens weigh (a / (a + frequency), by Zipf's law); none weighs all alike.
        untrained: of the transformer the tokenizer alone; its table is random numbers of the same spread.
    """

    dimensions: int | None = 256
    sif: float | None = 1e-4
    untrained: bool = False
    later: ClassVar[frozenset[str]] = frozenset({"untrained"})
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
        """The contract of the folder. Raises ModelError where it has no whole model."""
        return static_contract(folder, table_files(folder), self.dimensions)

    def opens_alone(self, folder: Path, others: Set[str]) -> bool:
        """Whether the table has the format of sentence-transformers and its spec sets no length."""
        files = table_files(folder)
        return files is not None and files.modules and "query_length" not in others

    def full(self, model: ResolvedModel) -> FullSpec:
        """The spec, filled in from the model's folder.

        Raises:
            ModelError: the folder is of another family or no whole model, or the spec sets fields of a transformer.
        """
        self.check_class(model.path)
        spec = model.spec
        plain = replace(spec, dtype="auto") if spec.dtype == "fp32" else spec
        if others := plain.changed(_OF_TRANSFORMERS):
            raise ModelError(f"model {spec.name!r} is static: it has no {', '.join(others)}, leave that out")
        return filled(spec, model.contract)

    def content_digest(self, model: ResolvedModel) -> str:
        """The digest of the files' content and the options, whether folder or spec declares the family."""
        files, full = table_files(model.path), replace(model.full, encoder=None)
        if files is None:
            return digest_of(["static", self.version, options_in_key(self), model_content(model.location)], full)
        if files.modules:
            return digest_of(module_contents(model.path), full)
        read = [[path.name, file_identity(path)] for path in (*files.weights, files.tokenizer)]
        return digest_of(["static", files.normalised, read], full)

    def look_up(self, model: ResolvedModel) -> Lookup:
        """The size of the files."""
        files = None if model.folder is None else table_files(model.folder)
        if files is None:
            return model.location.look_up()
        check_table(files)
        return Lookup(there=sum(path.stat().st_size for path in (*files.weights, files.tokenizer)))

    def load(self, model: ResolvedModel, device: str | None = None, precision: Precision | None = None) -> "Encoder":
        """The model in evaluation mode, always in float32.

        Raises:
            ModelError: it does not support what its spec sets.
        """
        from hardneg.encoders.families.static.static_encoder import make_static, open_static

        files = table_files(model.path)
        if files is None:
            return make_static(model, self, device)
        if self != Static():
            raise ModelError(f"model {model.spec.name!r} is static already: leave the options of encoder out")
        return open_static(model, files, device)
