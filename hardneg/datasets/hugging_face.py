"""Collections on the Hugging Face hub, or in local folders of the same layout: tables of BEIR's form."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import chain
from typing import Any, ClassVar

from hardneg.datasets import hub_tables
from hardneg.datasets.hub_tables import HubTable, TableLoader, row_part
from hardneg.formats.source_files import Part, PartedCollection, order_splits
from hardneg.records import Document, Judgement, Query
from hardneg.store import digest

_CORPUS, _QUERIES, _TABLE = HubTable(config="corpus"), HubTable(config="queries"), HubTable()


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
class HuggingFace(TableLoader):
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
    qrels: HubTable = _TABLE
    columns: Columns = Columns()
    version: ClassVar[int] = 1
    extra: ClassVar[str] = "hub"

    def load(self) -> PartedCollection:
        """The collection, opened for streaming. Raises DataError where a table cannot be reached."""
        _, queries, qrels = self.tables()
        corpus, asked, judged = self.corpus_rows(), hub_tables.open_table(queries), hub_tables.open_table(qrels)
        queries_in, qrels_in = dict[str, Part](), dict[str, Part]()
        for split in order_splits(judged):
            own = {split: asked[split]} if split in asked else asked
            rows = partial(chain.from_iterable, own.values())
            part = row_part(queries.title, rows, self._query)
            queries_in[split] = replace(part, name=f"{queries.title} {' '.join(own)}")
            qrels_in[split] = row_part(qrels.title, partial(iter, judged[split]), self._judgement, split)
        return PartedCollection([row_part(*corpus, self._document)], queries_in, qrels_in)

    def _document(self, where: str, number: int, row: dict[str, Any]) -> Iterator[Document]:
        names = self.columns
        doc_id = hub_tables.id_cell(where, number, row, names.doc_id)
        title = hub_tables.text_cell(where, number, row, names.title) if row.get(names.title) is not None else ""
        yield Document(doc_id, hub_tables.text_cell(where, number, row, names.text), title)

    def _query(self, where: str, number: int, row: dict[str, Any]) -> Iterator[Query]:
        query_id = hub_tables.id_cell(where, number, row, self.columns.query_id)
        yield Query(query_id, hub_tables.text_cell(where, number, row, self.columns.query))

    def _judgement(self, where: str, number: int, row: dict[str, Any]) -> Iterator[Judgement]:
        names = self.columns
        query_id, doc_id = (
            hub_tables.id_cell(where, number, row, name) for name in (names.judged_query, names.judged_doc)
        )
        yield Judgement(query_id, doc_id, hub_tables.whole_cell(where, number, row, names.relevance))

    def fingerprint(self) -> str:
        """A digest of the local files, or of the hub's commits, and of the options."""
        tables = self.tables()
        content = [hub_tables.table_digest(table) for table in tables]
        layout = [[table.config, table.split] for table in tables]
        return digest(["hf", self.version, content, layout, asdict(self.columns)])

    def tables(self) -> tuple[HubTable, HubTable, HubTable]:
        """Corpus, queries and qrels."""
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
