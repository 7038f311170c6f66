"""Collections on the Hugging Face hub, or in local folders of the same layout: tables of BEIR's form, or Tevatron's."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from itertools import chain
from typing import Any, ClassVar

from hardneg.datasets.hub_tables import (
    CONVERTED,
    HubTable,
    count_rows,
    id_cell,
    look_up,
    numbered_rows,
    open_table,
    row_part,
    table_digest,
    text_cell,
    whole_cell,
)
from hardneg.datasets.topic_files import PartedCollection
from hardneg.formats.source_files import Part, order_splits
from hardneg.records.errors import DataError
from hardneg.records.types import Answers, Document, Judgement, Lookup, Query
from hardneg.store.digest import digest

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


class _OfTables:
    """A loader of tables, of which the first is the corpus."""

    def _tables(self) -> tuple[HubTable, ...]:
        raise NotImplementedError

    def look_up(self) -> Lookup:
        """The files of the tables, and their sizes. Raises DataError where one cannot be had."""
        return look_up(self._tables())

    def size_hint(self) -> int:
        """The number of documents by the repository's metadata, 0 where that does not say."""
        return count_rows(self._tables()[0])

    def _corpus(self) -> tuple[str, Any]:
        """Title and rows of the corpus. Raises DataError where it has several splits."""
        table = self._tables()[0]
        splits = open_table(table)
        if len(splits) != 1:
            raise DataError(f"{table.title}: splits {', '.join(splits)}; choose one as `corpus.split`")
        return table.title, partial(iter, *splits.values())


@dataclass(frozen=True)
class HuggingFace(_OfTables):
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
        _, queries, qrels = self._tables()
        corpus, asked, judged = self._corpus(), open_table(queries), open_table(qrels)
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
        doc_id = id_cell(where, number, row, names.doc_id)
        title = text_cell(where, number, row, names.title) if row.get(names.title) is not None else ""
        yield Document(doc_id, text_cell(where, number, row, names.text), title)

    def _query(self, where: str, number: int, row: dict[str, Any]) -> Iterator[Query]:
        query_id = id_cell(where, number, row, self.columns.query_id)
        yield Query(query_id, text_cell(where, number, row, self.columns.query))

    def _judgement(self, where: str, number: int, row: dict[str, Any]) -> Iterator[Judgement]:
        names = self.columns
        query_id, doc_id = (id_cell(where, number, row, name) for name in (names.judged_query, names.judged_doc))
        yield Judgement(query_id, doc_id, whole_cell(where, number, row, names.relevance))

    def fingerprint(self) -> str:
        """A digest of the local files, or of the hub's commits, and of the options."""
        tables = self._tables()
        content = [table_digest(table) for table in tables]
        layout = [[table.config, table.split] for table in tables]
        return digest(["hf", self.version, content, layout, asdict(self.columns)])

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
class Tevatron(_OfTables):
    """A table whose rows hold a query and its passages, and a table of the corpus, streamed with `datasets`.

    A row has `query_id`, `query`, `positive_passages` (each with a `docid`), and maybe `answers`; a row of the corpus
    `docid`, `text` and maybe `title`. The positives are the judgements (relevance 1); `negative_passages` are left out
    and counted. Nothing of a repository is executed: one that has a loading script is read from its converted
    branch, `revision="refs/convert/parquet"`, which holds a part alone of large tables and is refused then.

    Args:
        source: a hub id, or a local folder of the same layout.
        revision: branch, tag or commit of the repository.
        corpus: the table of documents, where it is not the repository or folder `source`-corpus.
        config: the configuration of `source` that holds the rows, where there are several.
    """

    source: str
    revision: str | None = None
    corpus: HubTable = _TABLE
    config: str | None = None
    version: ClassVar[int] = 1
    extra: ClassVar[str] = "hub"

    def load(self) -> "TevatronCollection":
        """The collection, opened for streaming. Raises DataError where a table cannot be reached."""
        documents, rows = row_part(*self._corpus(), _document), self._tables()[1]
        splits = open_table(rows)
        return TevatronCollection.of(rows.title, documents, {split: splits[split] for split in order_splits(splits)})

    def fingerprint(self) -> str:
        """A digest of the local files, or of the hub's commits, and of the tables' names."""
        tables = self._tables()
        layout = [[table.config, table.split] for table in tables]
        return digest(["tevatron", self.version, [table_digest(table) for table in tables], layout])

    def _tables(self) -> tuple[HubTable, HubTable]:
        corpus = self.corpus
        if corpus.repo is None:
            source = self.source.rstrip("/")
            # the converted branch is in any repository; a commit or tag of this one is not in the other
            branch = self.revision if (self.revision or "").startswith(CONVERTED) else None
            corpus = replace(corpus, repo=f"{source}-corpus", revision=corpus.revision or branch)
        return corpus, HubTable(repo=self.source, config=self.config, revision=self.revision)


