"""Which blocks are to be given out, some that follow each other at a time."""

from collections import Counter
from collections.abc import Iterable, Sequence

_MOST = 16  # blocks at a time


class Ranges:
    """The numbers of the blocks that are missing and with no actor, and how often each was lost."""

    def __init__(self, missing: Iterable[int]) -> None:
        self._missing = sorted(missing)
        self._lost = Counter[int]()

    def __len__(self) -> int:
        return len(self._missing)

    def take(self, actors: int) -> Sequence[int]:
        """Blocks for one of so many actors: half of its even share, so that the last ones come out together.

        A faster actor comes more often. They follow each other, as a pass over a run or an index then serves them all.
        They are few, as the cluster may grow.
        """
        share = min(_MOST, max(1, len(self._missing) // (2 * max(1, actors))))
        taken = [number for i, number in enumerate(self._missing[:share]) if number == self._missing[0] + i]
        self._missing = self._missing[len(taken) :]
        return taken

    def give_back(self, numbers: Iterable[int]) -> int:
        """Blocks of an actor that was lost; returns how often the one was lost that was lost the most."""
        back = list(numbers)
        self._missing = sorted([*self._missing, *back])
        self._lost.update(back[:1])
        return max((self._lost[number] for number in back[:1]), default=0)
