"""What a recipe may say of labelling queries that nobody labelled."""

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from hardneg.datasets.held_out import UNLABELLED
from hardneg.stages.spec_parts import Name, Reference, StageSpec


class LabelSpec(StageSpec):
    """Labels the queries of a split by a reranker's scores; queries without a sure positive and negative are left out.

    run: the list to select from. scores: a rerank stage's run of the same queries. above, below, count, depth: those of
    `hardneg.miners.pseudo_labels`. size: keep so many of the labelled queries, drawn by `seed`; a larger size has those
    of a smaller one.
    """

    version = 1
    kind = "negatives"
    needs_dataset = True
    stage: Literal["label"]
    run: Annotated[Name, Reference(("run",))]
    scores: Annotated[Name, Reference(("run",))]
    split: Name = UNLABELLED
    above: float = 0.9
    below: float = 0.1
    count: int = Field(default=4, gt=0)
    depth: int = Field(default=50, gt=0)
    size: int | None = Field(default=None, gt=0)
    seed: int = 42

    @model_validator(mode="after")
    def _complete(self) -> "LabelSpec":
        if self.below > self.above:
            raise ValueError(f"below: {self.below:g} is more than above: {self.above:g}; nothing is sure then")
        return self

    def missing(self, collection: Mapping[str, Any]) -> Iterator[str]:
        """The split."""
        if self.split not in collection["splits"]:
            told = "say what share of the training queries it gets: `dataset: {name: ..., withheld: {unlabelled: 0.5}}`"
            known = ", ".join(collection["splits"])
            yield f"split: no split {self.split!r} in this dataset; " + (
                told if self.split == UNLABELLED else f"it has {known}"
            )

    def identity(self) -> dict[str, Any]:
        """The seed counts where something is drawn."""
        identity = super().identity()
        return identity if self.size else {name: value for name, value in identity.items() if name != "seed"}
