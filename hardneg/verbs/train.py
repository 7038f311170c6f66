"""Verb `train`: a dual encoder trained on mined negatives, judged on the dev queries while it trains."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field, model_validator

from hardneg.fields import OF_QUERIES, Name, Reference
from hardneg.records.errors import TrainingError
from hardneg.records.layout import RUN
from hardneg.runtime.distributed import barrier, world
from hardneg.store.artifacts import SCRATCH
from hardneg.verbs.shared.context import Facts, StageContext
from hardneg.verbs.shared.stage_spec import Row, Sizes
from hardneg.verbs.shared.training_options import DualLearning

if TYPE_CHECKING:
    from hardneg.formats.collection import StoredCollection
    from hardneg.training.examples import TrainingData
    from hardneg.training.teacher import Teacher

_QUERIES = 4096


class Train(DualLearning):
    """Trains a dual encoder on mined negatives, or, without them, on the other queries' documents for split `train`."""

    version = 1
    purpose = "teach the model to tell the labelled passages from the hard negatives"
    stage: Literal["train"]
    negatives: Annotated[Name | None, Reference(("negatives",))] = Field(
        default=None, description="Mined negatives, and the queries that they are of."
    )
    augmented: Annotated[Name | None, Reference(("negatives",))] = Field(
        default=None,
        description="More negatives, with the queries they are of, such as a label stage makes: their examples are "
        "mixed with the others.",
    )
    teacher: Annotated[Name | None, Reference(("run",), refuses=OF_QUERIES)] = Field(
        default=None,
        description="A run, such as a rerank stage's, whose scores of the queries' own documents a loss may learn; it "
        "is of the queries that the negatives are of.",
    )

    @model_validator(mode="after")
    def _complete(self) -> "Train":
        if self.negatives is None and self.options.negatives_per_query:
            raise ValueError("negatives: missing; for the other queries' documents alone set negatives_per_query to 0")
        return self

    def why(self) -> str:
        """Without mined negatives, the documents of the other queries in the batch."""
        others = "the labelled passages of the other queries in the batch"
        return self.purpose if self.negatives is not None else self.purpose.replace("the hard negatives", others)

    def withheld(self) -> Iterator[tuple[str, str]]:
        """A teacher's scores, where neither a run nor a guide has them."""
        if self.teacher is None and self.guide is None:
            reason = f"missing; {self.loss.name} learns a run's scores, such as those of a rerank stage"
            yield "teacher", f"teacher: {reason}"

    def estimate(self, sizes: Sizes) -> Row:
        """Passes over queries with their documents."""
        from hardneg.verbs.shared.training_common import encoder_training

        return encoder_training(self, sizes)

    def make(self, context: "StageContext[Train]") -> Facts:
        """Trains, saves the model with its card, and leaves the learning curve beside it."""
        from hardneg.training.methods.dual_encoder import train
        from hardneg.verbs.shared.guided import terms_of
        from hardneg.verbs.shared.inputs import open_collection, open_learner
        from hardneg.verbs.shared.training_common import loss_of, save, validation

        collection = open_collection(context.inputs["dataset"])
        encoder = open_learner(context, context.device)
        data, teacher_facts = _data(context, collection)
        result = train(
            encoder,
            data,
            loss_of(context),
            self.options,
            context.folder,
            progress=context.progress,
            validate=validation(context, collection, encoder),
            terms=terms_of(context, encoder),
        )
        if not world().first:
            return {}
        return {**save(context, encoder, _card_facts(context, collection), result), **teacher_facts}


def _data(context: StageContext[Train], collection: "StoredCollection") -> "tuple[TrainingData, dict[str, int]]":
    from hardneg.training.mixture import mixed
    from hardneg.verbs.shared.batch_order import ordered
    from hardneg.verbs.shared.guided import with_guide
    from hardneg.verbs.shared.training_common import examples_of

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


def taught(context: StageContext[Train], data: "TrainingData") -> "tuple[TrainingData, dict[str, int]]":
    """The examples with the scores of the stage's `teacher`, if it names one, and how many lack a scored positive.

    Raises:
        DataError: the run is of other queries.
        TrainingError: it scores no positive of any of them.
    """
    from hardneg.formats.runs import lists_in_order
    from hardneg.training.teacher import Teacher, write_teacher

    source = context.inputs.get("teacher")
    if source is None:
        return data, {}
    folder = context.folder / SCRATCH / "teacher"
    if world().first:
        write_teacher(folder, data.corpus, lists_in_order(source.folder / RUN, data.query_ids))
    barrier()
    teacher = Teacher.open(folder, len(data.corpus))
    scored, known = (sum(counts) for counts in zip(*_scored(data, teacher), strict=True))
    if not scored:
        raise TrainingError(
            f"{context.name}.teacher: {source.name} scores no known positive of the training queries: rerank their run "
            "with `positives: true`"
        )
    if scored < known:
        context.progress.note(
            f"{context.name}: {known - scored} of {known} queries have no positive that {source.name} scores"
        )
    return replace(data, teacher=teacher), {"queries without a positive that the teacher scored": known - scored}


def _scored(data: "TrainingData", teacher: "Teacher") -> Iterator[tuple[int, int]]:
    """By block of queries: how many have a positive with a score, and how many have a positive."""
    import numpy as np

    queries = iter(enumerate(data.query_ids))
    yield 0, 0
    while block := list(islice(queries, _QUERIES)):
        pairs = [(rows, doc_id) for rows, query_id in block for doc_id in data.positives.get(query_id, ())]
        rows = np.array([rows for rows, _ in pairs], np.int64)
        scores = teacher.scores(rows, data.corpus.rows([doc_id for _, doc_id in pairs])[:, None])[:, 0]
        yield len(np.unique(rows[~np.isnan(scores)])), len(np.unique(rows))


def _card_facts(context: StageContext[Train], collection: "StoredCollection") -> dict[str, object]:
    from hardneg.verbs.shared.guided import terms_facts
    from hardneg.verbs.shared.training_common import data_facts

    negatives, more = context.inputs.get("negatives"), context.inputs.get("augmented")
    if negatives is None:
        queries, chosen = len(collection.queries("train").query_ids), "the other queries' documents"
    else:
        queries = negatives.count("queries")
        maker = negatives.plugins.get("miner", negatives.name)
        chosen = f"{context.spec.options.negatives_per_query} a query from {maker}"
    facts = data_facts(collection.corpus, queries)
    if "teacher" in context.inputs:
        facts["Teacher"] = f"the scores of {context.inputs['teacher'].name}"
    if more is not None:
        facts["Augmented"] = f"{more.facts['queries']} more queries from {more.name}"
    return {**facts, "Negatives": chosen, **terms_facts(context)}
