"""The family `sparse`: a transformer that gives each term of its vocabulary a weight."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from hardneg.encoders.families.adapters.adapter_source import adapter_of
from hardneg.encoders.open.contract import CONFIG, filled, saved_class
from hardneg.encoders.open.model_files import json_object
from hardneg.encoders.open.resolved import FolderFamily, ResolvedModel, digest_of, model_content
from hardneg.encoders.protocol import Form
from hardneg.encoders.spec import FullSpec, Precision
from hardneg.records.errors import ModelError, PluginError
from hardneg.records.types import PluginSetting
from hardneg.store.identity import options_in_key

if TYPE_CHECKING:
    from hardneg.encoders.encoder import Encoder

_CLASS = "SparseEncoder"
_OF_VECTORS = {"pooling", "projection", "layer_norm", "activation", "truncate_dim"}
_OF_VECTORS |= {"query_token_type", "document_token_type", "adapter"}


@dataclass(frozen=True)
class Splade(FolderFamily):
    """Weights of terms, most of them 0, compared by the inner product: SPLADE.

    The weight of a term is the largest, over a text's tokens, of log(1 + relu(logit)) by the head of masked words; a
    transformer without such a head gets one of its own embeddings.

    Source: Formal et al., SPLADE v2 (arXiv 2109.10086), Eq. 6; Eq. 1 of it with `pooling` sum, as in SPLADE (SIGIR
    2021); SPLADE-doc with `queries` terms; a second logarithm as in Shen et al. (arXiv 2504.14839).

    Attributes:
        pooling: over tokens, `max` or `sum`; `own` is what the model has, and `max` where it has none yet.
        activation: `relu`, or `log1p_relu`, which takes the logarithm once more; `own` as above, else `relu`.
        queries: `encoder` reads queries as documents; `terms` takes a query's own terms, each with one weight for all
            queries, that is 1 at first and learns; `own` is what the model has, else `encoder`.
        max_terms: how many weights of a text are kept where it is encoded, the largest; none is what the model says.
    """

    called: ClassVar[str] = "sparse"
    version: ClassVar[int] = 1
    form: ClassVar[Form] = "weights"
    own: ClassVar[tuple[str, ...]] = (_CLASS,)
    later: ClassVar[frozenset[str]] = frozenset({"pooling", "activation", "queries", "max_terms"})

    pooling: Literal["own", "max", "sum"] = "own"
    activation: Literal["own", "relu", "log1p_relu"] = "own"
    queries: Literal["own", "encoder", "terms"] = "own"
    max_terms: int | None = None

    def __post_init__(self) -> None:
        if self.max_terms is not None and self.max_terms < 1:
            raise PluginError(f"sparse: max_terms must be 1 or more, not {self.max_terms}")

    def full(self, model: ResolvedModel) -> FullSpec:
        """The spec, filled in from the model's folder; inner products, where it holds no sparse encoder yet.

        Raises:
            ModelError: the folder is of another family or not readable, or the spec sets fields of dense vectors.
        """
        spec = model.spec
        if odd := spec.changed(sorted(_OF_VECTORS)):
            raise ModelError(f"model {spec.name!r}: {', '.join(odd)}: not for weights of terms: leave out")
        if self.queries == "terms" and spec.twins:
            raise ModelError(f"model {spec.name!r}: twins: queries of terms have no encoder, leave one of the two out")
        self.check_class(model.path)
        started = spec if spec.similarity or saved_class(model.path) == _CLASS else replace(spec, similarity="dot")
        return filled(started, model.contract, adapter_of(spec, model.path))

    def remarks(self, folder: Path) -> list[str]:
        """That a head is initialised, where there is none."""
        architectures = json_object(folder / "config.json").get("architectures") or []
        if saved_class(folder) == _CLASS or any(str(name).endswith("ForMaskedLM") for name in architectures):
            return []
        return ["it has no head of masked words: a new one is initialised from its word embeddings"]

    def content_digest(self, model: ResolvedModel) -> str:
        """The digest of the files' content and the options; those of this family count where the folder lacks them."""
        options = options_in_key(self)
        own = saved_class(model.path) == _CLASS
        if own and (most := json_object(model.path / CONFIG).get("max_active_dims")) is not None:
            options.setdefault("max_terms", most)
        setting = None if own and not options else PluginSetting("sparse", options | {"version": self.version})
        return digest_of(model_content(model.location), replace(model.full, encoder=setting))

    def load(self, model: ResolvedModel, device: str | None = None, precision: Precision | None = None) -> "Encoder":
        """The model in evaluation mode. Raises ModelError: it does not support what its spec sets."""
        from hardneg.encoders.encoder import Encoder
        from hardneg.encoders.families.sparse.modules import load_module, terms_of
        from hardneg.encoders.families.sparse.weights import TermWeights

        module: Any = load_module(self, model, device, precision)
        return Encoder(module, model.full, TermWeights(terms_of(module), module.max_active_dims))
