"""The work that stages which train share: examples, their teacher, guide and order, dev queries, the saved model."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from hardneg.fields import Trait
from hardneg.formats.collection import StoredCollection
from hardneg.formats.corpus import Corpus
from hardneg.formats.negatives import read_negatives, with_positives
from hardneg.formats.qrels import positives
from hardneg.formats.queries import Queries
from hardneg.formats.runs import lists_in_order
from hardneg.protocols import Regularizer
from hardneg.records import NEGATIVES, RUN, TrainingError, UsageError, counted
from hardneg.runtime import barrier, world
from hardneg.stages.shared.context import ArtifactInput, StageContext
from hardneg.stages.shared.inputs import encoded_queries, open_collection, open_searcher, own_queries
from hardneg.stages.shared.stage_spec import Row, Sizes
from hardneg.stages.shared.train_config import BatchOptions, DualOptions, EncoderOptions, GuideOptions, TeacherOptions
from hardneg.store import SCRATCH, digest, replacing
from hardneg.training.batch_orders import BatchOrder, TrainingQueries
from hardneg.training.examples import Guide, QueryOrder, Teacher, TrainingData, write_teacher
from hardneg.training.loss_terms import LossTerms

if TYPE_CHECKING:
    from hardneg.encoders.encoder import Encoder

_TEACHER_BLOCK = 4096


def encoder_training(spec: EncoderOptions, sizes: Sizes, split: str = "train", models: int = 1) -> Row:
    """What it takes to train an encoder on the queries of a split; models: how many of its size are left in the end."""
    steps, adapter, shape = spec.options.last_step(sizes.queries(split)), sizes.model.adapter, sizes.shape
    kept = steps // spec.options.keep_every if spec.options.keep_every else 0
    learning = shape.weights if adapter is None else 4 * adapter.weights(shape.hidden, shape.layers)
    return Row(steps, "steps", (models + kept) * shape.weights + 3 * learning)


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


def data_facts(context: StageContext[Any], corpus: Corpus, queries: int) -> dict[str, object]:
    """What a model card says of what was trained on."""
    written = ", written from them" if Trait.WRITTEN_QUERIES in context.inputs["dataset"].traits else ""
    teacher = {"Teacher": f"the scores of {context.inputs['teacher'].name}"} if "teacher" in context.inputs else {}
    return {"Dataset": f"{counted(len(corpus), 'passage')}, {counted(queries, 'training query')}{written}", **teacher}


def with_guide(context: StageContext[GuideOptions], data: TrainingData) -> TrainingData:
    """The examples with the vectors of the stage's guide, if it names one; its model encodes the queries once.

    Raises:
        UsageError: the guide's index gives back no vectors.
        ModelError: its model makes more than one vector of a text.
    """
    from hardneg.protocols import DenseSearcher, StoredSearcher

    source = context.inputs.get("guide")
    if source is None:
        return data
    searcher = open_searcher(source, open_collection(context.inputs["dataset"]), context.device, None)
    if not isinstance(searcher, StoredSearcher | DenseSearcher):
        raise UsageError(f"{context.name}: guide {source.name} holds nothing of documents: name an encode stage")
    model = context.inputs["guide.model"]
    queries = encoded_queries(context, model, data.texts, "guide-queries")
    return replace(data, guide=Guide(searcher, queries, digest([source.key, model.key])))


def guide_facts(context: StageContext[GuideOptions]) -> dict[str, object]:
    mask, source = context.spec.guided_mask, context.inputs.get("guide")
    facts: dict[str, object] = {} if source is None else {"Guide": source.name}
    return facts if mask is None else {**facts, "Guided mask": f"{mask.kind} margin {mask.margin:g}"}


def terms_facts(context: StageContext[DualOptions]) -> dict[str, object]:
    spec = context.spec
    weighted = [f"{dim}" if weight == 1 else f"{dim} (weight {weight:g})" for dim, weight in (spec.dims or {}).items()]
    facts = {
        "Trained at": weighted and f"{', '.join(weighted)} dimensions: the first of a vector can be used alone",
        "Trained for indexes of": ", ".join(spec.precisions),
        "Regularizer": context.plugins.get("regularizer"),
        **guide_facts(context),
        "Self-mask": None if spec.self_mask is None else f"margin {spec.self_mask:g}",
    }
    return {name: value for name, value in facts.items() if value}


def terms_of(context: StageContext[DualOptions], encoder: "Encoder") -> LossTerms:
    """What the stage minimises; tells where the encoder's whole vectors are not among it."""
    spec = context.spec
    if spec.dims and encoder.dimension not in spec.dims:
        whole = f"the model's own {encoder.dimension} are not among them, so its whole vectors are not trained"
        context.progress.note(f"{context.name}: dims: {whole}")
    penalty = None if spec.regularizer is None else context.plugin("regularizer", Regularizer)
    return LossTerms(spec.dims or {}, penalty, spec.guided_mask, spec.self_mask, spec.precisions)


