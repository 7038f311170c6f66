"""Files of lines about ids: relevance judgements, read in TREC's or BEIR's form; groups; and excluded documents.

Groups of documents and of queries are `id<TAB>group` a line, documents that do not count `query_id<TAB>doc_id`.
"""

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, Protocol, runtime_checkable

from hardneg.formats.text_lines import Unplaced, checked_id, columns, one_word, read_lines
from hardneg.records import DataError, Judgement, Membership, RankedList, counted
from hardneg.store import replacing

Qrels = dict[str, dict[str, int]]
"""Relevance by query id and document id."""

GRADE_DIGITS = 18
_INTEGER = re.compile(rf"([+-]?[0-9]{{1,{GRADE_DIGITS}}})(?:\.0*)?")
_HEADER = frozenset({"score", "relevance", "rel", "label"})


def iter_qrels(path: Path) -> Iterator[tuple[int, Judgement]]:
    """Line numbers and judgements of a file, as a stream; plain or gzip.

    Read are TREC's four columns (`query_id iteration doc_id relevance`, any white space between) and BEIR's
    three (`query-id corpus-id score`), with a header line or without. The first line decides which. A line that begins
    with `#` and a blank is a comment.

    Raises DataError where a line has another number of columns, an id with control characters, or a relevance that is
    not a whole number.
    """
    parse = qrels_parser(path)
    for number, line in read_lines(path):
        if (judgement := parse(path, number, line)) is not None:
            yield number, judgement


def qrels_parser(path: Path) -> Callable[[Path, int, str], Judgement | None]:
    """A parser of a file's numbered lines, one after another; a header or a comment gives None.

    A line that is not a judgement raises DataError; the next one may be parsed after it.
    """
    width = 0

    def parse(_: Path, number: int, line: str) -> Judgement | None:
        nonlocal width
        cells = columns(line)
        if not cells[0].strip("#"):
            return None
        first = not width
        if first:
            if len(cells) not in (3, 4):
                reason = f"{counted(len(cells), 'column')}; qrels have 4 (TREC) or 3 (BEIR), between blanks or tabs"
                raise DataError.at(path, number, reason)
            width = len(cells)
            if cells[-1].lower() in _HEADER:
                return None
        if len(cells) != width:
            raise DataError.at(path, number, f"{counted(len(cells), 'column')} where the first line has {width}")
        if (grade := _INTEGER.fullmatch(cells[-1])) is None:
            header = f"; a header ends in {', '.join(sorted(_HEADER))}" if first and cells[-1].isalpha() else ""
            header = "; a comment begins with # and a blank" if cells[0].startswith("#") else header
            raise DataError.at(path, number, f"relevance {cells[-1]!r} is not a whole number{header}")
        if not line.isprintable():  # a tab is not
            checked_id(path, number, cells[0]), checked_id(path, number, cells[-2])
        return Judgement(cells[0], cells[-2], int(grade[1]))

    return parse


def read_qrels(path: Path) -> Qrels:
    """All judgements of a TREC or BEIR file, negative ones too, in the file's order.

    Raises DataError where a line is malformed, a pair is judged in two ways, or there is no judgement at all.
    """
    qrels: Qrels = {}
    for number, (query_id, doc_id, relevance) in iter_qrels(Path(path)):
        judged = qrels.setdefault(query_id, {})
        if judged.setdefault(doc_id, relevance) != relevance:
            reason = f"{query_id} {doc_id} is judged {relevance} here and {judged[doc_id]} before"
            raise DataError.at(path, number, reason)
    if not qrels:
        raise DataError(f"{path}: holds no judgements")
    return qrels


def write_qrels(path: Path, judgements: Iterable[Judgement]) -> int:
    """Writes judgements in TREC's form, whole or not at all, and returns their number.

    Raises DataError where an id is empty or has white space, or a relevance is not an integer.
    """
    count = 0
    with replacing(path) as file:
        for judgement in judgements:
            query_id, doc_id, relevance = judgement
            if not (one_word(query_id) and one_word(doc_id)) or not isinstance(relevance, int):
                reason = "ids must be one word each, the relevance a whole number"
                raise DataError(f"judgement {query_id!r} {doc_id!r} {relevance!r}: {reason}")
            file.write(f"{query_id} 0 {doc_id} {relevance}\n".encode())
            count += 1
    return count


def positives(qrels: Mapping[str, Mapping[str, int]], level: int = 1) -> dict[str, list[str]]:
    """The documents of relevance `level` or more, by query; queries without any are left out."""
    chosen = (
        (query_id, [name for name, grade in judged.items() if grade >= level]) for query_id, judged in qrels.items()
    )
    return {query_id: doc_ids for query_id, doc_ids in chosen if doc_ids}


def read_groups(path: Path) -> Iterator[Membership]:
    """The memberships of a file, as `parse_membership` reads its lines."""
    yield from filter(None, (parse_membership(path, number, line) for number, line in read_lines(path)))


def parse_membership(path: Path, number: int, line: str) -> Membership | None:
    """What a line `id<TAB>group` says; None for a header, a first line of `id`, and for an empty group.

    Raises DataError where the line has no tab, or an id that is none.
    """
    member_id, tab, rest = line.partition("\t")
    if not tab:
        raise DataError.at(path, number, "no tab; a line is ID<TAB>GROUP")
    group = " ".join(rest.partition("\t")[0].split())
    header = number == 1 and member_id.casefold() == "id"
    return Membership(checked_id(path, number, member_id), group) if group and not header else None


def write_groups(path: Path, memberships: Iterable[Membership]) -> int:
    """Writes one line a membership, and returns how many there are; without any, nothing is written.

    Raises DataError where one member is in two groups.
    """
    return _write_pairs(path, _by_member(memberships).items())


def read_query_groups(path: Path) -> dict[str, str]:
    """The group of each query of a file, by its id.

    Raises DataError where the file is missing or has another form, or a query is in two groups.
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
    """The excluded documents of a file, as `parse_exclusion` reads its lines."""
    yield from filter(None, (parse_exclusion(path, number, line) for number, line in read_lines(path)))


def parse_exclusion(path: Path, number: int, line: str) -> Exclusion | None:
    """What a line of two ids says; None for the header `query_id<TAB>doc_id`.

    Raises DataError where the line has another number of columns, or an id that is none.
    """
    cells = columns(line)
    if len(cells) != 2:
        raise DataError.at(path, number, "a line is QUERY_ID, a tab or blank, and DOC_ID")
    if number == 1 and tuple(cells) == Exclusion._fields:
        return None
    return Exclusion(*(checked_id(path, number, cell) for cell in cells))


def write_excluded(path: Path, exclusions: Iterable[Exclusion]) -> int:
    """Writes each excluded document once, and returns how many there are; without any, nothing is written."""
    return _write_pairs(path, dict.fromkeys(exclusions))


def _write_pairs(path: Path, pairs: Collection[tuple[str, str]]) -> int:
    if pairs:
        with replacing(path) as file:
            file.writelines(f"{one}\t{other}\n".encode() for one, other in pairs)
    return len(pairs)


def without_excluded(run: Mapping[str, RankedList], excluded: Mapping[str, Sequence[str]]) -> dict[str, RankedList]:
    """Return the run without the documents that do not count for its queries."""
    both = excluded.keys() & run.keys()
    return {**run, **{query_id: run[query_id].without(frozenset(excluded[query_id])) for query_id in both}}
