"""Files of pairs of ids: `groups.tsv`, `id<TAB>group` a line, and `excluded.tsv`, `query_id<TAB>doc_id` a line.

Groups are those of documents and of queries; excluded documents do not count for a query.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, Protocol, runtime_checkable

from hardneg.formats.text_lines import Unplaced, checked_id, columns, read_lines
from hardneg.records import DataError, Membership, RankedList
from hardneg.store import replacing


def read_groups(path: Path) -> Iterator[Membership]:
    """The memberships of a file; a first line that begins with `id` is a header, an empty group is none.

    Raises:
        DataError: the file is missing, or a line has no tab or an id that is none.
    """
    yield from filter(None, (parse_membership(path, number, line) for number, line in read_lines(path)))


def parse_membership(path: Path, number: int, line: str) -> Membership | None:
    """What a line of such a file says; None for a header and for an empty group. Raises DataError where it is none."""
    member_id, tab, rest = line.partition("\t")
    if not tab:
        raise DataError.at(path, number, "no tab; a line is ID<TAB>GROUP")
    group = " ".join(rest.partition("\t")[0].split())
    header = number == 1 and member_id.casefold() == "id"
    return Membership(checked_id(path, number, member_id), group) if group and not header else None


def write_groups(path: Path, memberships: Iterable[Membership]) -> int:
    """Writes one line a membership, and returns how many there are; without any, nothing is written.

    Raises:
        DataError: one member is in two groups.
    """
    groups = _by_member(memberships)
    if groups:
        with replacing(path) as file:
            for member_id, group in groups.items():
                file.write(f"{member_id}\t{group}\n".encode())
    return len(groups)


def read_query_groups(path: Path) -> dict[str, str]:
    """The group of each query of a file, by its id.

    Raises:
        DataError: the file is missing or has another form, or a query is in two groups.
    """
    try:
        return _by_member(read_groups(path))
    except Unplaced as error:
        raise DataError(f"{path}: {error}") from None


def _by_member(memberships: Iterable[Membership]) -> dict[str, str]:
    groups = dict[str, str]()
    for member_id, named in memberships:
        group = " ".join(named.split())
        if groups.setdefault(member_id, group) != group:
            reason = f"{member_id} is in two groups, {groups[member_id]!r} and {group!r}; give one"
            raise Unplaced(Membership(member_id, named), reason)
    return groups


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
    yield from filter(None, (parse_exclusion(path, number, line) for number, line in read_lines(path)))


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
        kept[query_id] = run[query_id].without(frozenset(excluded[query_id]))
    return kept
