"""Relevance judgements: read from TREC or BEIR files, written as TREC files."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

from hardneg.formats.text_lines import checked_id, columns, one_word, read_lines
from hardneg.records import DataError, Judgement, counted
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

    Raises:
        DataError: a line has another number of columns, an id with control characters, or a relevance that is not a
            whole number.
    """
    parse = qrels_parser(path)
    for number, line in read_lines(path):
        if (judgement := parse(number, line)) is not None:
            yield number, judgement


def qrels_parser(path: Path) -> Callable[[int, str], Judgement | None]:
    """A parser of numbered lines, one after another; a header or a comment gives None.

    A line that is not a judgement raises DataError; the next one may be parsed after it.
    """
    width = 0

    def parse(number: int, line: str) -> Judgement | None:
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

    Raises:
        DataError: a line is malformed, a pair is judged in two ways, or there is no judgement at all.
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

    Raises:
        DataError: an id is empty or has white space, or a relevance is not an integer.
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
    chosen = {
        query_id: [doc_id for doc_id, relevance in judged.items() if relevance >= level]
        for query_id, judged in qrels.items()
    }
    return {query_id: doc_ids for query_id, doc_ids in chosen.items() if doc_ids}
