"""Collections on the Hugging Face hub, or in local folders of the same layout, as Parquet or JSON Lines."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, ClassVar

from hardneg.datasets.hub_tables import (
    HubTable,
    count_rows,
    id_cell,
    look_up,
    numbered_rows,
    open_table,
    table_digest,
    text_cell,
    whole_cell,
)
from hardneg.formats.source_files import JudgedQueries, order_splits
from hardneg.records.errors import DataError
from hardneg.records.types import Document, Judgement, Lookup, Query
from hardneg.store.digest import digest

_CORPUS, _QUERIES, _QRELS = HubTable(config="corpus"), HubTable(config="queries"), HubTable()


@dataclass(frozen=True)
class Columns:
    """The names of the columns; the title's column may be missing, as may single titles."""

    doc_id: str = "_id"
    title: str = "title"
    text: str = "text"
    query_id: str = "_id"
    query: str = "text"
    judged_query: str = "query-id"
    judged_doc: str = "corpus-id"
    relevance: str = "score"


@dataclass(frozen=True)
class HuggingFace:
    """A corpus, queries and qrels on the hub, streamed with `datasets`; nothing of a repository is executed.

    `source` is a hub id or a local folder. By default the tables `corpus` and `queries` are its
    configurations of these names, and the qrels are the repository `source`-qrels where `source` is one of
    BeIR's, the folder `qrels` of a local `source`, the configuration `default` else. The splits are those of
    the qrels; `validation` is `dev`. Ids may be integers. A query table that has a split of the qrels' name
    is read there, any other in full; queries that no judgement names are left out and noted.

    MS MARCO passages are `HuggingFace("mteb/msmarco")`; the splits are train, dev and test. A repository that
    still has a loading script is refused; its converted branch, `revision="refs/convert/parquet"`, is read by its
    folders CONFIGURATION/SPLIT, and refused where it holds a part of a split alone. A commit hash as `revision`
    pins the data and needs no look-up on the hub.

    Args:
        source: a hub id, or a local folder of the same layout.
        revision: branch, tag or commit of the repository.
        corpus: the table of documents, where it is not the configuration `corpus`.
        queries: the table of queries, where it is not the configuration `queries`.
        qrels: the table of judgements, where it is not found as told above.
        columns: the names of the columns, where they are not BEIR's.
    """

    source: str
    revision: str | None = None
    corpus: HubTable = _CORPUS
    queries: HubTable = _QUERIES
    qrels: HubTable = _QRELS
    columns: Columns = Columns()
    version: ClassVar[int] = 1
    extra: ClassVar[str] = "hub"

    def load(self) -> "HuggingFaceCollection":
        """The collection, opened for streaming. Raises DataError where a table cannot be reached."""
        corpus, queries, qrels = self._tables()
        documents = open_table(corpus)
        if len(documents) != 1:
            raise DataError(f"{corpus.title}: splits {', '.join(documents)}; choose one as `corpus.split`")
        judged = open_table(qrels)
        return HuggingFaceCollection(
            self.columns,
            Opened(corpus, documents),
            Opened(queries, open_table(queries)),
            Opened(qrels, {split: judged[split] for split in order_splits(judged)}),
        )

    def fingerprint(self) -> str:
        """A digest of the local files, or of the hub's commits, and of the options."""
        tables = self._tables()
        content = [table_digest(table) for table in tables]
        layout = [[table.config, table.split] for table in tables]
        return digest(["hf", self.version, content, layout, asdict(self.columns)])

    def look_up(self) -> Lookup:
        """The files of the tables, and their sizes. Raises DataError where one cannot be had."""
        return look_up(self._tables())

    def size_hint(self) -> int:
        """The number of documents by the repository's metadata, 0 where that does not say."""
        return count_rows(self._tables()[0])

    def _tables(self) -> tuple[HubTable, HubTable, HubTable]:
        corpus, queries, qrels = (
            table if table.repo else replace(table, repo=self.source, revision=table.revision or self.revision)
            for table in (self.corpus, self.queries, self.qrels)
        )
        if self.qrels.repo is None and self.qrels.config is None:
            if qrels.local is not None:
                folder = qrels.local / "qrels"
                qrels = replace(qrels, config="qrels" if folder.is_dir() else "default")
            elif self.source.lower().startswith("beir/"):
                qrels = replace(qrels, repo=f"{self.source}-qrels", revision=self.qrels.revision)
            else:
                qrels = replace(qrels, config="default")
        return corpus, queries, qrels


@dataclass(frozen=True)
class Opened:
    """A table and its splits as streaming datasets."""

    table: HubTable
    splits: dict[str, Any]

    def rows(self, split: str) -> Iterator[tuple[int, dict[str, Any]]]:
        """The numbered rows of one split."""
        return numbered_rows(self.table.title, self.splits[split])


@dataclass(frozen=True)
class HuggingFaceCollection:
    """The opened tables."""

    columns: Columns
    corpus: Opened
    query_table: Opened
    judgements: Opened
    _judged: JudgedQueries = field(default_factory=JudgedQueries)

    def documents(self) -> Iterator[Document]:
        """The corpus, in the table's order."""
        where, names = self.corpus.table.title, self.columns
        for number, row in self.corpus.rows(next(iter(self.corpus.splits))):
            doc_id = id_cell(where, number, row, names.doc_id)
            title = text_cell(where, number, row, names.title) if row.get(names.title) is not None else ""
            yield Document(doc_id, text_cell(where, number, row, names.text), title)

    def splits(self) -> Sequence[str]:
        """The splits of the qrels."""
        return list(self.judgements.splits)

    def queries(self, split: str) -> Iterator[Query]:
        """The queries that the split's judgements name, in the table's order."""
        named = {judgement.query_id for judgement in self.qrels(split)}
        own = [split] if split in self.query_table.splits else list(self.query_table.splits)
        source = f"{self.query_table.table.title} {' '.join(own)}"
        return self._judged.select(source, self._numbered_queries(own), named)

    def qrels(self, split: str) -> Iterator[Judgement]:
        """The judgements of one split."""
        where, names = self.judgements.table.title, self.columns
        for number, row in self.judgements.rows(split):
            query_id = id_cell(where, number, row, names.judged_query)
            doc_id = id_cell(where, number, row, names.judged_doc)
            yield Judgement(query_id, doc_id, whole_cell(where, number, row, names.relevance))

    def notes(self) -> Sequence[str]:
        """How many queries no judgement names."""
        return self._judged.notes()

    def _numbered_queries(self, splits: list[str]) -> Iterator[tuple[int, Query]]:
        where, names = self.query_table.table.title, self.columns
        for split in splits:
            for number, row in self.query_table.rows(split):
                query_id = id_cell(where, number, row, names.query_id)
                yield number, Query(query_id, text_cell(where, number, row, names.query))
