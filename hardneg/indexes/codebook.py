"""The options that all product quantisers share, and what they ask of the vectors."""

from dataclasses import dataclass
from typing import Any

from hardneg.errors import UsageError
from hardneg.indexes.compression import Training


@dataclass(frozen=True)
class Codebook:
    """Each vector is cut into `subvectors` parts; a part's code of `bits` bits names one of 2^bits centroids."""

    name: str
    subvectors: int
    bits: int
    sample: int
    seed: int

    @property
    def centroids(self) -> int:
        """How many there are for each part."""
        return int(2**self.bits)

    def check(self) -> None:
        """Refuses options that fit no vectors.

        Raises:
            UsageError: they do not.
        """
        if self.subvectors < 1 or not 1 <= self.bits <= 8:
            raise UsageError(
                f"{self.name}: subvectors is {self.subvectors} and bits is {self.bits}: "
                "subvectors must be at least 1, and bits from 1 to 8"
            )
        self.training().check()

    def training(self, lists: int = 0) -> Training:
        """What the quantiser is trained on, together with the centroids of `lists` lists."""
        least = max(self.centroids, lists)
        what = f"{lists} lists" if lists == least else f"{self.centroids} centroids ({self.bits} bits)"
        return Training(self.name, self.sample, least, self.seed, what)

    def check_dimension(self, dimension: int) -> None:
        """Refuses vectors that cannot be cut into so many equal parts.

        Raises:
            UsageError: they cannot; it says which numbers fit.
        """
        if dimension % self.subvectors:
            fitting = ", ".join(str(m) for m in range(1, dimension + 1) if dimension % m == 0)
            raise UsageError(
                f"{self.name}: vectors of dimension {dimension} cannot be cut into {self.subvectors} subvectors; "
                f"these fit: {fitting}"
            )

    def settle(self, clustering: Any) -> None:
        """Seeds one of faiss's clusterings, and lets it see the whole sample, be it small."""
        clustering.seed = self.seed % (1 << 31)
        clustering.min_points_per_centroid = 1
        clustering.max_points_per_centroid = self.sample
