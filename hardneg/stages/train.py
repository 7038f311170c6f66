"""Stage `train`: a dual encoder trained on mined negatives, judged on the dev queries while it trains."""

from dataclasses import replace
from typing import Any

from hardneg.data.collection import StoredCollection
from hardneg.distributed import world
from hardneg.stages.learning import save, training_data, validation
from hardneg.stages.opening import open_collection, open_encoder
from hardneg.stages.specs import MineSpec
from hardneg.stages.work import Work
from hardneg.training.examples import TrainingData
from hardneg.training.loop import train

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
        validate=validation(work, collection, encoder),
    )
    if not world().first:
        return {}
    return save(work, encoder, _card_facts(work, collection), result)


def _data(work: Work, collection: StoredCollection) -> TrainingData:
    source = work.inputs.get("negatives")
    split = source.spec.split if source is not None and isinstance(source.spec, MineSpec) else "train"
    return replace(training_data(collection, split, source), segments=work.spec.segments)


def _card_facts(work: Work, collection: StoredCollection) -> dict[str, object]:
    """What the model card says of the data."""
    negatives = work.inputs.get("negatives")
    if negatives is None:
        queries, chosen = len(collection.queries("train").query_ids), "the other queries' documents"
    else:
        queries = negatives.facts["queries"]
        chosen = f"{work.spec.options.negatives_per_query} a query from {negatives.plugins['miner']}"
    return {"Dataset": f"{len(collection.corpus)} passages, {queries} training queries", "Negatives": chosen}
