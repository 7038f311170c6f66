"""A loader of Tevatron's tables on the Hugging Face hub, or in local folders with the same layout."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, ClassVar

from hardneg.plugin import Document, Judgement, Query, errors, hub_tables, records, source_files, stores

_CORPUS = hub_tables.HubTable()


@dataclass(frozen=True)
class Tevatron(hub_tables.TableLoader):
    """A table of queries with their passages, and a table of the corpus, streamed with `datasets`.

    A row has `query_id`, `query`, `positive_passages` (each with a `docid`), and optionally `answers`; a row of the
    corpus has `docid`, `text` and optionally `title`. Positives are judgements (relevance 1); `negative_passages` are
    left out and counted. Code in a repository is never executed; a repository with a loading script is refused.

    Args:
        source: a hub id, or a local folder with the same layout.
        revision: a branch, tag or commit of the repository.
        corpus: the table of documents; by default the repository or folder `source`-corpus.
        config: the configuration of `source` that has the queries, if there are several configurations.
    """

    source: str
    revision: str | None = None
    corpus: hub_tables.HubTable = _CORPUS
    config: str | None = None
    version: ClassVar[int] = 1
    extra: ClassVar[str] = "hub"

    def load(self) -> "TevatronCollection":
        """Return the collection, opened for streaming. Raises DataError if a table cannot be reached."""
        documents, rows = hub_tables.row_part(*self.corpus_rows(), _document), self.tables()[1]
        splits = hub_tables.open_table(rows)
        return TevatronCollection.of(
            rows.title, documents, {split: splits[split] for split in source_files.order_splits(splits)}
        )

    def fingerprint(self) -> str:
        """Return a digest of the local files or the hub's commit hashes, and of the tables' configurations."""
        tables = self.tables()
        layout = [[table.config, table.split] for table in tables]
        return stores.digest(["tevatron", self.version, [hub_tables.table_digest(table) for table in tables], layout])

    def tables(self) -> tuple[hub_tables.HubTable, hub_tables.HubTable]:
        """Return the table of the corpus and the table of queries with their passages."""
        corpus = self.corpus
        if corpus.repo is None:
            corpus = replace(corpus, repo=f"{self.source.rstrip('/')}-corpus")
        return corpus, hub_tables.HubTable(repo=self.source, config=self.config, revision=self.revision)


@dataclass(frozen=True)
class TevatronCollection(source_files.PartedCollection):
    """A corpus, and a table of queries for each split (`rows`). negatives: the number left out, by split."""

    rows: Mapping[str, Any] = field(default_factory=dict)
    negatives: dict[str, int] = field(default_factory=dict)

    @classmethod
    def of(cls, title: str, documents: source_files.Part, rows: Mapping[str, Any]) -> "TevatronCollection":
        """Return the collection of a corpus and of query tables by split. title: the name of the tables in errors."""
        negatives = dict.fromkeys(rows, 0)
        opened = {split: (title, partial(iter, table)) for split, table in rows.items()}
        queries = {split: hub_tables.row_part(*table, _query, split) for split, table in opened.items()}
        judged = {
            split: hub_tables.row_part(*table, partial(_judgements, negatives, split), split)
            for split, table in opened.items()
        }
        return cls([documents], queries, judged, [], True, rows=rows, negatives=negatives)

    def answers(self, split: str) -> Iterator[records.Answers]:
        """Yield the answers to each query of a split, empty if it has none. Raises DataError if one is not a string."""
        where = self.queries_in[split].name
        for number, row in hub_tables.numbered_rows(where, self.rows[split]):
            answers = row.get("answers") or ()
            if isinstance(answers, str) or not all(isinstance(answer, str) for answer in answers):
                raise errors.DataError.at(where, number, "column 'answers' must contain lists of strings")
            yield records.Answers(hub_tables.id_cell(where, number, row, "query_id"), tuple(answers))

    def notes(self) -> Sequence[str]:
        """Return a note per split on the negatives left out, which are counted while the judgements are read."""
        words = "negatives left out: a collection has only positives"
        found = [(part.name, split, self.negatives[split]) for split, part in self.queries_in.items()]
        return [f"{title} {split}: {count} {words}" for title, split, count in found if count]


def _document(where: str, number: int, row: dict[str, Any]) -> Iterator[Document]:
    title = hub_tables.text_cell(where, number, row, "title") if row.get("title") is not None else ""
    yield Document(
        hub_tables.id_cell(where, number, row, "docid"), hub_tables.text_cell(where, number, row, "text"), title
    )


def _query(where: str, number: int, row: dict[str, Any]) -> Iterator[Query]:
    yield Query(hub_tables.id_cell(where, number, row, "query_id"), hub_tables.text_cell(where, number, row, "query"))


def _judgements(
    negatives: dict[str, int], split: str, where: str, number: int, row: dict[str, Any]
) -> Iterator[Judgement]:
    """Yield relevance 1 for each positive passage; count the negative ones."""
    before = negatives[split] if number > 1 else 0  # a table may be read again
    negatives[split] = before + len(row.get("negative_passages") or ())
    query_id, passages = hub_tables.id_cell(where, number, row, "query_id"), row.get("positive_passages")
    if not isinstance(passages, list) or not all(isinstance(passage, dict) for passage in passages):
        raise errors.DataError.at(where, number, "column 'positive_passages' must contain lists of passages")
    yield from (Judgement(query_id, hub_tables.id_cell(where, number, passage, "docid"), 1) for passage in passages)
