"""Verb `train`: a dual encoder trained on mined negatives, judged on the dev queries while it trains."""

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field, model_validator

from hardneg.fields import Name, Reference
from hardneg.runtime.distributed import world
from hardneg.verbs.shared.context import Facts, StageContext
from hardneg.verbs.shared.mixture_options import ManyCollections
from hardneg.verbs.shared.stage_spec import Row, Sizes
from hardneg.verbs.shared.training_options import DualLearning, Taught

if TYPE_CHECKING:
    from hardneg.formats.collection import StoredCollection
    from hardneg.training.examples import TrainingData


class Train(ManyCollections, Taught, DualLearning):
    """Trains a dual encoder on mined negatives, or, without them, on the other queries' documents for split `train`."""

    version = 2
    purpose = "teach the model to tell the relevant passages from the hard negatives"
    stage: Literal["train"]
    negatives: Annotated[Name | None, Reference(("negatives",))] = Field(
        default=None, description="Mined negatives, and the queries that they are of."
    )
    augmented: Annotated[Name | None, Reference(("negatives",))] = Field(
        default=None,
        description="More negatives, with the queries they are of, such as a label stage makes: their examples are "
        "mixed with the others.",
    )

    @model_validator(mode="after")
    def _complete(self) -> "Train":
        if self.negatives is None and self.options.negatives_per_query and not self.datasets:
            raise ValueError("negatives: missing; for the other queries' documents alone set negatives_per_query to 0")
        return self

    def why(self) -> str:
        others = "the relevant passages of the other queries in the batch"
        return (
            self.purpose
            if self.negatives is not None or self.datasets
            else self.purpose.replace("the hard negatives", others)
        )

    def estimate(self, sizes: Sizes) -> Row:
        from hardneg.verbs.shared.training_common import encoder_training

        return encoder_training(self, self.learnt(sizes))

    def make(self, context: "StageContext[Train]") -> Facts:
        """Trains, saves the model with its card, and leaves the learning curve beside it."""
        from hardneg.training.methods.dual_encoder import DualEncoderTraining
        from hardneg.verbs.shared.inputs import open_collection, open_learner
        from hardneg.verbs.shared.training_common import (
            learned,
            mixture_facts,
            mixture_of,
            save,
            terms_facts,
            terms_of,
            validation,
        )

        collection = open_collection(context.inputs["dataset"])
        encoder = open_learner(context, context.device)
        mixture = mixture_of(context) if self.datasets else None
        data, facts = _data(context, collection) if mixture is None else (mixture, dict[str, int]())
        way = DualEncoderTraining(encoder, data, self.options, terms_of(context, encoder))
        result = learned(context, way, validation(context, collection, encoder))
        if not world().first:
            return {}
        if mixture is None:
            said = _card_facts(context, collection)
        else:
            drawn = mixture.examples(self.options).counts(result.steps * self.options.accumulate)
            facts |= {f"examples of {name}": count for name, count in drawn.items()}
            said = {**mixture_facts(context, mixture, drawn), **terms_facts(context)}
        return {**save(context, encoder, said, result), **facts}


def _data(context: StageContext[Train], collection: "StoredCollection") -> "tuple[TrainingData, dict[str, int]]":
    from hardneg.training.sources import mixed
    from hardneg.verbs.shared.training_common import examples_of, ordered, taught, with_guide

    data, teacher_facts = taught(context, examples_of(collection, context.inputs.get("negatives")))
    if "augmented" in context.inputs:
        # without the queries that these negatives lack: whoever made them has counted what was left out
        more = examples_of(collection, context.inputs["augmented"])
        listed = set() if more.negatives is None else {*more.negatives.query_ids}
        kept = [row for row, query_id in enumerate(more.query_ids) if query_id in listed]
        query_ids, texts = [more.query_ids[row] for row in kept], [more.texts[row] for row in kept]
        data = mixed(data, replace(more, query_ids=query_ids, texts=texts))
    data = ordered(context, replace(data, segments=context.spec.segments))
    return with_guide(context, data), teacher_facts


def _card_facts(context: StageContext[Train], collection: "StoredCollection") -> dict[str, object]:
    from hardneg.verbs.shared.training_common import data_facts, terms_facts

    negatives, more = context.inputs.get("negatives"), context.inputs.get("augmented")
    if negatives is None:
        queries, chosen = len(collection.queries("train").query_ids), "the other queries' documents"
    else:
        queries = negatives.count("queries")
        maker = negatives.plugins.get("miner", negatives.name)
        chosen = f"{context.spec.options.negatives_per_query} a query from {maker}"
    facts = data_facts(context, collection.corpus, queries)
    if "teacher" in context.inputs:
        facts["Teacher"] = f"the scores of {context.inputs['teacher'].name}"
    if more is not None:
        facts["Augmented"] = f"{more.facts['queries']} more queries from {more.name}"
    return {**facts, "Negatives": chosen, **terms_facts(context)}
