"""Verb `train`: a dual encoder trained on mined negatives, judged on the dev queries while it trains."""

from dataclasses import replace
from typing import Annotated, Any, Literal

from pydantic import model_validator

from hardneg.counting import counted
from hardneg.data.collection import StoredCollection
from hardneg.distributed import world
from hardneg.fields import Name, Reference
from hardneg.stages.context import StageContext
from hardneg.stages.training_common import EncoderTrainingSpec, examples_of, save, taught, validation
from hardneg.training.examples import TrainingData
from hardneg.training.mixture import mixed


class Train(EncoderTrainingSpec):
    """Trains a dual encoder on mined negatives, or, without them, on the other queries' documents for split `train`.

    augmented: more negatives, with the queries they are of, such as a label stage makes: their examples are mixed with
    the others. teacher: a run, such as a rerank stage's, whose scores of the queries' own documents a loss may learn;
    it is of the queries that the negatives are of.
    """

    version = 1
    every_process = True
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


def run(work: StageContext[Any]) -> dict[str, Any]:
    """Trains, saves the model with its card, and leaves the learning curve beside it."""
    from hardneg.stages.inputs import open_collection, open_learner
    from hardneg.training.methods.dual_encoder import train

    collection = open_collection(work.inputs["dataset"])
    encoder = open_learner(work, work.device)
    data, told = _data(work, collection)
    result = train(
        encoder,
        data,
        work.plugins["loss"],
        work.spec.options,
        work.folder,
        progress=work.progress,
        validate=validation(work, collection, encoder),
    )
    if not world().first:
        return {}
    return {**save(work, encoder, _card_facts(work, collection), result), **told}


def _data(work: StageContext[Any], collection: StoredCollection) -> tuple[TrainingData, dict[str, int]]:
    """The examples, and what the manifest tells of them."""
    data, told = taught(work, examples_of(collection, work.inputs.get("negatives")))
    if "augmented" in work.inputs:
        data = mixed(data, _listed_alone(examples_of(collection, work.inputs["augmented"])))
    return replace(data, segments=work.spec.segments), told


def _listed_alone(data: TrainingData) -> TrainingData:
    """Without the queries that the negatives lack: whoever made those has counted what was left out."""
    listed = set() if data.negatives is None else {*data.negatives.query_ids}
    kept = [row for row, query_id in enumerate(data.query_ids) if query_id in listed]
    return replace(data, query_ids=[data.query_ids[row] for row in kept], texts=[data.texts[row] for row in kept])


def _card_facts(work: StageContext[Any], collection: StoredCollection) -> dict[str, object]:
    """What the model card says of the data."""
    negatives, more = work.inputs.get("negatives"), work.inputs.get("augmented")
    if negatives is None:
        queries, chosen = len(collection.queries("train").query_ids), "the other queries' documents"
    else:
        queries = negatives.facts["queries"]
        maker = negatives.plugins.get("miner", negatives.name)
        chosen = f"{work.spec.options.negatives_per_query} a query from {maker}"
    told: dict[str, object] = {
        "Dataset": f"{counted(len(collection.corpus), 'passage')}, {counted(queries, 'training query')}"
    }
    if "teacher" in work.inputs:
        told["Teacher"] = f"the scores of {work.inputs['teacher'].name}"
    if more is not None:
        told["Augmented"] = f"{more.facts['queries']} more queries from {more.name}"
    return {**told, "Negatives": chosen}
