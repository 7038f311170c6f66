"""Text files with one record per line: relevance judgements (TREC or BEIR format), groups and excluded documents.

Groups of documents or queries have lines `id<TAB>group`; excluded documents have lines `query_id<TAB>doc_id`.
"""

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, Protocol, runtime_checkable

from hardneg.formats import text_lines
from hardneg.records import DataError, Judgement, Membership, RankedList
from hardneg.store import replacing

Qrels = dict[str, dict[str, int]]
"""Relevance by query id and document id."""

GRADE_DIGITS = 18
_INTEGER = re.compile(rf"([+-]?[0-9]{{1,{GRADE_DIGITS}}})(?:\.0*)?")
_HEADER = frozenset({"score", "relevance", "rel", "label"})


def iter_qrels(path: Path) -> Iterator[tuple[int, Judgement]]:
    """Stream the judgements in a plain or gzip file, each with its line number.

    A file has TREC's four columns (`query_id iteration doc_id relevance`, separated by any white space) or BEIR's
    three (`query-id corpus-id score`), with or without a header line; the first line determines which. A line
    that starts with `#` and a space is a comment.

    Raises DataError if a line has the wrong number of columns, an id with control characters, or a relevance
    that is not an integer.
    """
    parse = qrels_parser(path)
    for number, line in text_lines.read_lines(path):
        if (judgement := parse(path, number, line)) is not None:
            yield number, judgement


def qrels_parser(path: Path) -> Callable[[Path, int, str], Judgement | None]:
    """Return a parser for the lines of one file of judgements: call it with path, line number and line, in order.

    It returns None for a header or comment. It raises DataError for a bad line, and can then parse the next line.
    """
    width = 0

    def parse(_: Path, number: int, line: str) -> Judgement | None:
        nonlocal width
        cells = text_lines.columns(line)
        if not cells[0].strip("#"):
            return None
        first = not width
        if first:
            if len(cells) not in (3, 4):
                reason = f"expected 4 columns (TREC) or 3 (BEIR) separated by spaces or tabs, found {len(cells)}"
                raise DataError.at(path, number, reason)
            width = len(cells)
            if cells[-1].lower() in _HEADER:
                return None
        if len(cells) != width:
            raise DataError.at(path, number, f"expected {width} columns as in the first line, found {len(cells)}")
        if (grade := _INTEGER.fullmatch(cells[-1])) is None:
            header = f"; a header must end in {', '.join(sorted(_HEADER))}" if first and cells[-1].isalpha() else ""
            header = "; a comment starts with # and a space" if cells[0].startswith("#") else header
            raise DataError.at(path, number, f"relevance {cells[-1]!r} is not a whole number{header}")
        if not line.isprintable():  # a tab is not
            text_lines.checked_id(path, number, cells[0]), text_lines.checked_id(path, number, cells[-2])
        return Judgement(cells[0], cells[-2], int(grade[1]))

    return parse


def read_qrels(path: Path) -> Qrels:
    """Read all judgements of a TREC or BEIR file in file order, including relevance 0 and below.

    Raises DataError if a line is malformed, two judgements conflict, or there are no judgements.
    """
    qrels: Qrels = {}
    for number, (query_id, doc_id, relevance) in iter_qrels(Path(path)):
        judged = qrels.setdefault(query_id, {})
        if judged.setdefault(doc_id, relevance) != relevance:
            grades = f"judged {relevance} here and {judged[doc_id]} on an earlier line"
            raise DataError.at(path, number, f"query {query_id}, document {doc_id}: {grades}; keep one of them")
    if not qrels:
        raise DataError(f"{path}: contains no judgements; use another file")
    return qrels


def write_qrels(path: Path, judgements: Iterable[Judgement]) -> int:
    """Write judgements in TREC's format, completely or not at all; return the number of judgements.

    Raises DataError if an id is empty or has white space, or a relevance is not an integer.
    """
    count = 0
    with replacing(path) as file:
        for judgement in judgements:
            query_id, doc_id, relevance = judgement
            if not (text_lines.one_word(query_id) and text_lines.one_word(doc_id)) or not isinstance(relevance, int):
                reason = "ids must have no white space, and the relevance must be a whole number"
                raise DataError(f"judgement {query_id!r} {doc_id!r} {relevance!r}: {reason}")
            file.write(f"{query_id} 0 {doc_id} {relevance}\n".encode())
            count += 1
    return count


