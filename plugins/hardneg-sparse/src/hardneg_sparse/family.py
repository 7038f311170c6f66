"""The encoder family `sparse`: a transformer that assigns a weight to each term of its vocabulary."""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from hardneg.plugin import encoding, errors, model_files, model_specs, records, resolving, stores

if TYPE_CHECKING:
    from hardneg.plugin import encoders

_OF_VECTORS = {"pooling", "projection", "layer_norm", "activation", "truncate_dim"}
_OF_VECTORS |= {"query_token_type", "document_token_type", "adapter"}


@dataclass(frozen=True)
class Splade(resolving.FolderFamily):
    """A SPLADE encoder, which represents a text by term weights, mostly 0, and compares texts by inner product.

    The weight of a term is the maximum over a text's tokens of log(1 + relu(logit)), where the logits come from the
    masked-language-model head; a transformer without a head gets one built from its embeddings.

    Source: Formal et al., SPLADE v2 (arXiv 2109.10086), Eq. 6. With `pooling` sum, Eq. 1, as in SPLADE (SIGIR 2021).
    With `queries` terms, SPLADE-doc. The second logarithm is from Shen et al. (arXiv 2504.14839).

    Attributes:
        pooling: pooling over tokens, `max` or `sum`; `own` is the model's pooling, or `max` for a new head.
        activation: `relu`, or `log1p_relu`, which applies a second logarithm; `own` is the model's, or `relu`.
        queries: `encoder` encodes queries like documents; `terms` gives each term of a query a trainable weight, which
            is initially 1 and the same in all queries; `own` is the model's setting, or `encoder` for a new one.
        max_terms: how many of the largest weights to keep per encoded text; none uses the model's limit, if any.
    """

    called: ClassVar[str] = "sparse"
    version: ClassVar[int] = 1
    form: ClassVar[encoding.Form] = "weights"
    own: ClassVar[tuple[str, ...]] = ("SparseEncoder",)
    later: ClassVar[frozenset[str]] = frozenset({"pooling", "activation", "queries", "max_terms"})

    pooling: Literal["own", "max", "sum"] = "own"
    activation: Literal["own", "relu", "log1p_relu"] = "own"
    queries: Literal["own", "encoder", "terms"] = "own"
    max_terms: int | None = None

    def __post_init__(self) -> None:
        if self.max_terms is not None and self.max_terms < 1:
            raise errors.PluginError(f"sparse: max_terms must be at least 1, not {self.max_terms}")

    def full(self, model: resolving.ResolvedModel) -> model_specs.FullSpec:
        """Return the full spec; by default, a new model has similarity dot. Raises ModelError for dense-only fields."""
        spec = model.spec
        if odd := spec.changed(sorted(_OF_VECTORS)):
            raise errors.ModelError(f"model {spec.name!r}: {', '.join(odd)} cannot be set for term weights")
        if self.queries == "terms" and spec.twins:
            raise errors.ModelError(
                f"model {spec.name!r}: twins is set, but queries: terms uses no query encoder; omit one of the two"
            )
        new = not spec.similarity and not self.saved(model.files)
        return super().full(replace(model, spec=replace(spec, similarity="dot")) if new else model)

    def remarks(self, files: model_files.ModelFolder) -> list[str]:
        """Return a remark if a new head must be initialised, since the folder has none; else an empty list."""
        architectures = model_files.read_json(files.path / "config.json").get("architectures") or []
        if self.saved(files) or any(str(name).endswith("ForMaskedLM") for name in architectures):
            return []
        return ["it has no masked-language-model head; a new one is initialised from its word embeddings"]

    def saved(self, files: model_files.ModelFolder) -> bool:
        """Return whether the folder contains a sparse encoder already, rather than a transformer to build one from."""
        return files.saved_class in self.own

    def content_digest(self, model: resolving.ResolvedModel) -> str:
        """Return a digest of the files, the spec and the options, with `max_terms` from the files if it is not set."""
        own, options = self.saved(model.files), stores.plugin_identity(self.called, self)["options"]
        if own and (most := model.files.config.get("max_active_dims")) is not None:
            options.setdefault("max_terms", most)
        setting = None if own and not options else records.PluginSetting("sparse", options | {"version": self.version})
        content = resolving.module_contents(model.files.path)
        return resolving.digest_of(content, replace(model.full, encoder=setting))

    def load(
        self, model: resolving.ResolvedModel, device: str | None = None, precision: Any = None
    ) -> "encoders.Encoder":
        """Open the model in evaluation mode. Raises ModelError if its files are incomplete or do not fit the spec."""
        from hardneg.plugin import encoders
        from hardneg_sparse.modules import load_module, terms_of
        from hardneg_sparse.weights import TermWeights

        module: Any = load_module(self, model, device, precision)
        return encoders.Encoder(module, model.full, TermWeights(terms_of(module), module.max_active_dims))
