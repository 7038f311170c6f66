"""What can be said about the training of a reader."""

from dataclasses import dataclass

from hardneg.training.options import TrainOptions


@dataclass(frozen=True)
class ReaderOptions(TrainOptions):
    """The options of a training run with other defaults: a passage with an answer and 23 without, 16 questions a step.

    Source: Karpukhin et al., Dense Passage Retrieval for Open-Domain Question Answering (EMNLP 2020), section 6.1.
    """

    batch_size: int = 16
    negatives_per_query: int = 23
    learning_rate: float = 1e-5
    metric: str = "exact_match"

    def problems(self) -> list[str]:
        """One line for each option that makes no sense."""
        found = super().problems() + [
            f"{name} has no effect on a reader, which is shown each question's own passages: leave it out"
            for name in self.given_of_batches()
        ]
        if self.iterate_negatives:
            found.append(
                "iterate_negatives has no effect on a reader, which draws passages in each epoch: leave it out"
            )
        return found
