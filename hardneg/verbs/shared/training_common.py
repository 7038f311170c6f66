"""What the stages that train share in their work: examples, dev queries, estimate, the saved model."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hardneg.fields import Trait
from hardneg.formats.collection import StoredCollection
from hardneg.formats.corpus import Corpus
from hardneg.formats.negatives import read_negatives, with_positives
from hardneg.formats.qrels import positives
from hardneg.formats.queries import Queries
from hardneg.formats.runs import Run, lists_in_order
from hardneg.records.layout import HISTORY, MODEL_FOLDER, NEGATIVES, RUN
from hardneg.records.types import RankedList
from hardneg.records.wording import counted
from hardneg.registry.protocols import Loss
from hardneg.store.artifacts import KEPT, SCRATCH
from hardneg.training.examples import TrainingData
from hardneg.training.options import LearningOptions
from hardneg.verbs.shared.context import ArtifactInput, StageContext
from hardneg.verbs.shared.encoder_learning import DualLearning, EncoderLearning
from hardneg.verbs.shared.inputs import own_queries
from hardneg.verbs.shared.stage_spec import Row, Sizes
from hardneg.verbs.shared.training_options import Judging, Learning

if TYPE_CHECKING:
    from hardneg.encoders.encoder import Encoder
    from hardneg.training.loop import TrainingResult
    from hardneg.training.method import TrainingMethod
    from hardneg.training.validation import ValidationData


def encoder_training(spec: DualLearning, sizes: Sizes) -> Row:
    """What it takes to train an encoder on queries with some documents each."""
    options = spec.options
    steps = options.last_step(sizes.queries("train"))
    disk = (1 + kept_models(steps, options)) * sizes.shape.weights + 3 * learning_bytes(sizes)
    return Row(steps, "steps", disk)


def learning_bytes(sizes: Sizes) -> int:
    """Bytes of the weights that are trained: the model's, or an adapter's alone."""
    adapter, shape = sizes.model.adapter, sizes.shape
    return shape.weights if adapter is None else 4 * adapter.weights(shape.hidden, shape.layers)


def kept_models(steps: int, options: LearningOptions) -> int:
    """How many models are kept on the way."""
    return steps // options.keep_every if options.keep_every else 0


def examples_of(collection: StoredCollection, negatives: ArtifactInput | None) -> TrainingData:
    """The `training_data` of the queries that were mined or labelled; of split `train` where none were."""

    split = "train" if negatives is None else getattr(negatives.spec, "split", "train")
    return training_data(collection, own_queries(negatives) or collection.queries(split), negatives)


def training_data(collection: StoredCollection, queries: Queries, negatives: ArtifactInput | None) -> TrainingData:
    """Queries with all that is known to be relevant to them, and their mined negatives, if any."""
    lists = None if negatives is None else read_negatives(negatives.folder / NEGATIVES)
    known: Mapping[str, Sequence[str]] = positives(collection.all_qrels())
    if pseudo := pseudo_positives(negatives):
        known = with_positives(known, pseudo)
    return TrainingData(collection.corpus, queries.query_ids, queries.texts, known, lists)


def pseudo_positives(negatives: ArtifactInput | None) -> Path | None:
    """The file of mined negatives, where it tells positives beside the collection's."""
    if negatives is None or not negatives.traits & {Trait.PSEUDO_POSITIVES, Trait.MORE_POSITIVES}:
        return None
    return negatives.folder / NEGATIVES


def validation(
    context: StageContext[Judging], collection: StoredCollection, encoder: "Encoder"
) -> Callable[[], Mapping[str, float]] | None:
    """Measures the encoder on the dev queries; None where the recipe names no run to take the pool from."""
    data = validation_data(context, collection)
    return None if data is None else pool_measure(context, data, encoder)