@dataclass(frozen=True)
class TevatronCollection(PartedCollection):
    """The opened tables: the corpus, and the rows by split, with the negatives that each was found to hold."""

    rows: Mapping[str, Any] = field(default_factory=dict)
    negatives: dict[str, int] = field(default_factory=dict)

    @classmethod
    def of(cls, title: str, documents: Part, rows: Mapping[str, Any]) -> "TevatronCollection":
        """The collection of a corpus, and of rows of splits that errors call `title`."""
        negatives = dict.fromkeys(rows, 0)
        opened = {split: (title, partial(iter, table)) for split, table in rows.items()}
        queries = {split: row_part(*table, _query, split) for split, table in opened.items()}
        judged = {
            split: row_part(*table, partial(_judgements, negatives, split), split) for split, table in opened.items()
        }
        return cls([documents], queries, judged, [], True, rows=rows, negatives=negatives)

    def answers(self, split: str) -> Iterator[Answers]:
        """The answers to the queries of one split, where the rows have them."""
        where = self.queries_in[split].name
        for number, row in numbered_rows(where, self.rows[split]):
            answers = row.get("answers") or ()
            if isinstance(answers, str) or not all(isinstance(answer, str) for answer in answers):
                raise DataError.at(where, number, "column 'answers' must hold lists of texts")
            yield Answers(id_cell(where, number, row, "query_id"), tuple(answers))

    def notes(self) -> Sequence[str]:
        """How many negatives the rows hold."""
        words = "negatives left out: a collection holds positives alone"
        found = [(part.name, split, self.negatives[split]) for split, part in self.queries_in.items()]
        return [f"{title} {split}: {count} {words}" for title, split, count in found if count]


def _document(where: str, number: int, row: dict[str, Any]) -> Iterator[Document]:
    title = text_cell(where, number, row, "title") if row.get("title") is not None else ""
    yield Document(id_cell(where, number, row, "docid"), text_cell(where, number, row, "text"), title)


def _query(where: str, number: int, row: dict[str, Any]) -> Iterator[Query]:
    yield Query(id_cell(where, number, row, "query_id"), text_cell(where, number, row, "query"))


def _judgements(
    negatives: dict[str, int], split: str, where: str, number: int, row: dict[str, Any]
) -> Iterator[Judgement]:
    """Relevance 1 for each positive passage; negative ones are counted."""
    before = negatives[split] if number > 1 else 0  # a table may be read again
    negatives[split] = before + len(row.get("negative_passages") or ())
    query_id, passages = id_cell(where, number, row, "query_id"), row.get("positive_passages")
    if not isinstance(passages, list) or not all(isinstance(passage, dict) for passage in passages):
        raise DataError.at(where, number, "column 'positive_passages' must hold lists of passages")
    yield from (Judgement(query_id, id_cell(where, number, passage, "docid"), 1) for passage in passages)
