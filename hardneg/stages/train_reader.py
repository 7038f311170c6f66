"""Stage `train-reader`: a reader trained on the ranked passages of questions, judged on dev questions meanwhile."""

from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from typing import Any

from hardneg.artifacts import KEPT, SCRATCH
from hardneg.data.collection import StoredCollection
from hardneg.data.qrels import positives
from hardneg.distributed import world
from hardneg.layout import MODEL_FOLDER
from hardneg.reading.answering import Question
from hardneg.reading.reader import Reader
from hardneg.stages.asking import questions
from hardneg.stages.context import StageContext
from hardneg.stages.inputs import open_collection
from hardneg.training.history import HISTORY
from hardneg.training.loop import learn
from hardneg.training.reading.approach import Reading, ReadingLoss
from hardneg.training.reading.data import Answered, reading_data
from hardneg.training.reading.validation import reading_validation


def run(work: StageContext[Any]) -> dict[str, Any]:
    """Trains, saves the reader, and leaves the learning curve beside it."""
    spec = work.spec
    collection = open_collection(work.inputs["dataset"])
    reader = Reader.load(spec.reader, spec.options.seed, work.device)
    answered = Answered(collection.answers(spec.split), positives(collection.all_qrels()))
    data = reading_data(reader, collection.corpus, _asked(work, collection), answered)
    result = learn(
        Reading(reader, data, spec.options),
        ReadingLoss(),
        spec.options,
        work.folder,
        progress=work.progress,
        validate=_validation(work, collection, reader),
    )
    if not world().first:
        return {}
    reader.save(work.folder / MODEL_FOLDER)
    work.keep_only(MODEL_FOLDER, KEPT, HISTORY, SCRATCH)
    return result.facts(spec.options.metric)


def _asked(work: StageContext[Any], collection: StoredCollection) -> Iterator[Question]:
    total = len(collection.queries(work.spec.split))
    with work.progress.task("passages with an answer", total, "questions") as task:
        for question in questions(collection, work.spec.split, work.inputs["run"], work.spec.depth):
            yield question
            task.advance()


def _validation(
    work: StageContext[Any], collection: StoredCollection, reader: Reader
) -> Callable[[], Mapping[str, float]] | None:
    if "validation_run" not in work.inputs:
        return None
    options = work.spec.validation
    asked = questions(collection, options.split, work.inputs["validation_run"], options.depth)
    some = list(islice(asked, options.queries))
    return reading_validation(reader, collection.corpus, some, collection.answers(options.split))
