"""Which of a source's queries are used: those that a split's judgements name."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from hardneg.counting import counted
from hardneg.data.text_lines import checked_id
from hardneg.errors import DataError
from hardneg.types import Query


@dataclass
class JudgedQueries:
    """Picks the judged queries of each source and remembers what is left."""

    _totals: dict[str, int] = field(default_factory=dict)
    _used: dict[str, set[str]] = field(default_factory=dict)

    def select(self, source: str, queries: Iterable[tuple[int, Query]], named: set[str]) -> Iterator[Query]:
        """The queries whose id is in `named`, in order; each comes with the number of its line or row.

        Raises:
            DataError: an id occurs twice, is empty or has white space.
        """
        seen: set[str] = set()
        used = self._used.setdefault(source, set())
        for number, query in queries:
            checked_id(source, number, query.query_id)
            if query.query_id in seen:
                raise DataError.at(source, number, f"query id {query.query_id!r} stands there twice")
            seen.add(query.query_id)
            if query.query_id in named:
                used.add(query.query_id)
                yield query
        self._totals[source] = len(seen)

    def notes(self) -> list[str]:
        """After all splits were read: how many queries of each source no judgement names."""
        left = {source: total - len(self._used[source]) for source, total in self._totals.items()}
        return [f"{source}: {counted(n, 'query')} left out: no judgement names them" for source, n in left.items() if n]
