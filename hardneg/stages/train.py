"""Stage `train`: a dual encoder trained on mined negatives, judged on the dev queries while it trains."""

from collections.abc import Callable, Mapping
from typing import Any

from hardneg.artifacts import SCRATCH
from hardneg.data.collection import StoredCollection
from hardneg.data.negatives import read_negatives
from hardneg.data.qrels import positives
from hardneg.data.runs import read_run
from hardneg.distributed import world
from hardneg.models.card import model_card
from hardneg.models.encoder import Encoder
from hardneg.stages.mine import NEGATIVES
from hardneg.stages.opening import MODEL_FOLDER, open_collection, open_encoder
from hardneg.stages.search import RUN
from hardneg.stages.specs import MineSpec
from hardneg.stages.work import Input, Work
from hardneg.training.examples import TrainingData
from hardneg.training.history import HISTORY
from hardneg.training.loop import TrainingResult, train
from hardneg.training.validation import ValidationData, pool_validation

EVERY_PROCESS = True


def run(work: Work) -> dict[str, Any]:
    """Trains, saves the model with its card, and leaves the learning curve beside it."""
    collection = open_collection(work.inputs["dataset"])
    encoder = open_encoder(work.inputs["model"], work.device)
    result = train(
        encoder,
        _data(work, collection),
        work.plugins["loss"],
        work.spec.options,
        work.folder,
        progress=work.progress,
        validate=_validation(work, collection, encoder),
    )
    if not world().first:
        return {}
    encoder.save(work.folder / MODEL_FOLDER, card=model_card(encoder, _card_facts(work, collection, result)))
    work.keep_only(MODEL_FOLDER, HISTORY, SCRATCH)
    best = (
        {}
        if result.best is None
        else {"best step": result.best_step, f"best dev {work.spec.options.metric}": result.best}
    )
    return {"steps": result.steps, **best, **{f"left out: {reason}": n for reason, n in result.skipped.items()}}


def _data(work: Work, collection: StoredCollection) -> TrainingData:
    source = work.inputs["negatives"]
    assert isinstance(source.spec, MineSpec)
    queries = collection.queries(source.spec.split)
    return TrainingData(
        collection.corpus,
        queries.query_ids,
        queries.texts,
        positives(collection.all_qrels()),
        read_negatives(source.folder / NEGATIVES),
    )


def _validation(work: Work, collection: StoredCollection, encoder: Encoder) -> Callable[[], Mapping[str, float]] | None:
    if "validation_run" not in work.inputs:
        return None
    options = work.spec.validation
    queries = collection.queries(options.split)
    data = ValidationData(
        collection.corpus,
        queries.query_ids[: options.queries],
        queries.texts[: options.queries],
        collection.qrels(options.split),
        read_run(work.inputs["validation_run"].folder / RUN),
    )
    return pool_validation(encoder, data, options.depth)


def _card_facts(work: Work, collection: StoredCollection, result: TrainingResult) -> dict[str, object]:
    """What the model card says of how the model was made."""
    options, negatives = work.spec.options, work.inputs["negatives"]
    facts: dict[str, object] = {
        "Base model": _name(work.inputs["model"]),
        "Dataset": f"{len(collection.corpus)} passages, {negatives.facts['queries']} training queries",
        "Negatives": f"{options.negatives_per_query} a query from {negatives.plugins['miner']}",
        "Loss": work.plugins["loss"],
        "Training": f"{result.steps} steps of {options.batch_size * options.accumulate} queries, {options.optimizer}, "
        f"peak learning rate {options.learning_rate:g}, seed {options.seed}",
    }
    if result.best is not None:
        facts[f"Dev {options.metric}, over a pool"] = f"{result.best:.4f} at step {result.best_step}"
    return facts


def _name(model: Input) -> str:
    return model.model.name if model.model is not None else model.name
