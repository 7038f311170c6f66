"""The queries of one split, as an Arrow file, and their answers, as JSON Lines."""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from hardneg.atomic_write import replacing
from hardneg.data.json_rows import id_field, json_row, texts_field
from hardneg.data.problems import Unplaced
from hardneg.data.text_lines import id_problem, one_word, read_lines
from hardneg.errors import ArtifactError, DataError
from hardneg.types import Answers, Query

_SCHEMA = pa.schema([("query_id", pa.string()), ("text", pa.string())])
_ROWS = 8192


@dataclass(frozen=True)
class Queries:
    """The queries of one split, in the source's order: ids, and texts beside them."""

    query_ids: list[str]
    texts: list[str]

    def __len__(self) -> int:
        return len(self.query_ids)

    def __iter__(self) -> Iterator[Query]:
        return map(Query, self.query_ids, self.texts)

    @classmethod
    def open(cls, path: Path) -> "Queries":
        """Reads the file that `write_queries` wrote.

        Raises:
            ArtifactError: it is missing or damaged.
        """
        try:
            with pa.memory_map(str(path)) as file:
                table = pa.ipc.open_file(file).read_all()
                return cls(table.column("query_id").to_pylist(), table.column("text").to_pylist())
        except (OSError, pa.ArrowException, KeyError, UnicodeDecodeError) as error:
            reason = str(error).split("\n")[0]
            raise ArtifactError(f"{path}: queries cannot be read ({reason}); write them again") from error


def write_queries(path: Path, queries: Iterable[Query]) -> list[str]:
    """Writes the queries of one split, whole or not at all, in the order given; returns their ids.

    Raises:
        DataError: a query id occurs twice, is empty or has white space.
    """
    known: dict[str, None] = {}
    with replacing(path) as file, pa.ipc.new_file(file, _SCHEMA) as writer:
        block: list[Query] = []
        for query in queries:
            _check(query, known)
            block.append(query)
            if len(block) == _ROWS:
                writer.write_batch(_batch(block))
                block = []
        writer.write_batch(_batch(block))
    return list(known)


def _check(query: Query, known: dict[str, None]) -> None:
    if not (isinstance(query.query_id, str) and isinstance(query.text, str)):
        raise DataError(f"query {query.query_id!r}: id and text must be strings")
    if not one_word(query.query_id):
        raise DataError(f"query {id_problem(query.query_id)}")
    if query.query_id in known:
        reason = f"query id {query.query_id!r} occurs twice in one split; query ids must be unique"
        raise Unplaced("query ids that stand twice", reason)
    known[query.query_id] = None


def _batch(block: list[Query]) -> pa.RecordBatch:
    try:
        columns = [pa.array([query[i] for query in block], pa.string()) for i in (0, 1)]
    except (UnicodeEncodeError, pa.ArrowException) as error:
        raise DataError(f"queries from {block[0].query_id!r} on: not Unicode text: {error}") from error
    return pa.record_batch(columns, schema=_SCHEMA)


def write_answers(path: Path, answers: Iterable[Answers]) -> int:
    """Writes `{"query_id", "answers"}` for each query that has answers, and returns how many there are.

    Where there is none, nothing is written.
    """
    rows: Iterator[dict[str, object]] = (
        {"query_id": query_id, "answers": list(texts)} for query_id, texts in answers if texts
    )
    first = next(rows, None)
    if first is None:
        return 0
    with replacing(path) as file:
        file.write(_line(first))
        return 1 + sum(bool(file.write(_line(row))) for row in rows)


def read_answers(path: Path) -> dict[str, tuple[str, ...]]:
    """The answers by query id; none where there is no such file. Raises DataError where a line is malformed."""
    if not path.exists():
        return {}
    rows = ((number, json_row(path, number, line)) for number, line in read_lines(path))
    return {id_field(path, number, row, "query_id"): texts_field(path, number, row, "answers") for number, row in rows}


def _line(row: dict[str, object]) -> bytes:
    return json.dumps(row, ensure_ascii=False).encode() + b"\n"
