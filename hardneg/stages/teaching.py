"""A run as the teacher of a training."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import islice

import numpy as np

from hardneg.artifacts import SCRATCH
from hardneg.data.run_stream import lists_in_order
from hardneg.distributed import barrier, world
from hardneg.errors import TrainingError
from hardneg.stages.search import RUN
from hardneg.stages.work import Work
from hardneg.training.examples import TrainingData
from hardneg.training.teacher import Teacher, write_teacher

_QUERIES = 4096


def taught(work: Work, data: TrainingData) -> tuple[TrainingData, dict[str, int]]:
    """The examples with the scores of the stage's `teacher`, if it names one, and how many lack a scored positive.

    Raises:
        DataError: the run is of other queries.
        TrainingError: it scores no positive of any of them.
    """
    source = work.inputs.get("teacher")
    if source is None:
        return data, {}
    folder = work.folder / SCRATCH / "teacher"
    if world().first:
        write_teacher(folder, data.corpus, lists_in_order(source.folder / RUN, data.query_ids))
    barrier()
    teacher = Teacher.open(folder, len(data.corpus))
    scored, known = (sum(counts) for counts in zip(*_scored(data, teacher), strict=True))
    if not scored:
        raise TrainingError(
            f"{work.name}.teacher: {source.name} scores no known positive of the training queries: rerank their run "
            "with `positives: true`"
        )
    if scored < known:
        work.progress.note(
            f"{work.name}: {known - scored} of {known} queries have no positive that {source.name} scores"
        )
    return replace(data, teacher=teacher), {"queries without a positive that the teacher scored": known - scored}


def _scored(data: TrainingData, teacher: Teacher) -> Iterator[tuple[int, int]]:
    """By block of queries: how many have a positive with a score, and how many have a positive."""
    queries = iter(enumerate(data.query_ids))
    yield 0, 0
    while block := list(islice(queries, _QUERIES)):
        pairs = [(place, doc_id) for place, query_id in block for doc_id in data.positives.get(query_id, ())]
        place = np.array([place for place, _ in pairs], np.int64)
        scores = teacher.scores(place, data.corpus.rows([doc_id for _, doc_id in pairs])[:, None])[:, 0]
        yield len(np.unique(place[~np.isnan(scores)])), len(np.unique(place))
