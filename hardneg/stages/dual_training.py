"""What the stages share that score queries against the documents of their batch, and train both sides."""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from pydantic import BeforeValidator, Field, PositiveFloat, PositiveInt

from hardneg.encoders.open import resolve
from hardneg.fields import LATER, RegularizerSetting
from hardneg.protocols import Regularizer
from hardneg.stages.batch_order import BatchedSpec
from hardneg.stages.context import StageContext
from hardneg.stages.guided import GuidedSpec, guide_facts
from hardneg.stages.spec import RecipeView
from hardneg.stages.training_common import FORM_WORDS
from hardneg.training.masks import GUIDES, WITH_EACH_OTHER

if TYPE_CHECKING:
    from hardneg.encoders.encoder import Encoder
    from hardneg.training.loss_terms import LossTerms


def _weighted(value: Any) -> Any:
    """Weights of 1 for a list of dimensions; largest first."""
    if isinstance(value, list | tuple):
        if twice := sorted({dim for dim in value if value.count(dim) > 1}, key=str):
            raise ValueError(f"{twice[0]} stands there twice")
        value = dict.fromkeys(value, 1.0)
    if isinstance(value, Mapping):
        return dict(sorted(value.items(), key=lambda item: -int(item[0]) if str(item[0]).isdigit() else 0))
    return value


Dimensions = Annotated[
    dict[PositiveInt, PositiveFloat], BeforeValidator(_weighted, json_schema_input_type=Any), Field(min_length=1)
]
"""The weight of the loss at each number of dimensions; a list of dimensions gives each a weight of 1."""


class DualTrainingSpec(GuidedSpec, BatchedSpec):
    """What the stages have in common that train both sides, each query against the documents of its batch.

    dims: numbers of dimensions, each of which the loss is taken at, as a list or with a weight each; without them all
    dimensions alone. regularizer: a penalty on what texts are encoded into, added to the loss. self_mask: no negative
    is what the model itself scores above its positive by more than this.
    """

    gives: ClassVar[tuple[str, ...]] = ("teacher", *WITH_EACH_OTHER, *GUIDES)
    dims: Dimensions | None = Field(default=None, json_schema_extra=LATER)
    regularizer: RegularizerSetting = Field(default=None, json_schema_extra=LATER)
    self_mask: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None = Field(default=None, json_schema_extra=LATER)

    @property
    def given(self) -> tuple[str, ...]:
        """Of documents in segments no scores with each other."""
        return tuple(part for part in super().given if part != "document_document" or self.segments is None)

    def lacks(self, parts: Sequence[str]) -> str:
        """Segments may be what is too much."""
        if {*parts} <= {"document_document"}:
            return f"segments: have no scores with each other, which {self.loss.name} needs; leave them out"
        return super().lacks(parts)

    def problems(self, recipe: RecipeView) -> Iterator[str]:
        """Also dimensions that the recipe's model does not have, and a penalty on what it does not make."""
        model = resolve(self.began_with(recipe))
        kept, family = model.dimension, model.known_family
        if self.dims is not None and family is not None and family.form != "vectors":
            yield f"dims: the recipe's model makes {FORM_WORDS[family.form]}, which cannot be cut; leave them out"
        elif self.dims is not None and kept is not None and (most := max(self.dims)) > kept:
            yield f"dims: {most} is more than the {kept} dimensions of the recipe's model; give fewer"
        wanted = getattr(type(recipe.plugin("regularizer")), "form", None)
        if self.regularizer is not None and family is not None and wanted not in (None, family.form):
            told = f"{self.regularizer.name} is a penalty on {FORM_WORDS.get(str(wanted), wanted)}"
            yield f"regularizer: {told}, and the recipe's model makes {FORM_WORDS[family.form]}; leave it out"
        elif self.regularizer is not None and self.segments is not None:
            yield "regularizer: documents in segments have no penalty; leave one of the two out"
        yield from super().problems(recipe)


def terms_facts(context: StageContext[DualTrainingSpec]) -> dict[str, object]:
    """What the model card says of it."""
    spec, told = context.spec, dict[str, object]()
    if spec.dims:
        weighted = [f"{dim}" if weight == 1 else f"{dim} (weight {weight:g})" for dim, weight in spec.dims.items()]
        told["Trained at"] = f"{', '.join(weighted)} dimensions: the first of a vector can be used alone"
    if spec.regularizer is not None:
        told["Regularizer"] = context.plugin("regularizer", Regularizer)
    told |= guide_facts(context)
    if spec.self_mask is not None:
        told["Self-mask"] = f"margin {spec.self_mask:g}"
    return told


def terms_of(context: StageContext[DualTrainingSpec], encoder: "Encoder") -> "LossTerms":
    """What the stage minimises; tells where the encoder's whole vectors are not among it."""
    from hardneg.training.loss_terms import LossTerms

    spec = context.spec
    if spec.dims and encoder.dimension not in spec.dims:
        whole = f"the model's own {encoder.dimension} are not among them, so its whole vectors are not trained"
        context.progress.note(f"{context.name}: dims: {whole}")
    penalty = None if spec.regularizer is None else context.plugin("regularizer", Regularizer)
    return LossTerms(spec.dims or {}, penalty, spec.guided_mask, spec.self_mask)
