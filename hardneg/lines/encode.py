"""`encode`: a corpus as vectors."""

from functools import partial
from typing import TYPE_CHECKING, Any

from hardneg.api.adhoc_recipe import ENCODED
from hardneg.lines.base import Arguments, Job, Line, Of
from hardneg.lines.shared_arguments import DATASET, MODEL

if TYPE_CHECKING:
    from hardneg.api.results import BuiltIndex
    from hardneg.api.workplace import Workplace


class EncodeLine(Line):
    """Encode a corpus into a dense index that Pyserini's FaissSearcher opens.

    Example: hardneg encode --dataset beir:FOLDER --model NAME --output index

    Example: hardneg encode --dataset D --model M --shards 8 --output index
    """

    name = "encode"
    returns = "BuiltIndex"
    shows = ("settings", "store", "device", "processes", "engine")
    arguments = (DATASET, MODEL, Of("encode.shards"), Of("encode.shard_rows"))

    def job(self, args: Arguments, workplace: "Workplace") -> Job:
        """One stage."""
        recipe = self.recipe(args, workplace, {ENCODED: args.of("encode")})
        return Job(recipe, partial(_result, args))


def _result(args: Arguments, plan: Any, workplace: "Workplace") -> "BuiltIndex | None":
    from hardneg.api.model_argument import model_name
    from hardneg.api.results import built_index
    from hardneg.runtime.distributed import world

    artifact = workplace.make(plan).artifacts[ENCODED]
    return built_index(model_name(args.model), artifact) if world().first else None
