"""Verb `train`: a dual encoder trained on mined negatives, judged on the dev queries while it trains."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, Literal

from pydantic import model_validator

from hardneg.counting import counted
from hardneg.data.collection import StoredCollection
from hardneg.distributed import world
from hardneg.fields import Name, Reference
from hardneg.stages.context import Facts, StageContext
from hardneg.stages.spec import Row, Sizes
from hardneg.stages.training_common import EncoderTrainingSpec, encoder_training, examples_of, save, taught, validation
from hardneg.training.examples import TrainingData
from hardneg.training.mixture import mixed


class Train(EncoderTrainingSpec):
    """Trains a dual encoder on mined negatives, or, without them, on the other queries' documents for split `train`.

    augmented: more negatives, with the queries they are of, such as a label stage makes: their examples are mixed with
    the others. teacher: a run, such as a rerank stage's, whose scores of the queries' own documents a loss may learn;
    it is of the queries that the negatives are of.
    """

    version = 1
    gives = ("teacher",)
    stage: Literal["train"]
    negatives: Annotated[Name | None, Reference(("negatives",))] = None
    augmented: Annotated[Name | None, Reference(("negatives",))] = None
    teacher: Annotated[Name | None, Reference(("run",))] = None

    @model_validator(mode="after")
    def _complete(self) -> "Train":
        if self.negatives is None and self.options.negatives_per_query:
            raise ValueError("negatives: missing; for the other queries' documents alone set negatives_per_query to 0")
        return self

    @property
    def given(self) -> tuple[str, ...]:
        """No teacher's scores, where none is named."""
        return tuple(part for part in self.gives if part != "teacher" or self.teacher is not None)

    def lacks(self, parts: Sequence[str]) -> str:
        """A loss that learns scores needs a teacher alone."""
        if {*parts} - {*self.gives}:
            return super().lacks(parts)
        return f"teacher: missing; {self.loss.name} learns a run's scores, such as those of a rerank stage"

    def estimate(self, sizes: Sizes) -> Row:
        """Passes over queries with their documents."""
        return encoder_training(self, sizes)

    def make(self, context: "StageContext[Train]") -> Facts:
        """Trains, saves the model with its card, and leaves the learning curve beside it."""
        from hardneg.stages.inputs import open_collection, open_learner
        from hardneg.training.methods.dual_encoder import train

        collection = open_collection(context.inputs["dataset"])
        encoder = open_learner(context, context.device)
        data, told = _data(context, collection)
        result = train(
            encoder,
            data,
            context.plugins["loss"],
            self.options,
            context.folder,
            progress=context.progress,
            validate=validation(context, collection, encoder),
        )
        if not world().first:
            return {}
        return {**save(context, encoder, _card_facts(context, collection), result), **told}


def _data(context: StageContext[Train], collection: StoredCollection) -> tuple[TrainingData, dict[str, int]]:
    """The examples, and what the manifest tells of them."""
    data, told = taught(context, examples_of(collection, context.inputs.get("negatives")))
    if "augmented" in context.inputs:
        data = mixed(data, _listed_alone(examples_of(collection, context.inputs["augmented"])))
    return replace(data, segments=context.spec.segments), told


def _listed_alone(data: TrainingData) -> TrainingData:
    """Without the queries that the negatives lack: whoever made those has counted what was left out."""
    listed = set() if data.negatives is None else {*data.negatives.query_ids}
    kept = [row for row, query_id in enumerate(data.query_ids) if query_id in listed]
    return replace(data, query_ids=[data.query_ids[row] for row in kept], texts=[data.texts[row] for row in kept])


def _card_facts(context: StageContext[Train], collection: StoredCollection) -> dict[str, object]:
    """What the model card says of the data."""
    negatives, more = context.inputs.get("negatives"), context.inputs.get("augmented")
    if negatives is None:
        queries, chosen = len(collection.queries("train").query_ids), "the other queries' documents"
    else:
        queries = negatives.facts["queries"]
        maker = negatives.plugins.get("miner", negatives.name)
        chosen = f"{context.spec.options.negatives_per_query} a query from {maker}"
    told: dict[str, object] = {
        "Dataset": f"{counted(len(collection.corpus), 'passage')}, {counted(queries, 'training query')}"
    }
    if "teacher" in context.inputs:
        told["Teacher"] = f"the scores of {context.inputs['teacher'].name}"
    if more is not None:
        told["Augmented"] = f"{more.facts['queries']} more queries from {more.name}"
    return {**told, "Negatives": chosen}