def pool_measure(
    context: StageContext[Judging], data: "ValidationData", encoder: "Encoder"
) -> Callable[[], Mapping[str, float]]:
    """Measures the encoder over the pool of these dev queries."""
    from hardneg.training.validation import pool_validation

    return pool_validation(encoder, replace(data, segments=context.spec.segments), context.spec.validation.depth)


def validation_data(context: StageContext[Judging], collection: StoredCollection) -> "ValidationData | None":
    """The dev queries, their labels and a run of them; None where the recipe names no run."""
    from hardneg.training.validation import ValidationData

    if "validation_run" not in context.inputs:
        return None
    options = context.spec.validation
    queries = collection.queries(options.split)
    query_ids = queries.query_ids[: options.queries]
    return ValidationData(
        collection.corpus,
        query_ids,
        queries.texts[: options.queries],
        collection.judged(options.split),
        _tops(context.inputs["validation_run"].folder / RUN, queries.query_ids, len(query_ids), options.depth),
    )


def _tops(path: Path, query_ids: Sequence[str], count: int, depth: int) -> Run:
    """The first `depth` documents of the first `count` queries: a run of all may be too large to hold."""
    lists = zip(query_ids, islice(lists_in_order(path, query_ids), count), strict=False)
    return {query_id: RankedList(ranked.doc_ids[:depth], ranked.scores[:depth]) for query_id, ranked in lists}


def save(
    context: StageContext[EncoderLearning], encoder: "Encoder", facts: Mapping[str, object], result: "TrainingResult"
) -> dict[str, Any]:
    """Saves the model with a card of these and the common facts; returns what the manifest says."""
    from hardneg.encoders.open.model_card import model_card

    options, model, cut = context.spec.options, context.inputs["model"], context.spec.segments
    base = model.name if model.model is None else model.model.name
    more = {"Documents": f"by the best of up to {cut.count} segments of {cut.length} tokens"} if cut else {}
    batch = f"{options.batch_size * options.accumulate} queries"
    said = {"Base model": base, **facts, **training_facts(context, result, batch, "over a pool", more)}
    encoder.save(context.folder / MODEL_FOLDER, card=model_card(encoder, said))
    return finished(context, result)


def learned(
    context: StageContext[Learning], method: "TrainingMethod", validate: Callable[[], Mapping[str, float]] | None
) -> "TrainingResult":
    """Trains by the stage's loss and options, in its folder."""
    from hardneg.training.loop import learn

    options = context.spec.options
    return learn(method, loss_of(context), options, context.folder, progress=context.progress, validate=validate)


def loss_of(context: StageContext[Learning]) -> Loss:
    """The loss that the stage trains by."""
    return context.plugin("loss", Loss)


def data_facts(context: StageContext[Any], corpus: Corpus, queries: int) -> dict[str, object]:
    """What a model card says of what was trained on."""
    written = ", written from them" if Trait.WRITTEN_QUERIES in context.inputs["dataset"].traits else ""
    return {"Dataset": f"{counted(len(corpus), 'passage')}, {counted(queries, 'training query')}{written}"}


def training_facts(
    context: StageContext[Learning], result: "TrainingResult", batch: str, judged: str, more: Mapping[str, object]
) -> dict[str, object]:
    """What a model card says of the training, with what a batch was and over what the dev metric was taken."""
    options = context.spec.options
    rate = f"{options.optimizer}, peak learning rate {options.learning_rate:g}, seed {options.seed}"
    said = {"Loss": loss_of(context), "Training": f"{counted(result.steps, 'step')} of {batch}, {rate}"}
    best = f"{result.best:.4f} at step {result.best_step}" if result.best is not None else ""
    return {**said, **more, **({f"Dev {options.metric}, {judged}": best} if best else {})}


def finished(context: StageContext[Learning], result: "TrainingResult") -> dict[str, Any]:
    """Leaves the model, those that were kept on the way, and the learning curve; returns what the manifest says."""
    context.keep_only(MODEL_FOLDER, KEPT, HISTORY, SCRATCH)
    return result.facts(context.spec.options.metric)
