"""The options of a reader in a recipe, and of its training."""

from collections.abc import Iterator
from dataclasses import dataclass

from hardneg.plugin import LearningOptions, ModelSpec, option_again

_SHORTEST = 8


@dataclass(frozen=True)
class ReaderSpec:
    """A network that reads a question and a passage together and marks an answer in the passage.

    Attributes:
        name: a folder, a hub id, or `packaged:all-MiniLM-L6-v2`: an encoder, or one with a question-answering head.
        revision: a branch, tag or commit of a hub id.
        length: how many tokens of a question and a passage are read, special ones included; the longer is cut first.
        answer_length: tokens of the longest answer that is read.
    """

    name: str
    revision: str | None = None
    length: int = 350
    answer_length: int = 10

    @property
    def start(self) -> ModelSpec:
        """Where the weights to start from are."""
        return ModelSpec(self.name, self.revision)

    def problems(self) -> list[str]:
        """One line for each field that no reader can have."""
        lines = []
        if not self.name.strip():
            lines.append("name is empty: give a folder, a hub id or packaged:all-MiniLM-L6-v2")
        if self.length < _SHORTEST:
            lines.append(f"length is {self.length}: at least {_SHORTEST} tokens are needed")
        if self.answer_length < 1:
            lines.append(f"answer_length is {self.answer_length}: at least 1 token is needed")
        return lines


@dataclass(frozen=True)
class ReaderOptions(LearningOptions):
    """The options of a training run with other defaults: a passage with an answer and 23 without, 16 questions a step.

    Source: Karpukhin et al., Dense Passage Retrieval for Open-Domain Question Answering (EMNLP 2020), section 6.1.
    """

    batch_size: int = option_again(LearningOptions, "batch_size", 16)
    negatives_per_query: int = option_again(LearningOptions, "negatives_per_query", 23)
    learning_rate: float = option_again(LearningOptions, "learning_rate", 1e-5)
    metric: str = option_again(LearningOptions, "metric", "exact_match")

    def mistakes(self) -> Iterator[str]:
        """Passages are drawn in each epoch."""
        if self.iterate_negatives:
            yield "iterate_negatives has no effect on a reader, which draws passages in each epoch: leave it out"
