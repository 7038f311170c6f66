"""Queries of a file that are asked beside those of a collection, such as ones that nobody has labelled."""

from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

from hardneg.data.topics import topics_part
from hardneg.errors import DataError
from hardneg.types import Query

_SHOWN = 10
OWN = "queries of the file left out: the dataset has them"
SAME_TEXT = "queries of the file with the text of one of the dataset's"


def read_query_file(path: Path, known: Mapping[str, str], facts: Counter[str]) -> Iterator[Query]:
    """The queries of a file in its order; those of `known`, texts by id, are left out and counted in `facts`.

    Args:
        path: lines of an id, a tab and a text, JSON Lines, or TREC's topics; plain or gzip.
        known: the collection's own queries.
        facts: counts, which grow while the queries are gone through.

    Raises:
        DataError: at the end, all mistakes with their lines: lines that are no query, no text, an id that stands
            twice, or one that the collection has with another text.
    """
    problems: list[str] = []
    lines: dict[str, int] = {}
    texts = frozenset(known.values())
    for number, record in topics_part(path).read():
        if not isinstance(record, Query):
            problems.append(str(record))
        elif told := _problem(record, lines, known):
            problems.append(f"{path}:{number}: {told}")
        elif record.query_id in known:
            facts[OWN] += 1
        else:
            lines[record.query_id] = number
            facts[SAME_TEXT] += record.text in texts
            yield record
    if problems:
        more = [f"and {len(problems) - _SHOWN} more"] if len(problems) > _SHOWN else []
        raise DataError("\n".join([*problems[:_SHOWN], *more]))


def _problem(query: Query, lines: Mapping[str, int], known: Mapping[str, str]) -> str | None:
    if not query.text.strip():
        return f"query {query.query_id!r} has no text"
    if query.query_id in lines:
        return f"query id {query.query_id!r} stands in line {lines[query.query_id]} already; make ids unique"
    if known.get(query.query_id, query.text) != query.text:
        return f"query id {query.query_id!r} is one of the dataset's, with another text; give it another id"
    return None
