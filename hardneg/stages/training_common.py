"""What the stages that train share: their options, examples and teacher, the dev queries, the saved model."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import numpy as np
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, with_config

from hardneg.artifacts import KEPT, SCRATCH
from hardneg.counting import counted
from hardneg.data.collection import StoredCollection
from hardneg.data.negatives import read_negatives
from hardneg.data.qrels import positives
from hardneg.data.queries import Queries
from hardneg.data.runs import Run, lists_in_order
from hardneg.distributed import barrier, world
from hardneg.errors import TrainingError
from hardneg.fields import LATER, START, Loss, Name, OwnCut, Reference, without_problems
from hardneg.layout import MODEL_FOLDER
from hardneg.stages.context import ArtifactInput, StageContext
from hardneg.stages.spec import StageSpec
from hardneg.training.examples import TrainingData
from hardneg.training.history import HISTORY
from hardneg.training.options import TrainOptions
from hardneg.training.teacher import Teacher, write_teacher
from hardneg.types import RankedList

if TYPE_CHECKING:
    from hardneg.models.encoder import Encoder
    from hardneg.training.loop import TrainingResult
    from hardneg.training.validation import ValidationData

_QUERIES = 4096


with_config(ConfigDict(extra="forbid"))(TrainOptions)


class Validation(BaseModel):
    """How to judge the model while it trains: on the dev queries, over a pool of the positives and a run's top."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    split: Name = "dev"
    depth: int = Field(default=20, gt=0)
    queries: int | None = Field(default=None, gt=0)


class TrainingSpec(StageSpec):
    """What all stages that train by a loss have in common.

    gives: the optional parts of a `ScoreBatch` that the stage's batches have, for losses that need them.
    """

    gives: ClassVar[tuple[str, ...]] = ()
    needs_dataset = True
    resumes = True
    loss: Loss
    options: Annotated[TrainOptions, AfterValidator(without_problems)] = Field(default_factory=TrainOptions)
    validation_run: Annotated[Name | None, Reference(("run",))] = None
    validation: Validation = Validation()

    def identity(self) -> dict[str, Any]:
        """The options that only say how often to look or to save are left out."""
        return {**super().identity(), "options": self.options.identity()}

    def settings(self, source: ArtifactInput) -> Mapping[str, object]:
        """The loss, the options that count, and what the training came to in figures."""
        figures = {name: value for name, value in source.facts.items() if isinstance(value, int | float)}
        return {"loss": source.plugins["loss"], **self.options.identity(), **figures}


class EncoderTrainingSpec(TrainingSpec):
    """What the stages that train an encoder have in common.

    segments: how documents are cut, each then scored by its best segment; none reads their first `document_length`
    tokens.
    """

    kind = "model"
    model: Annotated[Name, Reference(("model",))] = START
    segments: OwnCut = Field(default=None, json_schema_extra=LATER)

    @property
    def parts(self) -> Mapping[str, str]:
        """A model, in a folder of its own."""
        return {"model": MODEL_FOLDER}


def examples_of(collection: StoredCollection, negatives: ArtifactInput | None) -> TrainingData:
    """The `training_data` of the queries that were mined or labelled; of split `train` where none were."""
    from hardneg.stages.inputs import own_queries

    split = "train" if negatives is None else getattr(negatives.spec, "split", "train")
    return training_data(collection, own_queries(negatives) or collection.queries(split), negatives)


def training_data(collection: StoredCollection, queries: Queries, negatives: ArtifactInput | None) -> TrainingData:
    """Queries with all that is known to be relevant to them, and their mined negatives, if any."""
    from hardneg.layout import NEGATIVES

    lists = None if negatives is None else read_negatives(negatives.folder / NEGATIVES)
    known: Mapping[str, Sequence[str]] = positives(collection.all_qrels())
    if pseudo := pseudo_positives(negatives):
        known = {**read_negatives(pseudo).positives, **known}
    return TrainingData(collection.corpus, queries.query_ids, queries.texts, known, lists)


def pseudo_positives(negatives: ArtifactInput | None) -> Path | None:
    """The file of mined negatives, where it tells the positives of queries for which none is known."""
    from hardneg.layout import NEGATIVES

    if negatives is None or not getattr(negatives.spec, "pseudo_positives", None):
        return None
    return negatives.folder / NEGATIVES


def taught(work: StageContext[Any], data: TrainingData) -> tuple[TrainingData, dict[str, int]]:
    """The examples with the scores of the stage's `teacher`, if it names one, and how many lack a scored positive.

    Raises:
        DataError: the run is of other queries.
        TrainingError: it scores no positive of any of them.
    """
    from hardneg.layout import RUN

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


def validation(
    work: StageContext[Any], collection: StoredCollection, encoder: "Encoder"
) -> Callable[[], Mapping[str, float]] | None:
    """Measures the encoder on the dev queries; None where the recipe names no run to take the pool from.

    The best weights are chosen by it, so it depends on nothing that was timed.
    """
    from hardneg.models.inference import EncodeOptions
    from hardneg.models.token_budget import usual_budget
    from hardneg.training.validation import pool_validation

    if (data := validation_data(work, collection)) is None:
        return None
    data, settled = replace(data, segments=work.spec.segments), EncodeOptions(usual_budget(encoder.device))
    return pool_validation(encoder, data, work.spec.validation.depth, settled)


def validation_data(work: StageContext[Any], collection: StoredCollection) -> "ValidationData | None":
    """The dev queries, their labels and a run of them; None where the recipe names no run."""
    from hardneg.layout import RUN
    from hardneg.training.validation import ValidationData

    if "validation_run" not in work.inputs:
        return None
    options = work.spec.validation
    queries = collection.queries(options.split)
    query_ids = queries.query_ids[: options.queries]
    return ValidationData(
        collection.corpus,
        query_ids,
        queries.texts[: options.queries],
        collection.qrels(options.split),
        _tops(work.inputs["validation_run"].folder / RUN, queries.query_ids, len(query_ids), options.depth),
    )


def _tops(path: Path, query_ids: Sequence[str], count: int, depth: int) -> Run:
    """The first `depth` documents of the first `count` queries: a run of all may be too large to hold."""
    lists = zip(query_ids, islice(lists_in_order(path, query_ids), count), strict=False)
    return {query_id: RankedList(ranked.doc_ids[:depth], ranked.scores[:depth]) for query_id, ranked in lists}


def save(
    work: StageContext[Any], encoder: "Encoder", facts: Mapping[str, object], result: "TrainingResult"
) -> dict[str, Any]:
    """Saves the model with a card of these and the common facts; returns what the manifest says."""
    from hardneg.layout import MODEL_FOLDER
    from hardneg.models.card import model_card

    options, model = work.spec.options, work.inputs["model"]
    said: dict[str, object] = {
        "Base model": model.name if model.model is None else model.model.name,
        **facts,
        "Loss": work.plugins["loss"],
        "Training": f"{counted(result.steps, 'step')} of {options.batch_size * options.accumulate} queries, "
        f"{options.optimizer}, peak learning rate {options.learning_rate:g}, seed {options.seed}",
    }
    if (cut := work.spec.segments) is not None:
        said["Documents"] = f"by the best of up to {cut.count} segments of {cut.length} tokens"
    if result.best is not None:
        said[f"Dev {options.metric}, over a pool"] = f"{result.best:.4f} at step {result.best_step}"
    encoder.save(work.folder / MODEL_FOLDER, card=model_card(encoder, said))
    work.keep_only(MODEL_FOLDER, KEPT, HISTORY, SCRATCH)
    return result.facts(options.metric)
