"""What the stages share that may have a guide: its fields, what is wrong with them, and its vectors."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

from pydantic import AfterValidator, ConfigDict, Field, with_config

from hardneg.digest import digest
from hardneg.errors import UsageError
from hardneg.fields import LATER, Name, Reference, Trait, without_problems
from hardneg.registry import needs_of
from hardneg.stages.context import StageContext
from hardneg.stages.encoded_queries import NOT_ONE_VECTOR, encoded_queries
from hardneg.stages.inputs import open_collection, open_searcher
from hardneg.stages.spec import RecipeView
from hardneg.stages.training_common import EncoderTrainingSpec
from hardneg.training.masks import GUIDES, GuidedMask

if TYPE_CHECKING:
    from hardneg.training.examples import TrainingData

with_config(ConfigDict(extra="forbid"))(GuidedMask)

_MODEL = "guide.model"
_GUIDE = Reference(("index",), refuses={**NOT_ONE_VECTOR, Trait.SEGMENTS: "name one without `segments`"})
_FROM_A_GUIDE = ("teacher", *GUIDES)


class GuidedSpec(EncoderTrainingSpec):
    """What the stages have in common that may have a guide.

    guide: an encode stage, whose vectors of the documents, with the queries as its model encodes them, score each
    batch; a loss that learns a teacher's scores learns these where no run is named. guided_mask: no negative is what
    the guide scores above its score of the positive, less `margin`, which is `absolute` or, as `kind` says, `relative`
    to that score.
    """

    guide: Annotated[Name | None, _GUIDE] = None
    guided_mask: Annotated[GuidedMask, AfterValidator(without_problems)] | None = Field(
        default=None, json_schema_extra=LATER
    )

    @property
    def given(self) -> tuple[str, ...]:
        """Without a guide none of its parts, nor a teacher's."""
        return tuple(part for part in self.gives if self.guide is not None or part not in _FROM_A_GUIDE)

    def lacks(self, parts: Sequence[str]) -> str:
        """A guide may be all that a loss needs."""
        if {*parts} <= {*_FROM_A_GUIDE} & {*self.gives}:
            return f"guide: missing; {self.loss.name} needs its scores: name an encode stage"
        return super().lacks(parts)

    def implied(self, recipe: RecipeView) -> Mapping[str, str]:
        """The model of the guide."""
        model = None if self.guide is None else recipe.query_model(self.guide)
        return {**super().implied(recipe), **({} if model is None else {_MODEL: model})}

    def problems(self, recipe: RecipeView) -> Iterator[str]:
        """Also a guide that is not there, or that nothing uses."""
        loss, taught = recipe.plugin("loss"), getattr(self, "teacher", None) is not None
        asked = {*needs_of(loss)} & {*_FROM_A_GUIDE}
        if {"teacher", "guide"} <= asked and not taught:
            yield f"teacher: missing; {self.loss.name} learns a run's scores beside the guide's: take stage train"
        if self.guided_mask is not None and self.guide is None:
            yield "guide: missing; guided_mask needs its scores: name an encode stage"
        used = asked - {"teacher"} if taught else asked
        if self.guide is not None and self.guided_mask is None and loss is not None and not used:
            yield f"guide: nothing uses it; give guided_mask, or a loss that learns from it instead of {self.loss.name}"
        yield from super().problems(recipe)


def with_guide(context: StageContext[GuidedSpec], data: "TrainingData") -> "TrainingData":
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
    model = context.inputs[_MODEL]
    queries = encoded_queries(context, model, data.texts, "guide-queries")
    return replace(data, guide=Guide(searcher, queries, digest([source.key, model.key])))


def guide_facts(context: StageContext[GuidedSpec]) -> dict[str, object]:
    """What the model card says of it."""
    mask, source = context.spec.guided_mask, context.inputs.get("guide")
    told: dict[str, object] = {} if source is None else {"Guide": source.name}
    return told if mask is None else {**told, "Guided mask": f"{mask.kind} margin {mask.margin:g}"}
