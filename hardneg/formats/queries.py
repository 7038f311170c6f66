"""The queries of one split, as an Arrow file, and their answers, as JSON Lines; and files of other queries."""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path

import pyarrow as pa

from hardneg.formats import text_lines
from hardneg.formats.arrays import AGAIN
from hardneg.formats.source_files import Part, line_part
from hardneg.records import Answers, ArtifactError, DataError, Query, counted
from hardneg.store import replacing

_SCHEMA = pa.schema([("query_id", pa.string()), ("text", pa.string())])
_ROWS = 8192
_IDS = ("qid", "query_id", "id", "_id")
_TEXTS = ("title", "query", "text", "contents")
_SHOWN = 10
OWN = "queries of the file left out: the dataset has them"
SAME_TEXT = "queries of the file with the text of one of the dataset's"


@dataclass(frozen=True)
class Queries:
    """The queries of one split, in the source's order: ids, and texts beside them."""

    query_ids: list[str]
    texts: Sequence[str]

    def __len__(self) -> int:
        return len(self.query_ids)

    def __iter__(self) -> Iterator[Query]:
        return map(Query, self.query_ids, self.texts)

    @classmethod
    def open(cls, path: Path) -> "Queries":
        """Reads the file that `write_queries` wrote. Raises ArtifactError where it is missing or damaged."""
        try:
            with pa.memory_map(str(path)) as file:
                table = pa.ipc.open_file(file).read_all()
                return cls(table.column("query_id").to_pylist(), table.column("text").to_pylist())
        except (OSError, pa.ArrowException, KeyError, UnicodeDecodeError) as error:
            reason = str(error).split("\n")[0]
            raise ArtifactError(f"{path}: queries cannot be read ({reason}); {AGAIN}") from error


def write_queries(path: Path, queries: Iterable[Query]) -> list[str]:
    """Writes the queries of one split, whole or not at all, in the order given; returns their ids.

    Raises DataError where a query id occurs twice, is empty or has white space; or a query has no text.
    """
    known: dict[str, None] = {}
    rows, block = iter(queries), [Query("", "")] * _ROWS
    with replacing(path) as file, pa.ipc.new_file(file, _SCHEMA) as writer:
        while len(block) == _ROWS:
            block = list(islice(rows, _ROWS))
            for query in block:
                name = query.query_id
                if not (isinstance(name, str) and isinstance(query.text, str)):
                    raise DataError(f"query {name!r}: id and text must be strings")
                if not text_lines.one_word(name):
                    raise DataError(f"query {text_lines.id_problem(name)}")
                if not query.text.strip():
                    raise text_lines.Unplaced(query, f"query {name!r} has no text")
                if name in known:
                    reason = f"query id {name!r} occurs twice in one split; query ids must be unique"
                    raise text_lines.Unplaced(query, reason, again=True)
                known[name] = None
            try:
                columns = [pa.array([query[i] for query in block], pa.string()) for i in (0, 1)]
            except (UnicodeEncodeError, pa.ArrowException) as error:
                raise DataError(f"queries from {block[0].query_id!r} on: not Unicode text: {error}") from error
            writer.write_batch(pa.record_batch(columns, schema=_SCHEMA))
    return list(known)


def write_answers(path: Path, answers: Iterable[Answers]) -> int:
    """Writes `{"query_id", "answers"}` for each query that has answers, and returns how many there are.

    Where there is none, nothing is written.
    """
    rows = ({"query_id": query_id, "answers": list(texts)} for query_id, texts in answers if texts)
    if (first := next(rows, None)) is None:
        return 0
    with replacing(path) as file:
        lines = (json.dumps(row, ensure_ascii=False).encode() + b"\n" for row in chain([first], rows))
        return sum(bool(file.write(line)) for line in lines)


def read_answers(path: Path) -> dict[str, tuple[str, ...]]:
    """The answers by query id; none where there is no such file. Raises DataError where a line is malformed."""
    if not path.exists():
        return {}
    rows = ((number, text_lines.json_row(path, number, line)) for number, line in text_lines.read_lines(path))
    return {
        text_lines.id_field(path, number, row, "query_id"): text_lines.texts_field(path, number, row, "answers")
        for number, row in rows
    }


def queries_part(path: Path, split: str | None = None) -> Part:
    """The queries of a file, plain or gzip: lines of an id, a tab and a text, or JSON Lines.

    An object has `qid`, `query_id`, `id` or `_id`, and `title`, `query`, `text` or `contents`.
    """

    def parse(path: Path, number: int, line: str) -> Query:
        if line.startswith("<"):
            advice = "the package hardneg-datasets reads TREC's topics, as dataset pyserini"
            raise DataError.at(path, number, f"not an id, a tab and a text; {advice}")
        if not line.startswith(("{", "[")):
            return query_line(path, number, line)
        row = text_lines.json_row(path, number, line)
        key = next((key for key in _TEXTS if key in row), _TEXTS[0])
        return Query(text_lines.id_field(path, number, row, *_IDS), text_lines.text_field(path, number, row, key))

    return line_part(path, parse, split)


def query_line(path: Path, number: int, line: str) -> Query:
    """The query of a line that holds an id, a tab and a text. Raises DataError where it does not."""
    cells = line.split("\t")
    if len(cells) != 2:
        raise DataError.at(path, number, f"{counted(len(cells), 'column')}; an id, a tab and a text are expected")
    return Query(text_lines.checked_id(path, number, cells[0]), cells[1])


def read_query_file(path: Path, known: Mapping[str, str], facts: Counter[str]) -> Iterator[Query]:
    """The queries of a file in its order; those of `known`, texts by id, are left out and counted in `facts`.

    Args:
        path: as `queries_part` reads it.
        known: the collection's own queries.
        facts: counts, which grow while the queries are gone through.

    Raises DataError at the end, with all mistakes and their lines: lines that are no query, no text, an id that
    stands twice, or one that the collection has with another text.
    """
    problems, lines = list[str](), dict[str, int]()
    texts = frozenset(known.values())
    for number, record in queries_part(path).read():
        if not isinstance(record, Query):
            problems.append(str(record))
            continue
        query_id, problem = record.query_id, ""
        if not record.text.strip():
            problem = "has no text"
        elif query_id in lines:
            problem = f"stands in line {lines[query_id]} already; make ids unique"
        elif known.get(query_id, record.text) != record.text:
            problem = "is one of the dataset's, with another text; give it another id"
        if problem:
            problems.append(f"{path}:{number}: query {query_id!r} {problem}")
        elif query_id in known:
            facts[OWN] += 1
        else:
            lines[query_id] = number
            facts[SAME_TEXT] += record.text in texts
            yield record
    if problems:
        more = [f"and {len(problems) - _SHOWN} more"] if len(problems) > _SHOWN else []
        raise DataError("\n".join([*problems[:_SHOWN], *more]))
