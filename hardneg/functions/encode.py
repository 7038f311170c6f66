"""`encode`: a corpus as vectors."""

from typing import TYPE_CHECKING, Annotated, Unpack

from hardneg.api.adhoc_recipe import ENCODED
from hardneg.api.arguments import Arg, Dataset, Model, Where, spelled_out

if TYPE_CHECKING:
    from hardneg.api.results import BuiltIndex

_SHARDS = "In shards"


@spelled_out
def encode(
    dataset: Dataset,
    model: Model,
    *,
    shards: Annotated[int | None, Arg("Write the index in this many shards.", panel=_SHARDS, least=1)] = None,
    shard_rows: Annotated[int | None, Arg("Or in shards of this many rows each.", panel=_SHARDS, least=1)] = None,
    **where: Unpack[Where],
) -> "BuiltIndex":
    """Encode a corpus into a dense index that Pyserini's FaissSearcher opens.

    Example: hardneg encode --dataset beir:FOLDER --model NAME --output index

    Example: hardneg encode --dataset D --model M --shards 8 --output index
    """
    from hardneg.api.argument_values import stage
    from hardneg.api.dataset_argument import model_name
    from hardneg.api.results import built_index
    from hardneg.api.workplace import Workplace

    workplace = Workplace.of(where, encode)
    encoded = stage("encode", {"shards": shards, "shard_rows": shard_rows})
    plan = workplace.begin(workplace.recipe(encode, dataset, model, {ENCODED: encoded}))
    return built_index(model_name(model), workplace.artifacts(plan)[ENCODED])
