"""Documents that do not count for a query: `excluded.tsv`, one `query_id<TAB>doc_id` a line, or with blanks between."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, Protocol, runtime_checkable

from hardneg.formats.text_lines import checked_id, columns, read_lines
from hardneg.records.errors import DataError
from hardneg.records.types import RankedList
from hardneg.store.atomic_write import replacing


class Exclusion(NamedTuple):
    """A document that does not count for a query: neither a result nor a negative of it."""

    query_id: str
    doc_id: str


@runtime_checkable
class HasExcluded(Protocol):
    """A collection with documents that do not count for some queries, such as the page that a question is from.

    Source: BRIGHT (Su et al., ICLR 2025), `excluded_ids`.
    """

    def excluded(self) -> Iterator[Exclusion]:
        """The excluded documents of the queries of all splits."""


def read_excluded(path: Path) -> Iterator[Exclusion]:
    """The excluded documents of a file; a first line `query_id<TAB>doc_id` is a header.

    Raises:
        DataError: the file is missing, or a line has another number of columns or an id that is none.
    """
    for number, line in read_lines(path):
        if exclusion := parse_exclusion(path, number, line):
            yield exclusion


def parse_exclusion(path: Path, number: int, line: str) -> Exclusion | None:
    """What a line of such a file says; None for a header. Raises DataError where it is none."""
    cells = columns(line)
    if len(cells) != 2:
        raise DataError.at(path, number, "a line is QUERY_ID, a tab or blank, and DOC_ID")
    if number == 1 and tuple(cells) == Exclusion._fields:
        return None
    return Exclusion(*(checked_id(path, number, cell) for cell in cells))


def write_excluded(path: Path, exclusions: Iterable[Exclusion]) -> int:
    """Writes each excluded document once, and returns how many there are; without any, nothing is written."""
    once = dict.fromkeys(exclusions)
    if once:
        with replacing(path) as file:
            file.writelines(f"{query_id}\t{doc_id}\n".encode() for query_id, doc_id in once)
    return len(once)


def without_excluded(run: Mapping[str, RankedList], excluded: Mapping[str, Sequence[str]]) -> dict[str, RankedList]:
    """Return the run without the documents that do not count for its queries."""
    kept = dict(run)
    for query_id in excluded.keys() & run.keys():
        ranked, out = run[query_id], frozenset(excluded[query_id])
        stays = [row for row, doc_id in enumerate(ranked.doc_ids) if doc_id not in out]
        kept[query_id] = RankedList([ranked.doc_ids[row] for row in stays], ranked.scores[stays])
    return kept
