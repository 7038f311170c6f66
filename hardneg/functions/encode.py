"""`encode`: a corpus as vectors."""

from typing import TYPE_CHECKING, Unpack

from hardneg.functions.adhoc_recipe import ENCODED
from hardneg.functions.arguments import Dataset, Model, Where, spelled_out

if TYPE_CHECKING:
    from hardneg.functions.results import BuiltIndex


@spelled_out
def encode(dataset: Dataset, model: Model, **where: Unpack[Where]) -> "BuiltIndex":
    """Encode a corpus into a dense index that Pyserini's FaissSearcher opens.

    Example: hardneg encode --dataset beir:FOLDER --model NAME --output index
    """
    from hardneg.functions.argument_values import stage
    from hardneg.functions.dataset_argument import model_name
    from hardneg.functions.results import built_index
    from hardneg.functions.session import Session

    session = Session.of(where, encode)
    plan = session.begin(session.recipe(encode, dataset, model, {ENCODED: stage("encode", {})}))
    return built_index(model_name(model), session.artifacts(plan)[ENCODED])
