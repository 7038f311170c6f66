"""Groups of documents and of queries: `groups.tsv`, one `id<TAB>group` a line, maybe with more columns."""

from collections.abc import Iterable, Iterator
from pathlib import Path

from hardneg.formats.text_lines import checked_id, read_lines
from hardneg.records.errors import DataError
from hardneg.records.types import Membership
from hardneg.store.atomic_write import replacing


def read_groups(path: Path) -> Iterator[Membership]:
    """The memberships of a file; a first line that begins with `id` is a header, an empty group is none.

    Raises:
        DataError: the file is missing, or a line has no tab or an id that is none.
    """
    for number, line in read_lines(path):
        member_id, tab, rest = line.partition("\t")
        if not tab:
            raise DataError(f"{path}:{number}: no tab; a line is ID<TAB>GROUP")
        group = rest.partition("\t")[0].strip()
        if group and not (number == 1 and member_id.casefold() == "id"):
            yield Membership(checked_id(path, number, member_id), group)


def write_groups(path: Path, memberships: Iterable[Membership]) -> int:
    """Writes one line a membership, and returns how many there are; without any, nothing is written.

    Raises:
        DataError: one member is in two groups.
    """
    groups = _by_member(path.name, memberships)
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
    return _by_member(str(path), read_groups(path))


def _by_member(name: str, memberships: Iterable[Membership]) -> dict[str, str]:
    groups: dict[str, str] = {}
    for member_id, group in memberships:
        group = " ".join(group.split())
        if groups.setdefault(member_id, group) != group:
            raise DataError(f"{name}: {member_id} is in two groups, {groups[member_id]!r} and {group!r}; give one")
    return groups
