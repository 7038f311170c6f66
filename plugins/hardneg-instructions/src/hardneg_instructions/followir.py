"""The collections of FollowIR: each query has TREC's instruction and a changed one, and is judged under both."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import ClassVar

from hardneg.plugin import Document, Judgement, Query, errors
from hardneg_instructions.tables import (
    TEMPLATE,
    TableRow,
    check_template,
    count_rows,
    folder_of,
    instructed,
    read_tables,
    table_files,
    tables_digest,
)

ORIGINAL, CHANGED = "-og", "-changed"
"""Suffixes of query ids that mark the original and the changed instruction, as in mteb."""
_SPLITS = {"test": (ORIGINAL, CHANGED), "original": (ORIGINAL,), "changed": (CHANGED,)}


@dataclass(frozen=True)
class FollowIR:
    """A folder of FollowIR's news21, robust04 or core17, in either published format.

    `jhu-clsp/news21-instructions` has tables `corpus`, `queries` (with `instruction_og` and `instruction_changed`),
    `qrels_og/test` and `qrels_changed/test`; mteb's `News21InstructionRetrieval` has `corpus`, `queries`,
    `instruction` and qrels as `data`, `default` or `qrels`. In both, query ids end in `-og` or `-changed`.
    Split `test` has all queries. Splits `original` and `changed` have the queries with that instruction.

    Source: Weller et al., FollowIR: Evaluating and Teaching Information Retrieval Models to Follow Instructions (2024).

    Args:
        source: the folder; each table is a file NAME.jsonl or NAME.parquet, or a folder NAME of such files.
        template: the text of a query with an instruction; `{query}` alone omits instructions.
    """

    source: str
    template: str = TEMPLATE
    version: ClassVar[int] = 1

    def __post_init__(self) -> None:
        check_template(self.template)

    def load(self) -> "FollowIRCollection":
        """Return the collection, to be read as a stream. Raises DataError if a table is missing."""
        folder = folder_of(self.source, "followir")
        instructions = table_files(folder, "instruction")
        tables = {"corpus": ("corpus",), "queries": ("queries", "query")}
        if instructions:
            tables |= {"qrels": ("data", "default", "qrels", "qrels/test", "test")}
        else:
            tables |= {"original": ("qrels_og/test", "qrels_og"), "changed": ("qrels_changed/test", "qrels_changed")}
        files = {name: table_files(folder, *names) for name, names in tables.items()}
        if missing := [tables[name][0] for name, paths in files.items() if not paths]:
            raise errors.DataError(f"{folder}: missing table {' and '.join(missing)} (Parquet or JSON Lines)")
        return FollowIRCollection({**files, "instruction": instructions}, self.template)

    def fingerprint(self) -> str:
        """Return a digest of the loader's version and of its files."""
        files = [path for paths in self.load().files.values() for path in paths]
        return tables_digest("followir", self.version, files)

    def size_hint(self) -> int:
        """Return the number of documents in Parquet files; 0 for JSON Lines."""
        return count_rows(self.load().files["corpus"])


@dataclass(frozen=True)
class FollowIRCollection:
    """A collection read from its tables. files: by table. template: the text of a query with an instruction."""

    files: dict[str, list[Path]]
    template: str

    def documents(self) -> Iterator[Document]:
        """Yield the documents in the order of the table."""
        for row in read_tables(self.files["corpus"]):
            yield Document(_id(row), row.text("text"), row.optional("title"))

    def splits(self) -> Sequence[str]:
        """Return `test`, with all queries, and `original` and `changed`, with the queries of that instruction."""
        return list(_SPLITS)

    def queries(self, split: str) -> Iterator[Query]:
        """Yield the queries of a split with their instructions. Raises DataError if an instruction is missing."""
        for row in read_tables(self.files["queries"]):
            query_id, text = _id(row), row.text("text")
            if self.files["instruction"]:
                if query_id.endswith(_SPLITS[split]):
                    yield Query(query_id, instructed(self.template, text, self._instruction(row, query_id)))
            else:
                columns = {ORIGINAL: "instruction_og", CHANGED: "instruction_changed"}
                for end in _SPLITS[split]:
                    yield Query(query_id + end, instructed(self.template, text, row.text(columns[end])))

    def qrels(self, split: str) -> Iterator[Judgement]:
        """Yield the judgements of a split. Raises DataError for a grade that is not a whole number."""
        if self.files["instruction"]:
            for row in read_tables(self.files["qrels"]):
                if (query_id := row.id("query-id")).endswith(_SPLITS[split]):
                    yield Judgement(query_id, row.id("corpus-id"), _relevance(row))
            return
        for end in _SPLITS[split]:
            for row in read_tables(self.files["original" if end == ORIGINAL else "changed"]):
                yield Judgement(row.id("query-id") + end, row.id("corpus-id"), _relevance(row))

    def notes(self) -> Sequence[str]:
        """Return a note if the template omits the instructions, else an empty list."""
        left_out = "{instruction}" not in self.template
        return [f"the template {self.template!r} omits the instructions"] if left_out else []

    def _instruction(self, row: TableRow, query_id: str) -> str:
        if query_id not in self._instructions:
            raise row.error(f"query {query_id!r} has no instruction in {self.files['instruction'][0]}")
        return self._instructions[query_id]

    @cached_property
    def _instructions(self) -> dict[str, str]:
        rows = read_tables(self.files["instruction"])
        return {row.id("query-id"): row.text("instruction") for row in rows}


def _id(row: TableRow) -> str:
    return row.id("_id" if "_id" in row.cells else "id")


def _relevance(row: TableRow) -> int:
    score = row.cells.get("score")
    if isinstance(score, bool) or not isinstance(score, int | float) or score != int(score):
        raise row.error(f"column 'score' must contain a whole number, not {score!r:.40}")
    return int(score)
