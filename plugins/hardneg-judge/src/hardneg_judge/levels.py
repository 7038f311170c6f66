"""Who judges: a reranker that a stage has trained, or a plugin; what it costs, where it counts that."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Protocol, runtime_checkable

from pydantic import BaseModel, ConfigDict, Field, model_validator

from hardneg.plugin import Name, Reference, Reranker, Setting, TrainableReranker

if TYPE_CHECKING:
    from pathlib import Path

    from hardneg_judge.asking import Asking

Request = tuple[str, Sequence[str]]
PAIRS = 4096


class Level(BaseModel):
    """Who judges, and from which score on a passage is relevant.

    reranker: the stage that trained it, or plugin: one to take as it is, such as `chat`.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    reranker: Annotated[Name | None, Reference(("reranker",))] = None
    plugin: Setting | None = None
    relevant_from: float = Field(default=0.5, allow_inf_nan=False)

    @model_validator(mode="after")
    def _complete(self) -> "Level":
        if (self.reranker is None) == (self.plugin is None):
            raise ValueError("give reranker, the name of a stage that trains one, or plugin, one of them")
        return self


@runtime_checkable
class Metered(Protocol):
    """A reranker that counts what it asks of others, such as `chat`."""

    def asking(self, judging: bool = False) -> "Asking":
        """Opens it; judging: what it cannot tell has the score nan."""


@dataclass(frozen=True)
class Opened:
    """A level at work: `scores` gives a score for each passage of each request."""

    name: str
    relevant_from: float
    scorer: "Reranker | Scorer"
    open: ExitStack = field(default_factory=ExitStack)

    @classmethod
    def of(cls, name: str, level: Level, plugin: Reranker, folder: "Path | None", device: str | None) -> "Opened":
        """A reranker of a stage (`folder`: its network's), or a plugin as it is."""
        if isinstance(plugin, TrainableReranker):
            from hardneg.plugin import PairScorer

            return cls(name, level.relevant_from, PairScorer.opened(plugin, folder, device))
        stack = ExitStack()
        scorer = stack.enter_context(plugin.asking(judging=True)) if isinstance(plugin, Metered) else plugin
        return cls(name, level.relevant_from, scorer, stack)

    def scores(self, requests: Iterable[Request]) -> Iterator[Sequence[float]]:
        """One score a passage, in the order given; nan of one that the judge could not tell."""
        return self.scorer.rerank(requests)

    @property
    def at_once(self) -> int:
        """Pairs of a block: enough for full batches, and few enough that progress is told."""
        return int(getattr(self.scorer, "at_once", PAIRS))

    @property
    def counts(self) -> Mapping[str, int]:
        """What was asked of others, by its name; nothing of a network on this machine."""
        return getattr(self.scorer, "counts", Counter[str]())

    @property
    def cost(self) -> float:
        """What that costs."""
        return float(getattr(self.scorer, "cost", 0.0))


class Scorer(Protocol):
    """Scores the passages of queries."""

    def rerank(self, requests: Iterable[Request]) -> Iterator[Sequence[float]]:
        """One score a passage, in the order given."""
