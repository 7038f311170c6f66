"""What a recipe makes once a seed, as the verbs see it that read all of it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import BeforeValidator


def _stage_or_seeds(value: Any) -> Any:
    if isinstance(value, str) and value:
        return value
    seeds = {str(seed): name for seed, name in value.items()} if isinstance(value, Mapping) else {}
    if len(seeds) > 1 and all(seed.isdecimal() and isinstance(name, str) and name for seed, name in seeds.items()):
        return {int(seed): name for seed, name in seeds.items()}
    raise ValueError("must name a stage, or map two seeds or more to a stage each")


BySeed = Annotated[str | dict[int, str], BeforeValidator(_stage_or_seeds)]
"""The stage that is named, or those that made the same with other seeds, by seed."""


def by_label(named: Mapping[str, str | Mapping[int, str]]) -> dict[str, tuple[str, int | None]]:
    """The paths below a field of such names, each with its label, and its seed where there are several."""
    seeds = {label: names if isinstance(names, Mapping) else {None: names} for label, names in named.items()}
    return {
        label if seed is None else f"{label}.{seed}": (label, seed) for label, names in seeds.items() for seed in names
    }


@dataclass(frozen=True)
class SeededStages:
    """The stages that are made once a seed.

    copies: of each, its names by seed. trainings: of each, the stages whose seeds decide what it makes.
    """

    copies: Mapping[str, Mapping[int, str]]
    trainings: Mapping[str, frozenset[str]]

    def of(self, name: str) -> str | dict[int, str]:
        """What stands for a stage where it was named: itself, the one copy of it, or all copies by their seeds."""
        copies = dict(self.copies.get(name, {}))
        return copies if len(copies) > 1 else next(iter(copies.values()), name)

    def share(self, one: str, other: str) -> bool:
        """Whether two stages with the same seed share one draw, such as that of a warm-up of both."""
        return bool(self.trainings.get(one, frozenset()) & self.trainings.get(other, frozenset()))