def positives(qrels: Mapping[str, Mapping[str, int]], level: int = 1) -> dict[str, list[str]]:
    """The ids of documents with a relevance of at least `level`, by query id; queries without one are omitted."""
    chosen = (
        (query_id, [name for name, grade in judged.items() if grade >= level]) for query_id, judged in qrels.items()
    )
    return {query_id: doc_ids for query_id, doc_ids in chosen if doc_ids}


def read_groups(path: Path) -> Iterator[Membership]:
    """Yield the memberships in a file with lines `id<TAB>group`. Raises DataError as `parse_membership` does."""
    yield from filter(None, (parse_membership(path, number, line) for number, line in text_lines.read_lines(path)))


def parse_membership(path: Path, number: int, line: str) -> Membership | None:
    """Parse a line `id<TAB>group`; return None for an empty group and for a header (a first line with the id `id`).

    Raises DataError if the line has no tab or an invalid id.
    """
    member_id, tab, rest = line.partition("\t")
    if not tab:
        raise DataError.at(path, number, "no tab; expected ID<TAB>GROUP")
    group = " ".join(rest.partition("\t")[0].split())
    header = number == 1 and member_id.casefold() == "id"
    return Membership(text_lines.checked_id(path, number, member_id), group) if group and not header else None


def write_groups(path: Path, memberships: Iterable[Membership]) -> int:
    """Write one line `id<TAB>group` per member, and return their number. Without members, no file is written.

    Raises DataError if a member is in two groups.
    """
    return _write_pairs(path, _by_member(memberships).items())


def read_query_groups(path: Path) -> dict[str, str]:
    """Read the group of each query from a file with lines `query_id<TAB>group`.

    Raises DataError if the file is missing or malformed, or a query is in two groups.
    """
    try:
        return _by_member(read_groups(path))
    except text_lines.Unplaced as error:
        raise DataError(f"{path}: {error}") from None


def _by_member(memberships: Iterable[Membership]) -> dict[str, str]:
    groups = dict[str, str]()
    for member_id, named in memberships:
        group = " ".join(named.split())
        if groups.setdefault(member_id, group) != group:
            reason = f"{member_id} is in two groups, {groups[member_id]!r} and {group!r}; keep one"
            raise text_lines.Unplaced(Membership(member_id, named), reason)
    return groups


class Exclusion(NamedTuple):
    """A document that must not be a result or a negative of a query."""

    query_id: str
    doc_id: str


@runtime_checkable
class HasExcluded(Protocol):
    """A collection with excluded documents, such as the page that a question was taken from.

    Source: BRIGHT (Su et al., ICLR 2025), `excluded_ids`.
    """

    def excluded(self) -> Iterator[Exclusion]:
        """Yield the excluded documents of each query, for all splits."""


def read_excluded(path: Path) -> Iterator[Exclusion]:
    """Yield the exclusions in a file with two ids per line. Raises DataError as `parse_exclusion` does."""
    yield from filter(None, (parse_exclusion(path, number, line) for number, line in text_lines.read_lines(path)))


def parse_exclusion(path: Path, number: int, line: str) -> Exclusion | None:
    """Parse a line with a query id and a document id; return None for the header `query_id<TAB>doc_id`.

    Raises DataError if the line does not have two columns, or has an invalid id.
    """
    cells = text_lines.columns(line)
    if len(cells) != 2:
        raise DataError.at(path, number, "expected QUERY_ID, a tab or space, and DOC_ID")
    if number == 1 and tuple(cells) == Exclusion._fields:
        return None
    return Exclusion(*(text_lines.checked_id(path, number, cell) for cell in cells))


def write_excluded(path: Path, exclusions: Iterable[Exclusion]) -> int:
    """Write the distinct exclusions, and return their number. Without exclusions, no file is written."""
    return _write_pairs(path, dict.fromkeys(exclusions))


def _write_pairs(path: Path, pairs: Collection[tuple[str, str]]) -> int:
    if pairs:
        with replacing(path) as file:
            file.writelines(f"{one}\t{other}\n".encode() for one, other in pairs)
    return len(pairs)


def without_excluded(run: Mapping[str, RankedList], excluded: Mapping[str, Sequence[str]]) -> dict[str, RankedList]:
    """Return the run with each query's excluded documents removed from its list."""
    both = excluded.keys() & run.keys()
    return {**run, **{query_id: run[query_id].without(frozenset(excluded[query_id])) for query_id in both}}
