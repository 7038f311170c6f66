"""A teacher of a training: a run whose scores of the queries' own documents a loss learns."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from hardneg.fields import OF_QUERIES, Name, Reference
from hardneg.records.errors import TrainingError
from hardneg.records.layout import RUN
from hardneg.runtime.distributed import barrier, world
from hardneg.store.artifacts import SCRATCH
from hardneg.verbs.shared.context import StageContext
from hardneg.verbs.shared.training_options import TrainingGroup

if TYPE_CHECKING:
    from hardneg.training.examples import TrainingData
    from hardneg.training.teacher import Teacher

_QUERIES = 4096


class Taught(TrainingGroup):
    """A teacher, where the loss learns from one."""

    teacher: Annotated[Name | None, Reference(("run",), refuses=OF_QUERIES)] = Field(
        default=None,
        description="A run, such as a rerank stage's, whose scores of the queries' own documents a loss may learn; it "
        "is of the queries that the negatives are of.",
    )

    def withheld(self) -> Iterator[tuple[str, str]]:
        """A teacher's scores, where neither a run nor a guide has them."""
        if self.teacher is None and getattr(self, "guide", None) is None:
            reason = f"missing; {self.loss.name} learns a run's scores, such as those of a rerank stage"
            yield "teacher", f"teacher: {reason}"


def taught(context: StageContext[Taught], data: "TrainingData") -> "tuple[TrainingData, dict[str, int]]":
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
