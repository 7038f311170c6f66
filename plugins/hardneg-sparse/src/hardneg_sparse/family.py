"""The family `sparse`: a transformer that gives each term of its vocabulary a weight."""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from hardneg.plugin import encoding, errors, model_files, model_specs, records, resolving, stores

if TYPE_CHECKING:
    from hardneg.plugin import encoders

_OF_VECTORS = {"pooling", "projection", "layer_norm", "activation", "truncate_dim"}
_OF_VECTORS |= {"query_token_type", "document_token_type", "adapter"}


@dataclass(frozen=True)
class Splade(resolving.FolderFamily):
    """A SPLADE encoder: term weights, most of them 0, compared by the inner product.

    The weight of a term is the largest, over a text's tokens, of log(1 + relu(logit)) by the masked-language-model
    head; a transformer without a head gets one made of its embeddings.

    Source: Formal et al., SPLADE v2 (arXiv 2109.10086), Eq. 6; Eq. 1 of it with `pooling` sum, as in SPLADE (SIGIR
    2021); SPLADE-doc with `queries` terms; a second logarithm as in Shen et al. (arXiv 2504.14839).

    Attributes:
        pooling: over tokens, `max` or `sum`; `own` is the model's pooling, or `max` for a new head.
        activation: `relu`, or `log1p_relu`, which takes a second logarithm; `own` is the model's, or `relu`.
        queries: `encoder` encodes queries like documents; `terms` uses a query's own terms, each with one trainable
            weight for all queries, 1 at first; `own` is the model's way, or `encoder`.
        max_terms: the number of largest weights of an encoded text; none is the model's own number.
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
            raise errors.PluginError(f"sparse: max_terms must be 1 or more, not {self.max_terms}")

    def full(self, model: resolving.ResolvedModel) -> model_specs.FullSpec:
        """The filled-in spec; dot by default for a new model. Raises ModelError: it sets fields of dense models."""
        spec = model.spec
        if odd := spec.changed(sorted(_OF_VECTORS)):
            raise errors.ModelError(f"model {spec.name!r}: {', '.join(odd)} cannot be set for term weights: leave out")
        if self.queries == "terms" and spec.twins:
            raise errors.ModelError(
                f"model {spec.name!r}: twins is set, but queries of terms have no encoder: leave out one of the two"
            )
        new = not spec.similarity and not self.saved(model.files)
        return super().full(replace(model, spec=replace(spec, similarity="dot")) if new else model)

    def remarks(self, files: model_files.ModelFolder) -> list[str]:
        """A remark that a new head is initialised, if the folder has none."""
        architectures = model_files.read_json(files.path / "config.json").get("architectures") or []
        if self.saved(files) or any(str(name).endswith("ForMaskedLM") for name in architectures):
            return []
        return ["it has no masked-language-model head: a new one is initialised from its word embeddings"]

    def saved(self, files: model_files.ModelFolder) -> bool:
        """Return whether the folder is of a sparse encoder, and not one to make of a transformer."""
        return files.saved_class in self.own

    def content_digest(self, model: resolving.ResolvedModel) -> str:
        """The digest of the files and the spec, with the options that the folder does not save or `max_active_dims`."""
        own, options = self.saved(model.files), stores.plugin_identity(self.called, self)["options"]
        if own and (most := model.files.config.get("max_active_dims")) is not None:
            options.setdefault("max_terms", most)
        setting = None if own and not options else records.PluginSetting("sparse", options | {"version": self.version})
        content = resolving.module_contents(model.files.path)
        return resolving.digest_of(content, replace(model.full, encoder=setting))

    def load(
        self, model: resolving.ResolvedModel, device: str | None = None, precision: Any = None
    ) -> "encoders.Encoder":
        """Open the model in evaluation mode. Raises ModelError: it does not support its spec."""
        from hardneg.plugin import encoders
        from hardneg_sparse.modules import load_module, terms_of
        from hardneg_sparse.weights import TermWeights

        module: Any = load_module(self, model, device, precision)
        return encoders.Encoder(module, model.full, TermWeights(terms_of(module), module.max_active_dims))
