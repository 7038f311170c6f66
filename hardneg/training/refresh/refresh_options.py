"""The options of refreshed negatives, and the devices and threads of the inferencer."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import ConfigDict

from hardneg.records import TOP_DEPTH
from hardneg.runtime import World
from hardneg.store import options_in_key
from hardneg.training.options import option, out_of_bounds

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class RefreshOptions:
    """When negatives are mined again, and which are kept.

    Source: Xiong et al., Approximate Nearest Neighbor Negative Contrastive Learning for Dense Text Retrieval
    (ICLR 2021), sections 4 and 5.
    """

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid")

    policy: Literal["every", "synchronous"] = option(
        "every",
        "`every` mines beside the training, once for each multiple of `every` steps, from the newest checkpoint then; "
        "`synchronous` has the training wait at multiples of `every` until the model as it is there has mined, on a "
        "CPU reproducible to the bit.",
    )
    every: int | None = option(None, "Steps between refreshes, and between the checkpoints written for them.", least=1)
    depth: int = option(
        TOP_DEPTH, "The top of the corpus that negatives are taken from, by the model that mines.", least=1
    )
    negatives: int = option(
        20,
        "How many are kept for each query, of what a miner takes the first ones; the published program keeps 20 of the "
        "top 200.",
        least=1,
    )
    choice: Literal["sampled", "top"] = option(
        "sampled",
        "What takes them where no miner is named: `sampled`, that miner, draws them from the top; `top`, the miner "
        "`topk`, takes the best-ranked ones, as the published program does with `ann_measure_topk_mrr`.",
    )
    query_chunks: int = option(
        1,
        "Parts that the queries are cut into; refresh n mines, and is trained on, part n modulo `query_chunks`, of "
        "which the last takes the remainder. The published program has 5.",
        least=1,
    )
    excluded: Literal["known", "last"] = option(
        "known",
        "What is no negative of a query: `known`, any of its positives, or a copy of one; `last`, only the last of its "
        "positives, as in the published program, which trains on no other and so may draw those as negatives.",
    )
    precision: Literal["auto", "fp32", "bf16"] = option(
        "auto", "What the corpus and the queries are encoded in; `auto` is bfloat16 where the device has units for it."
    )
    without_answers: bool = option(
        False, "The filter `answers`; as many as before are kept, of the others among the top."
    )
    answer_match: Literal["string", "regex"] = option(
        "string", "How answers are looked for: as words, or as regular expressions."
    )

    def identity(self) -> dict[str, Any]:
        """The options that may change what is mined."""
        return options_in_key(self)

    def problems(self) -> list[str]:
        lines = [*out_of_bounds(self)]
        if self.every is None:
            lines.append(f"policy {self.policy}: give every")
        if self.negatives > self.depth:
            lines.append(f"negatives must be {self.depth} (depth) or below, not {self.negatives}")
        return lines


@dataclass(frozen=True)
class Devices:
    """The share of each of the two.

    On a CPU shares divide the threads. On GPUs the trainer's is its processes, one GPU each; the inferencer has in
    proportion those that follow, or the trainer's where there are no more.
    """

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid")

    trainer: int = option(1, "Of the process that trains.", least=1)
    inferencer: int = option(1, "Of the process that mines.", least=1)

    def problems(self) -> list[str]:
        return [*out_of_bounds(self)]

    def mining(self, trainer: "torch.device", here: World, gpus: int) -> Sequence[str]:
        """The inferencer's devices; `trainer` is the device of one trainer, `gpus` the number of GPUs."""
        if trainer.type == "cpu":
            return ["cpu"]
        wanted = max(1, here.local_size * self.inferencer // self.trainer)
        free = range(here.local_size, gpus)[:wanted]
        return [f"cuda:{number}" for number in free] or [str(trainer)]

    def threads(self, total: int, here: World) -> tuple[int, int]:
        """Divide `total` threads between a trainer process and the inferencer; at least one each."""
        together = total * self.trainer // (self.trainer + self.inferencer)
        return max(1, together // here.local_size), max(1, total - together)
