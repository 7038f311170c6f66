"""What the stages that train share: the queries and their negatives, the dev queries, the facts, the saved model."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

from hardneg.artifacts import KEPT, SCRATCH
from hardneg.counting import counted
from hardneg.data.collection import StoredCollection
from hardneg.data.negatives import read_negatives
from hardneg.data.qrels import positives
from hardneg.data.queries import Queries
from hardneg.data.run_stream import lists_in_order
from hardneg.data.runs import Run
from hardneg.models.card import model_card
from hardneg.models.encoder import EncodeOptions, Encoder
from hardneg.models.token_budget import usual_budget
from hardneg.stages.label_spec import LabelSpec
from hardneg.stages.mine import NEGATIVES
from hardneg.stages.opening import MODEL_FOLDER
from hardneg.stages.own_queries import own_queries
from hardneg.stages.search import RUN
from hardneg.stages.work import Input, Work
from hardneg.training.examples import TrainingData
from hardneg.training.history import HISTORY
from hardneg.training.loop import TrainingResult
from hardneg.training.validation import ValidationData, pool_validation


def examples_of(collection: StoredCollection, negatives: Input | None) -> TrainingData:
    """The `training_data` of the queries that were mined or labelled; of split `train` where none were."""
    split = "train" if negatives is None else getattr(negatives.spec, "split", "train")
    return training_data(collection, own_queries(negatives) or collection.queries(split), negatives)


def training_data(collection: StoredCollection, queries: Queries, negatives: Input | None) -> TrainingData:
    """Queries with all that is known to be relevant to them, and their mined negatives, if any."""
    lists = None if negatives is None else read_negatives(negatives.folder / NEGATIVES)
    known: Mapping[str, Sequence[str]] = positives(collection.all_qrels())
    if pseudo := pseudo_positives(negatives):
        known = {**read_negatives(pseudo).positives, **known}
    return TrainingData(collection.corpus, queries.query_ids, queries.texts, known, lists)


def pseudo_positives(negatives: Input | None) -> Path | None:
    """The file of mined negatives, where it tells the positives of queries for which none is known."""
    if negatives is None:
        return None
    tells = isinstance(negatives.spec, LabelSpec) or getattr(negatives.spec, "pseudo_positives", None)
    return negatives.folder / NEGATIVES if tells else None


def validation(work: Work, collection: StoredCollection, encoder: Encoder) -> Callable[[], Mapping[str, float]] | None:
    """Measures the encoder on the dev queries; None where the recipe names no run to take the pool from.

    The best weights are chosen by it, so it depends on nothing that was timed.
    """
    if (data := validation_data(work, collection)) is None:
        return None
    data, settled = replace(data, segments=work.spec.segments), EncodeOptions(usual_budget(encoder.device))
    return pool_validation(encoder, data, work.spec.validation.depth, settled)


def validation_data(work: Work, collection: StoredCollection) -> ValidationData | None:
    """The dev queries, their labels and a run of them; None where the recipe names no run."""
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
    lists = [
        (ranked.doc_ids[:depth], ranked.scores[:depth]) for ranked in islice(lists_in_order(path, query_ids), count)
    ]
    return Run(list(query_ids[:count]), [list(doc_ids) for doc_ids, _ in lists], [scores for _, scores in lists])


def save(work: Work, encoder: Encoder, facts: Mapping[str, object], result: TrainingResult) -> dict[str, Any]:
    """Saves the model with a card of these and the common facts; returns what the manifest says."""
    options = work.spec.options
    said: dict[str, object] = {
        "Base model": _name(work.inputs["model"]),
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


def _name(model: Input) -> str:
    return model.model.name if model.model is not None else model.name
