"""What a guide and further terms make of a training: the guide's vectors, what is minimised, what a card says of it."""

from dataclasses import replace
from typing import TYPE_CHECKING

from hardneg.records.errors import UsageError
from hardneg.registry.protocols import Regularizer
from hardneg.store.digest import digest
from hardneg.verbs.shared.context import StageContext
from hardneg.verbs.shared.encoded_queries import encoded_queries
from hardneg.verbs.shared.encoder_learning import DualLearning
from hardneg.verbs.shared.inputs import open_collection, open_searcher
from hardneg.verbs.shared.training_options import Guidance

if TYPE_CHECKING:
    from hardneg.encoders.encoder import Encoder
    from hardneg.training.examples import TrainingData
    from hardneg.training.loss_terms import LossTerms


def with_guide(context: StageContext[Guidance], data: "TrainingData") -> "TrainingData":
    """The examples with the vectors of the stage's guide, if it names one; its model encodes the queries once.

    Raises:
        UsageError: the guide's index gives back no vectors.
        ModelError: its model makes more than one vector of a text.
    """
    from hardneg.registry.protocols import DenseSearcher, StoredSearcher
    from hardneg.training.guide import Guide

    source = context.inputs.get("guide")
    if source is None:
        return data
    searcher = open_searcher(source, open_collection(context.inputs["dataset"]), context.device, None)
    if not isinstance(searcher, StoredSearcher | DenseSearcher):
        raise UsageError(f"{context.name}: guide {source.name} holds nothing of documents: name an encode stage")
    model = context.inputs["guide.model"]
    queries = encoded_queries(context, model, data.texts, "guide-queries")
    return replace(data, guide=Guide(searcher, queries, digest([source.key, model.key])))


def guide_facts(context: StageContext[Guidance]) -> dict[str, object]:
    """What the model card says of it."""
    mask, source = context.spec.guided_mask, context.inputs.get("guide")
    facts: dict[str, object] = {} if source is None else {"Guide": source.name}
    return facts if mask is None else {**facts, "Guided mask": f"{mask.kind} margin {mask.margin:g}"}


def terms_facts(context: StageContext[DualLearning]) -> dict[str, object]:
    """What the model card says of it."""
    spec, facts = context.spec, dict[str, object]()
    if spec.dims:
        weighted = [f"{dim}" if weight == 1 else f"{dim} (weight {weight:g})" for dim, weight in spec.dims.items()]
        facts["Trained at"] = f"{', '.join(weighted)} dimensions: the first of a vector can be used alone"
    if spec.precisions:
        facts["Trained for indexes of"] = ", ".join(spec.precisions)
    if spec.regularizer is not None:
        facts["Regularizer"] = context.plugin("regularizer", Regularizer)
    facts |= guide_facts(context)
    if spec.self_mask is not None:
        facts["Self-mask"] = f"margin {spec.self_mask:g}"
    return facts


def terms_of(context: StageContext[DualLearning], encoder: "Encoder") -> "LossTerms":
    """What the stage minimises; tells where the encoder's whole vectors are not among it."""
    from hardneg.training.loss_terms import LossTerms

    spec = context.spec
    if spec.dims and encoder.dimension not in spec.dims:
        whole = f"the model's own {encoder.dimension} are not among them, so its whole vectors are not trained"
        context.progress.note(f"{context.name}: dims: {whole}")
    penalty = None if spec.regularizer is None else context.plugin("regularizer", Regularizer)
    return LossTerms(spec.dims or {}, penalty, spec.guided_mask, spec.self_mask, spec.precisions)
