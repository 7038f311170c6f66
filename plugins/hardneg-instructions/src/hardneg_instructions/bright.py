"""The domains of BRIGHT: queries that need reasoning, with excluded documents."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from hardneg.plugin import Document, Judgement, Query, errors, qrels_files
from hardneg_instructions.tables import TableRow, count_rows, files_in, folder_of, read_tables, tables_digest

_NONE = "N/A"
"""The value of `excluded_ids` for queries without excluded documents."""


@dataclass(frozen=True)
class Bright:
    """One domain of BRIGHT: `documents` (`id`, `content`) and `examples` (`id`, `query`, `gold_ids`, `excluded_ids`).

    The documents in `excluded_ids` are excluded from the runs, metrics and negatives of the query.

    Source: Su et al., BRIGHT: A Realistic and Challenging Benchmark for Reasoning-Intensive Retrieval (ICLR 2025).

    Args:
        source: a copy of `xlangai/BRIGHT`, with files such as `documents/biology-00000-of-00001.parquet`.
        domain: the domain to read, such as `biology`.
        examples: the table of queries, such as `gpt4_reason`, which includes the reasoning of a language model.
        long: whether to read whole pages, from `long_documents`, with the judgements in `gold_ids_long`.
    """

    source: str
    domain: str
    examples: str = "examples"
    long: bool = False
    version: ClassVar[int] = 1

    def load(self) -> "BrightDomain":
        """Return the domain, to be read as a stream. Raises DataError if a folder has no table of this domain."""
        folder = folder_of(self.source, "bright")
        documents = self._files(folder / ("long_documents" if self.long else "documents"))
        return BrightDomain(
            documents, self._files(folder / self.examples), "gold_ids_long" if self.long else "gold_ids"
        )

    def fingerprint(self) -> str:
        """Return a digest of the loader's version, its files and the column of relevant ids."""
        domain = self.load()
        return tables_digest("bright", self.version, [*domain.corpus, *domain.examples], domain.gold)

    def size_hint(self) -> int:
        """Return the number of documents in Parquet files; 0 for JSON Lines."""
        return count_rows(self.load().corpus)

    def _files(self, folder: Path) -> list[Path]:
        files = {path: path.name.partition(".")[0].partition("-")[0] for path in files_in(folder)}
        if self.domain not in files.values():
            domains = ", ".join(sorted({*files.values()})) or "none"
            raise errors.DataError(f"{folder}: no domain {self.domain!r}; available: {domains}")
        return [path for path, domain in files.items() if domain == self.domain]


@dataclass(frozen=True)
class BrightDomain:
    """A collection read from one domain's tables of documents and queries. gold: the column of relevant ids."""

    corpus: list[Path]
    examples: list[Path]
    gold: str

    def documents(self) -> Iterator[Document]:
        """Return an iterator over the documents, in the order of the table."""
        return (Document(_id(row, "id"), row.text("content")) for row in read_tables(self.corpus))

    def splits(self) -> Sequence[str]:
        """Return the only split, `test`."""
        return ["test"]

    def queries(self, split: str) -> Iterator[Query]:
        """Return an iterator over the queries, in the order of the table. `split` can only be `test`."""
        return (Query(_id(row, "id"), row.text("query")) for row in read_tables(self.examples))

    def qrels(self, split: str) -> Iterator[Judgement]:
        """Yield a judgement of 1 for each document that a query's row lists as relevant."""
        for row in read_tables(self.examples):
            yield from (Judgement(_id(row, "id"), doc_id, 1) for doc_id in dict.fromkeys(_ids(row, self.gold)))

    def excluded(self) -> Iterator[qrels_files.Exclusion]:
        """Yield a pair of ids for each document that is excluded for a query."""
        for row in read_tables(self.examples):
            yield from (
                qrels_files.Exclusion(_id(row, "id"), doc_id) for doc_id in _ids(row, "excluded_ids") if doc_id != _NONE
            )

    def notes(self) -> Sequence[str]:
        """Return an empty tuple, because no record is omitted."""
        return ()


def _ids(row: TableRow, column: str) -> list[str]:
    return [_id(TableRow(row.path, row.number, {column: value}), column) for value in row.cells.get(column) or ()]


def _id(row: TableRow, column: str) -> str:
    """Return an id with spaces URL-encoded: BRIGHT's ids are file paths, some with spaces."""
    return "%20".join(row.text(column).split())
