"""`train`: a model trained on negatives that it mines first."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, Unpack

from hardneg.functions.adhoc_recipe import MINED, TRAINED, training_stage
from hardneg.functions.arguments import TRAIN_OPTION, Arg, Dataset, Model, Setting, TrainSplit, Where, spelled_out
from hardneg.functions.mine import MinedDepth, Miner, mining_stages
from hardneg.records import LOSS, MINED_DEPTH, MINER, MODEL_FOLDER

if TYPE_CHECKING:
    from hardneg.functions.results import TrainedModel


@spelled_out
def train(
    dataset: Dataset,
    model: Model,
    *,
    miner: Miner = MINER,
    loss: Annotated[Setting, Arg("A loss; `hardneg plugins list` shows them.", plugin="losses")] = LOSS,
    options: Annotated[Mapping[str, Any], TRAIN_OPTION] = {},
    split: TrainSplit = None,
    depth: MinedDepth = MINED_DEPTH,
    **where: Unpack[Where],
) -> "TrainedModel":
    """Train a model on negatives that it mines first; SentenceTransformer(FOLDER) opens the result.

    Raises:
        RecipeError: the miner, the loss or training has no such option.

    Example: hardneg train --dataset beir:FOLDER --model NAME --train-option max_steps=500 --output model
    """
    from hardneg.functions.argument_values import mapping_of, stage
    from hardneg.functions.dataset_argument import model_name, split_of
    from hardneg.functions.results import TrainedModel
    from hardneg.functions.session import Session

    session = Session.of(where, train)
    mined = stage("mine", {"miner": miner, "split": split_of(dataset, split, "train")})
    trained = {**stage("train", {"loss": loss}), "negatives": MINED}
    stages = {**mining_stages(mined, depth), TRAINED: training_stage(trained, mapping_of("options", options))}
    artifact = session.artifacts(session.begin(session.recipe(train, dataset, model, stages)))[TRAINED]
    name = f"{model_name(model)}-{TRAINED}"
    return TrainedModel(name, artifact.key, artifact.path / MODEL_FOLDER, artifact.facts)
