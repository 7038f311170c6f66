"""The order of a table's rows: that in which a recipe and all that it extends first have them, presets behind."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

Rank = tuple[bool, int, int]
"""Whether a preset brought it, the tree that did, and the place within."""
_TABLES = ("runs", "training")
_SYSTEM = "system"


class RowOrder:
    """Ranks of rows that are written, and of those that systems have.

    trees: what a recipe extends, in the order of laying, and the recipe. preset: the one that is chosen.
    """

    def __init__(self, trees: Iterable[Mapping[str, Any]], preset: str) -> None:
        self._ranks: dict[tuple[str, ...], Rank] = {}
        layers = list(trees)
        presets = [_mapping(_mapping(tree.get("presets")).get(preset)) for tree in layers]
        for late, all_of_them in enumerate((layers, presets)):
            for number, tree in enumerate(all_of_them):
                for path in _paths(tree):
                    self._ranks.setdefault(path, (bool(late), number, len(self._ranks)))

    def of_row(self, written: str) -> Rank:
        """The rank of a row by its path as it is written."""
        return self._ranks.get((written,), (True, len(self._ranks), 0))

    def of_search(self, written: str, end: str) -> Rank:
        """The rank of the row of a system's search: with its system, but late where only a preset has it."""
        system, search = self.of_row(written), self._ranks.get((_SYSTEM, end), (False, -1, 0))
        if system[0] or not search[0]:
            return system
        return (True, *(system if system[1] > search[1] else search)[1:])


def _paths(tree: Mapping[str, Any]) -> Iterator[tuple[str, ...]]:
    for name, stage in _mapping(tree.get("stages")).items():
        if not isinstance(stage, Mapping):
            continue
        if _SYSTEM in stage:
            yield (f"stages.{name}",)
            yield from _searches(stage[_SYSTEM])
        for field in _TABLES:
            yield from ((f"stages.{name}.{field}.{label}",) for label in _mapping(stage.get(field)))
    yield from _searches(_mapping(tree.get("defaults")).get(_SYSTEM))


def _searches(system: Any) -> Iterator[tuple[str, ...]]:
    yield from ((_SYSTEM, str(end)) for end in _mapping(_mapping(system).get("searches")))


def _mapping(value: Any) -> Mapping[Any, Any]:
    return value if isinstance(value, Mapping) else {}
