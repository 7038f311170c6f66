"""What can be said about the training of a reranker."""

from dataclasses import dataclass

from hardneg.training.options import TrainOptions


@dataclass(frozen=True)
class RerankerOptions(TrainOptions):
    """The options of a training run, with other defaults: four negatives a query, a lower rate.

    `batch_size` counts queries, as everywhere: of 1 + `negatives_per_query` pairs each.

    Attributes:
        adversarial: how far the word embeddings are moved, along the gradient of the whole table, before the pass that
            is learnt from (the fast gradient method); RocketQA's program does so by 0.01. 0 leaves it out.

    Source: Qu et al., RocketQA (NAACL 2021), section 4.1; Miyato et al., Adversarial Training Methods for
    Semi-Supervised Text Classification (ICLR 2017), Eq. 5.
    """

    negatives_per_query: int = 4
    learning_rate: float = 1e-5
    adversarial: float = 0.0

    def problems(self) -> list[str]:
        """One line for each option that makes no sense."""
        found = super().problems()
        if self.negatives_per_query == 0:
            found.append("negatives_per_query must be 1 or above: a reranker is shown its query's documents alone")
        if not self.adversarial >= 0:
            found.append(f"adversarial must be 0 or above, not {self.adversarial}")
        found += [
            f"{name} has no effect on a reranker, which is shown each query's own documents: leave it out"
            for name in self.given_of_batches()
        ]
        return found
