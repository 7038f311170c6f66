"""What the stages share that score queries against the documents of their batch, and train both sides."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field, PositiveFloat, PositiveInt, with_config

from hardneg.digest import digest
from hardneg.encoders.kinds import certain_kind, known_dimension
from hardneg.errors import UsageError
from hardneg.fields import LATER, Name, Reference, RegularizerSetting, Trait, without_problems
from hardneg.protocols import Regularizer
from hardneg.registry import needs_of
from hardneg.stages.batch_order import BatchedSpec
from hardneg.stages.context import StageContext
from hardneg.stages.encoded_queries import NOT_ONE_VECTOR, encoded_queries
from hardneg.stages.inputs import open_collection, open_searcher
from hardneg.stages.spec import RecipeView
from hardneg.stages.training_common import FORM_WORDS
from hardneg.training.masks import GUIDES, WITH_EACH_OTHER, GuidedMask

if TYPE_CHECKING:
    from hardneg.encoders.encoder import Encoder
    from hardneg.training.examples import TrainingData
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


with_config(ConfigDict(extra="forbid"))(GuidedMask)

_GUIDES_MODEL = "guide.model"
_GUIDE = Reference(("index",), refuses={**NOT_ONE_VECTOR, Trait.SEGMENTS: "name one without `segments`"})


class DualTrainingSpec(BatchedSpec):
    """What the stages have in common that train both sides, each query against the documents of its batch.

    dims: numbers of dimensions, each of which the loss is taken at, as a list or with a weight each; without them all
    dimensions alone. regularizer: a penalty on what texts are encoded into, added to the loss. guide: an encode stage,
    whose vectors of the documents, with the queries as its model encodes them, score each batch; a loss that learns a
    teacher's scores learns these of all documents of the batch, where no run is named. guided_mask: no negative is what
    the guide scores above its score of the positive, less `margin`, which is `absolute` or, as `kind` says, `relative`
    to that score. self_mask: no negative is what the model itself scores above its positive by more than this.
    """

    gives: ClassVar[tuple[str, ...]] = ("teacher", *WITH_EACH_OTHER, *GUIDES)
    dims: Dimensions | None = Field(default=None, json_schema_extra=LATER)
    regularizer: RegularizerSetting = Field(default=None, json_schema_extra=LATER)
    guide: Annotated[Name | None, _GUIDE] = None
    guided_mask: Annotated[GuidedMask, AfterValidator(without_problems)] | None = Field(
        default=None, json_schema_extra=LATER
    )
    self_mask: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None = Field(default=None, json_schema_extra=LATER)

    @property
    def given(self) -> tuple[str, ...]:
        """What the batches have as the stage is told: of a guide nothing without one, of segments no `d` with `d`."""
        lacking = {*(() if self.guide else ("teacher", *GUIDES)), *(("document_document",) if self.segments else ())}
        return tuple(part for part in self.gives if part not in lacking)

    def lacks(self, parts: Sequence[str]) -> str:
        """A guide may be all that a loss needs."""
        if {*parts} <= {"teacher", *GUIDES}:
            return f"guide: missing; {self.loss.name} needs its scores: name an encode stage"
        if {*parts} <= {"document_document"}:
            return f"segments: have no scores with each other, which {self.loss.name} needs; leave them out"
        return super().lacks(parts)

    def implied(self, recipe: RecipeView) -> Mapping[str, str]:
        """The model of the guide."""
        model = None if self.guide is None else recipe.query_model(self.guide)
        return {**super().implied(recipe), **({} if model is None else {_GUIDES_MODEL: model})}

    def problems(self, recipe: RecipeView) -> Iterator[str]:
        """Also dimensions that the recipe's model does not have, and a penalty on what it does not make."""
        kept, kind = known_dimension(self.began_with(recipe)), certain_kind(self.began_with(recipe))
        if self.dims is not None and kind is not None and kind.form != "vectors":
            yield f"dims: the recipe's model makes {FORM_WORDS[kind.form]}, which cannot be cut; leave them out"
        elif self.dims is not None and kept is not None and (most := max(self.dims)) > kept:
            yield f"dims: {most} is more than the {kept} dimensions of the recipe's model; give fewer"
        wanted = getattr(type(recipe.plugin("regularizer")), "form", None)
        if self.regularizer is not None and kind is not None and wanted not in (None, kind.form):
            told = f"{self.regularizer.name} is a penalty on {FORM_WORDS.get(str(wanted), wanted)}"
            yield f"regularizer: {told}, and the recipe's model makes {FORM_WORDS[kind.form]}; leave it out"
        elif self.regularizer is not None and self.segments is not None:
            yield "regularizer: documents in segments have no penalty; leave one of the two out"
        yield from self._guide_problems(recipe)
        yield from super().problems(recipe)

    def _guide_problems(self, recipe: RecipeView) -> Iterator[str]:
        asked = {*needs_of(recipe.plugin("loss"))} & {"teacher", *GUIDES}
        if {"teacher", "guide"} <= asked and getattr(self, "teacher", None) is None:
            yield f"teacher: missing; {self.loss.name} learns a run's scores beside the guide's: take stage train"
        if self.guided_mask is not None and self.guide is None:
            yield "guide: missing; guided_mask needs its scores: name an encode stage"
        if self.guide is not None and self.guided_mask is None and not asked:
            yield f"guide: nothing uses it; give guided_mask, or a loss that learns from it instead of {self.loss.name}"


def with_guide(context: StageContext[DualTrainingSpec], data: "TrainingData") -> "TrainingData":
    """The examples with the vectors of the stage's guide, if it names one; its model encodes the queries once.

    Raises:
        UsageError: the guide's index gives back no vectors.
        ModelError: its model makes more than one vector of a text.
    """
    from hardneg.protocols import DenseSearcher, StoredSearcher
    from hardneg.training.guide import Guide

    source = context.inputs.get("guide")
    if source is None:
        return data
    searcher = open_searcher(source, open_collection(context.inputs["dataset"]), context.device, None)
    if not isinstance(searcher, StoredSearcher | DenseSearcher):
        raise UsageError(f"{context.name}: guide {source.name} holds nothing of documents: name an encode stage")
    model = context.inputs[_GUIDES_MODEL]
    queries = encoded_queries(context, model, data.texts, "guide-queries")
    return replace(data, guide=Guide(searcher, queries, digest([source.key, model.key])))


def terms_facts(context: StageContext[DualTrainingSpec]) -> dict[str, object]:
    """What the model card says of it."""
    spec, told = context.spec, dict[str, object]()
    if spec.dims:
        weighted = [f"{dim}" if weight == 1 else f"{dim} (weight {weight:g})" for dim, weight in spec.dims.items()]
        told["Trained at"] = f"{', '.join(weighted)} dimensions: the first of a vector can be used alone"
    if spec.regularizer is not None:
        told["Regularizer"] = context.plugin("regularizer", Regularizer)
    if spec.guide is not None:
        told["Guide"] = context.inputs["guide"].name
    if spec.guided_mask is not None:
        told["Guided mask"] = f"{spec.guided_mask.kind} margin {spec.guided_mask.margin:g}"
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
