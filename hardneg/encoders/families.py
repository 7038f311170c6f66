"""The encoder families `dense` (a transformer with one vector per text) and `static` (a table of token vectors)."""

from collections.abc import Set
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from hardneg.encoders.open import contract as contracts, model_files, resolved
from hardneg.encoders.open.model_files import ModelFolder, read_json
from hardneg.encoders.protocol import Form
from hardneg.encoders.spec import SIDES, FullSpec, Precision
from hardneg.records import SPEC_FILE, Lookup, ModelError, PluginError
from hardneg.store import options_in_key

_OF_TRANSFORMERS = ("adapter", "pooling", "query_token_type", "document_token_type", "dtype")


@dataclass(frozen=True)
class Dense(resolved.FolderFamily):
    """A transformer with pooling: one vector per text, compared by inner product."""

    called: ClassVar[str] = "dense"
    version: ClassVar[int] = 1
    form: ClassVar[Form] = "vectors"

    def load(self, model: resolved.ResolvedModel, device: str | None = None, precision: Precision | None = None) -> Any:
        """Open the model as an `Encoder` in evaluation mode. Raises ModelError if the model does not fit the spec."""
        from hardneg.encoders.encoder import Encoder
        from hardneg.encoders.open.loading import load_module

        return Encoder(load_module(model, device, precision), model.full)


@dataclass(frozen=True)
class Static(resolved.FolderFamily):
    """A table with one vector per token; the vector of a text is the mean of its token vectors.

    A sentence-transformers folder with a `StaticEmbedding`, a model2vec folder and `packaged:wordllama` each contain a
    table. For any transformer, a table is created from its token embeddings, with the options below.

    Args:
        dimensions: number of principal components to keep; none uses the embeddings unchanged.
        sif: coefficient a of the token weights a / (a + frequency), with Zipf frequencies; none weights tokens equally.
        untrained: whether to replace the token embeddings with random ones of the same shape and variance.
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
            raise PluginError(f"static: dimensions must be at least 1, not {self.dimensions}")
        if self.sif is not None and not self.sif > 0:
            raise PluginError(f"static: sif must be above 0, not {self.sif}")

    def contract(self, files: ModelFolder) -> contracts.Contract:
        """Return the contract of the folder; lengths are unlimited unless the tokenizer truncates.

        Raises ModelError if the folder does not contain a complete model.

        Source: `SentenceTransformer` and `StaticEmbedding`, version 6.
        """
        table, config, own = contracts.table_files(files), dict[str, Any](), dict[str, Any]()
        length: Any = contracts.UNBOUNDED
        normalised, dimension, declared, prompts = True, self.dimensions, "cosine", {"query": "", "document": ""}
        if table is not None:
            table.check()
            config, (declared, prompts) = files.config, contracts.own_values(files)
            normalised = [*files.modules.values()][-1] == "Normalize" if files.trained else table.normalised
            dimension = table.dimension()
            truncation = read_json(table.tokenizer).get("truncation")
            length = truncation.get("max_length") if isinstance(truncation, dict) else contracts.UNBOUNDED
            if isinstance(length, bool) or not isinstance(length, int) or length < 1:
                raise ModelError(f"{table.tokenizer}: invalid truncation length {length!r}; copy the model again")
            own = contracts.saved_values(files.path) if (files.path / SPEC_FILE).is_file() else {}
        values: dict[str, Any] = {"similarity": "cosine" if declared == "dot" and normalised else declared}
        values |= {f"{side}_prompt": prompts[side] for side in SIDES} | {f"{side}_length": length for side in SIDES}
        return contracts.Contract(
            **values | own,
            prompts={} if table is None else prompts,
            default_prompt_name=config.get("default_prompt_name"),
            pooling="mean",
            normalised=normalised,
            dimension=dimension,
            truncate_dim=config.get("truncate_dim"),
            dtype="float32",
        )

    def opens_alone(self, files: ModelFolder, others: Set[str]) -> bool:
        """Return whether sentence-transformers alone can open the model: it saved the folder, and no length is set."""
        return files.trained and contracts.table_files(files) is not None and "query_length" not in others

    def full(self, model: resolved.ResolvedModel) -> FullSpec:
        """Return the full spec. Raises ModelError if files are missing or the spec does not suit a static model."""
        self.check_class(model.files)
        spec = model.spec
        plain = replace(spec, dtype="auto") if spec.dtype == "fp32" else spec
        if others := plain.changed(_OF_TRANSFORMERS):
            raise ModelError(f"model {spec.name!r} is static; omit {', '.join(others)}")
        return contracts.filled(spec, model.contract)

    def content_digest(self, model: resolved.ResolvedModel) -> str:
        """Return a digest of the files and the options. It does not depend on how the family was selected."""
        files, full = model_files.read_folder(model.location.path), replace(model.full, encoder=None)
        if (table := contracts.table_files(files)) is None:
            content = resolved.model_content(model.location)
            return resolved.digest_of(["static", self.version, options_in_key(self), content], full)
        if files.trained:
            return resolved.digest_of(resolved.module_contents(files.path), full)
        read = [[path.name, resolved.file_identity(path)] for path in (*table.weights, table.tokenizer)]
        return resolved.digest_of(["static", table.normalised, read], full)

    def look_up(self, model: resolved.ResolvedModel) -> Lookup:
        """Return the size in bytes of local files and of files to download. Raises ModelError if a file is missing."""
        table = None if model.location.folder is None else contracts.table_files(model.files)
        if table is None:
            return model.location.look_up()
        table.check()
        return Lookup(there=sum(path.stat().st_size for path in (*table.weights, table.tokenizer)))

    def load(self, model: resolved.ResolvedModel, device: str | None = None, precision: Precision | None = None) -> Any:
        """Open the model as a float32 `Encoder` in evaluation mode. Raises ModelError if the spec does not fit."""
        from hardneg.encoders.static_encoder import make_static, open_static

        if (table := contracts.table_files(model.files)) is None:
            return make_static(model, self, device)
        if self != Static():
            raise ModelError(f"model {model.spec.name!r} already has a token table; omit the options of encoder")
        return open_static(model, table, device)