def ordered(context: StageContext[BatchOptions], data: TrainingData) -> TrainingData:
    """The examples in the order that the stage says.

    What the order is made of is made once, by the first process, and kept among the stage's checkpoints, so that all
    processes and a training that is gone on with have the same.

    Raises:
        DataError: the run is of other queries, or a query has no source.
        UsageError: the order cannot be made of these queries.
    """
    if context.spec.batches is None:
        return data
    plugin, size = context.plugin("batches", BatchOrder), context.spec.options.batch_size
    needs: dict[str, Any] = {}
    if "vectors" in plugin.needs:
        model = context.inputs["batches_from.model"]
        needs["vectors"] = encoded_queries(context, model, data.texts, "batches-queries")
    if "run" in plugin.needs:
        needs["run"] = lists_in_order(context.inputs["batches_from"].folder / RUN, data.query_ids)
    queries = replace(TrainingQueries(data.query_ids, data.positives), **needs)
    file = context.folder / SCRATCH / "batches.npy"
    if world().first and not file.exists():
        with context.progress.task("batches", None, "queries"):
            groups = plugin.groups(queries, size, seed=context.spec.options.seed)
            with replacing(file) as out:
                np.lib.format.write_array(out, np.ascontiguousarray(groups, "<i8"), allow_pickle=False)
    barrier()
    return replace(data, order=QueryOrder(plugin, np.load(file, mmap_mode="r", allow_pickle=False), size))


def taught(context: StageContext[TeacherOptions], data: TrainingData) -> tuple[TrainingData, dict[str, int]]:
    """The examples with the scores of the stage's `teacher`, if it names one, and how many lack a scored positive.

    Raises:
        DataError: the run is of other queries.
        TrainingError: it scores no positive of any of them.
    """
    source = context.inputs.get("teacher")
    if source is None:
        return data, {}
    folder = context.folder / SCRATCH / "teacher"
    if world().first:
        write_teacher(folder, data.corpus, lists_in_order(source.folder / RUN, data.query_ids))
    barrier()
    teacher, scored, known = Teacher.open(folder, len(data.corpus)), 0, 0
    queries = iter(enumerate(data.query_ids))
    while block := list(islice(queries, _TEACHER_BLOCK)):
        pairs = [(row, doc_id) for row, query_id in block for doc_id in data.positives.get(query_id, ())]
        rows = np.array([row for row, _ in pairs], np.int64)
        scores = teacher.scores(rows, data.corpus.rows([doc_id for _, doc_id in pairs])[:, None])[:, 0]
        scored, known = scored + len(np.unique(rows[~np.isnan(scores)])), known + len(np.unique(rows))
    if not scored:
        none = f"{source.name} scores no known positive of the training queries"
        raise TrainingError(f"{context.name}.teacher: {none}: rerank their run with `positives: true`")
    if scored < known:
        few = f"{known - scored} of {known} queries have no positive that {source.name} scores"
        context.progress.note(f"{context.name}: {few}")
    return replace(data, teacher=teacher), {"queries without a positive that the teacher scored": known - scored}
