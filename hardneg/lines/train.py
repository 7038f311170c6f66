"""`train`: a model trained on negatives that it mines first."""

from functools import partial
from typing import TYPE_CHECKING, Any

from hardneg.api.adhoc_recipe import MINED, TRAINED, training_stage
from hardneg.lines.base import Arguments, Job, Line, Of
from hardneg.lines.mine import mining_stages
from hardneg.lines.shared_arguments import DATASET, LISTED, MINED_BY, MODEL, TRAIN_OPTIONS
from hardneg.records.named_plugins import LOSS

if TYPE_CHECKING:
    from hardneg.api.results import TrainedModel
    from hardneg.api.workplace import Workplace


class TrainLine(Line):
    """Train a model on negatives that it mines first; SentenceTransformer(FOLDER) opens the result.

    Raises:
        RecipeError: the miner, the loss or training has no such option.

    Example: hardneg train --dataset beir:FOLDER --model NAME --train-option max_steps=500 --output model
    """

    name = "train"
    returns = "TrainedModel"
    shows = ("settings", "store", "device", "processes")
    arguments = (
        DATASET,
        MODEL,
        MINED_BY,
        Of("train.loss", default=LOSS),
        TRAIN_OPTIONS,
        Of("mine.split", of_dataset=True),
        LISTED,
    )

    def job(self, args: Arguments, workplace: "Workplace") -> Job:
        """The stages that encode, search, mine and then train on what was mined."""
        mined = mining_stages(args, self.split(args))
        training = training_stage({**args.of("train"), "negatives": MINED}, args.options)
        return Job(self.recipe(args, workplace, {**mined, TRAINED: training}), partial(_result, args))


def _result(args: Arguments, plan: Any, workplace: "Workplace") -> "TrainedModel | None":
    from hardneg.api.model_argument import model_name
    from hardneg.api.results import TrainedModel
    from hardneg.records.layout import MODEL_FOLDER
    from hardneg.runtime.distributed import world

    artifact = workplace.make(plan).artifacts[TRAINED]
    if not world().first:
        return None
    return TrainedModel(
        f"{model_name(args.model)}-{TRAINED}", artifact.key, artifact.path / MODEL_FOLDER, artifact.facts
    )
