"""`encode`: a corpus as vectors."""

from typing import TYPE_CHECKING, Unpack

from hardneg.api.adhoc_recipe import ENCODED
from hardneg.api.arguments import Dataset, Model, Where, spelled_out

if TYPE_CHECKING:
    from hardneg.api.results import BuiltIndex


@spelled_out
def encode(dataset: Dataset, model: Model, **where: Unpack[Where]) -> "BuiltIndex":
    """Encode a corpus into a dense index that Pyserini's FaissSearcher opens.

    Example: hardneg encode --dataset beir:FOLDER --model NAME --output index
    """
    from hardneg.api.argument_values import stage
    from hardneg.api.dataset_argument import model_name
    from hardneg.api.results import built_index
    from hardneg.api.workplace import Workplace

    workplace = Workplace.of(where, encode)
    plan = workplace.begin(workplace.recipe(encode, dataset, model, {ENCODED: stage("encode", {})}))
    return built_index(model_name(model), workplace.artifacts(plan)[ENCODED])
