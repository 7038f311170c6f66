"""The families `dense`, a transformer with one vector a text, and `static`, a table with one vector a token."""

from collections.abc import Set
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from hardneg.encoders.open import contract as contracts, resolved
from hardneg.encoders.open.contract import Contract, table_files
from hardneg.encoders.open.model_files import json_object, module_folders
from hardneg.encoders.open.resolved import FolderFamily, ResolvedModel
from hardneg.encoders.protocol import Form
from hardneg.encoders.spec import SIDES, FullSpec, Precision
from hardneg.records import Lookup, ModelError, PluginError
from hardneg.registry import not_installed
from hardneg.store import options_in_key

if TYPE_CHECKING:
    from hardneg.encoders.encoder import Encoder

_OTHERS = {"SparseEncoder": "sparse", "SpladePooling": "sparse", "MultiVectorMask": "multi-vector"}
_OTHERS |= dict.fromkeys(("MultiVectorEncoder", "ColBERT", "HF_ColBERT"), "multi-vector")
"""Families by the modules, saved classes and architectures that are theirs alone."""
_OF_TRANSFORMERS = ("adapter", "pooling", "query_token_type", "document_token_type", "dtype")


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
        saved = contracts.saved_class(folder)
        for family in (_OTHERS[name] for name in (saved, *architectures, *modules) if name in _OTHERS):
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
        """The contract of the folder: all tokens are read, unless its tokenizer truncates.

        Raises ModelError: it has no whole model.

        Source: `SentenceTransformer` and `StaticEmbedding`, version 6.
        """
        files, config, own = table_files(folder), dict[str, Any](), dict[str, Any]()
        length: Any = contracts.UNBOUNDED
        normalised, dimension, declared = True, self.dimensions, "cosine"
        if files is not None:
            files.check()
            config = json_object(folder / contracts.CONFIG) if files.modules else {}
            normalised = [*module_folders(folder).values()][-1] == "Normalize" if files.modules else files.normalised
            declared, dimension = contracts.own_similarity(config), files.dimension()
            truncation = json_object(files.tokenizer).get("truncation")
            length = truncation.get("max_length") if isinstance(truncation, dict) else contracts.UNBOUNDED
            if isinstance(length, bool) or not isinstance(length, int) or length < 1:
                raise ModelError(f"{files.tokenizer}: truncation to {length!r} tokens: copy the model again")
            own = contracts.saved_values(folder)
        prompts = contracts.own_prompts(config, folder)
        values: dict[str, Any] = {"similarity": "cosine" if declared == "dot" and normalised else declared}
        values |= {f"{side}_prompt": prompts[side] for side in SIDES} | {f"{side}_length": length for side in SIDES}
        return Contract(
            **values | own,
            prompts={} if files is None else prompts,
            default_prompt_name=config.get("default_prompt_name"),
            pooling="mean",
            normalised=normalised,
            dimension=dimension,
            truncate_dim=config.get("truncate_dim"),
            dtype="float32",
        )

    def opens_alone(self, folder: Path, others: Set[str]) -> bool:
        """Whether the table has the format of sentence-transformers and its spec sets no length."""
        files = table_files(folder)
        return files is not None and files.modules and "query_length" not in others

    def full(self, model: ResolvedModel) -> FullSpec:
        """The spec, filled in. Raises ModelError: of another family, not whole, or with fields of a transformer."""
        self.check_class(model.path)
        spec = model.spec
        plain = replace(spec, dtype="auto") if spec.dtype == "fp32" else spec
        if others := plain.changed(_OF_TRANSFORMERS):
            raise ModelError(f"model {spec.name!r} is static: it has no {', '.join(others)}, leave that out")
        return contracts.filled(spec, model.contract)

    def content_digest(self, model: ResolvedModel) -> str:
        """The digest of the files' content and the options, whether folder or spec declares the family."""
        files, full = table_files(model.path), replace(model.full, encoder=None)
        if files is None:
            content = resolved.model_content(model.location)
            return resolved.digest_of(["static", self.version, options_in_key(self), content], full)
        if files.modules:
            return resolved.digest_of(resolved.module_contents(model.path), full)
        read = [[path.name, resolved.file_identity(path)] for path in (*files.weights, files.tokenizer)]
        return resolved.digest_of(["static", files.normalised, read], full)

    def look_up(self, model: ResolvedModel) -> Lookup:
        """The size of the files."""
        files = None if model.folder is None else table_files(model.folder)
        if files is None:
            return model.location.look_up()
        files.check()
        return Lookup(there=sum(path.stat().st_size for path in (*files.weights, files.tokenizer)))

    def load(self, model: ResolvedModel, device: str | None = None, precision: Precision | None = None) -> "Encoder":
        """The model in evaluation mode, always in float32. Raises ModelError: it does not support its spec."""
        from hardneg.encoders.static_encoder import make_static, open_static

        files = table_files(model.path)
        if files is None:
            return make_static(model, self, device)
        if self != Static():
            raise ModelError(f"model {model.spec.name!r} is static already: leave the options of encoder out")
        return open_static(model, files, device)
