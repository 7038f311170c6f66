"""Collections that are given as tables of the `datasets` library: pairs of texts, or BEIR's three tables."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hardneg.api.memory_collection import ONLY, PARTS, refuse
from hardneg.datasets.hub_tables import id_cell, numbered_rows, text_cell, whole_cell
from hardneg.datasets.hugging_face import Columns
from hardneg.formats.source_files import order_splits
from hardneg.records.types import Document, Judgement, Query

_COLUMNS = Columns()
_PAIRS = ("anchor", "positive")
_NAMES = {"validation": "dev"}


def is_table(value: Any) -> bool:
    """Whether this is a `datasets.Dataset`, or what has rows and columns as one has; the library is not imported."""
    return hasattr(value, "column_names") and not isinstance(value, Mapping)


def by_split(tables: Any) -> dict[str, Any]:
    """One table, or several by split (`validation` is `dev`)."""
    if not isinstance(tables, Mapping):
        return {ONLY: tables}
    return {_NAMES.get(str(name), str(name)): table for name, table in tables.items()}


@dataclass(frozen=True)
class PairTables:
    """Pairs of an anchor and its positive by split: each text is a query or a document once, numbered as met.

    Texts of columns whose names begin with `negative` are documents too. The whole of the texts is held in memory.
    """

    tables: Mapping[str, Any]

    def documents(self) -> Iterator[Document]:
        """The texts of positives and negatives. Raises DataError where a cell holds no text."""
        return (Document(doc_id, text) for text, doc_id in self._numbered()[0].items())

    def splits(self) -> Sequence[str]:
        """Those of the tables."""
        return order_splits(self.tables)

    def all_queries(self) -> Iterator[Query]:
        """The anchors, each once, as they were numbered."""
        return (Query(query_id, text) for text, query_id in self._numbered()[1].items())

    def queries(self, split: str) -> Iterator[Query]:
        """The anchors of one split."""
        known = self._numbered()[1]
        texts = dict.fromkeys(row[0] for row in self._rows(split))
        return (Query(known[text], text) for text in texts)

    def qrels(self, split: str) -> Iterator[Judgement]:
        """Each pair once."""
        documents, queries = self._numbered()
        pairs = dict.fromkeys((queries[row[0]], documents[row[1]]) for row in self._rows(split))
        return (Judgement(query_id, doc_id, 1) for query_id, doc_id in pairs)

    def notes(self) -> Sequence[str]:
        """Nothing is left out."""
        return ()

    def _numbered(self) -> tuple[dict[str, str], dict[str, str]]:
        """The ids of documents and of queries by their texts."""
        documents: dict[str, str] = {}
        queries: dict[str, str] = {}
        for split in self.splits():
            for anchor, *texts in self._rows(split):
                queries.setdefault(anchor, f"q{len(queries)}")
                for text in texts:
                    documents.setdefault(text, f"d{len(documents)}")
        return documents, queries

    def _rows(self, split: str) -> Iterator[list[str]]:
        """The texts of each row: the anchor, the positive, and negatives."""
        table = self.tables[split]
        columns = [*_PAIRS, *(name for name in table.column_names if name.startswith("negative"))]
        if missing := [name for name in _PAIRS if name not in table.column_names]:
            refuse(
                [f"{split}: no column {missing[0]!r} among {', '.join(table.column_names)}; rename_column gives it one"]
            )
        for number, row in numbered_rows(f"dataset {split}", table):
            yield [text_cell(f"dataset {split}", number, row, name) for name in columns]


@dataclass(frozen=True)
class BeirTables:
    """A corpus, queries and judgements as tables with BEIR's columns; the latter two may be given by split."""

    corpus: Any
    texts: Mapping[str, Any]
    judged: Mapping[str, Any]

    @classmethod
    def of(cls, dataset: Mapping[str, Any]) -> "BeirTables":
        """What was given. Raises DataError where a part is missing or is no table."""
        refuse([f"{name!r} is missing: give {', '.join(PARTS)}" for name in PARTS if name not in dataset])
        tables = {name: by_split(dataset[name]) for name in PARTS}
        odd = [name for name, parts in tables.items() if not all(map(is_table, parts.values()))]
        refuse([f"{name}: must be a datasets.Dataset, as the other parts are" for name in odd])
        return cls(next(iter(tables["corpus"].values())), tables["queries"], tables["qrels"])

    def documents(self) -> Iterator[Document]:
        """The corpus, in the table's order."""
        for number, row in numbered_rows("dataset corpus", self.corpus):
            doc_id = id_cell("dataset corpus", number, row, _COLUMNS.doc_id)
            title = row.get(_COLUMNS.title) or ""
            yield Document(doc_id, text_cell("dataset corpus", number, row, _COLUMNS.text), title)

    def splits(self) -> Sequence[str]:
        """Those of the judgements."""
        return order_splits(self.judged)

    def all_queries(self) -> Iterator[Query]:
        """The queries in the tables' order, judged or not."""
        return self._rows(self.texts)

    def queries(self, split: str) -> Iterator[Query]:
        """The queries that the judgements of a split name."""
        named = {judgement.query_id for judgement in self.qrels(split)}
        tables = {split: self.texts[split]} if split in self.texts else self.texts
        return (query for query in self._rows(tables) if query.query_id in named)

    def _rows(self, tables: Mapping[str, Any]) -> Iterator[Query]:
        for name, table in tables.items():
            for number, row in numbered_rows(f"dataset queries {name}", table):
                query_id = id_cell(f"dataset queries {name}", number, row, _COLUMNS.query_id)
                yield Query(query_id, text_cell(f"dataset queries {name}", number, row, _COLUMNS.query))

    def qrels(self, split: str) -> Iterator[Judgement]:
        """The judgements of one split."""
        where = f"dataset qrels {split}"
        for number, row in numbered_rows(where, self.judged[split]):
            query_id = id_cell(where, number, row, _COLUMNS.judged_query)
            doc_id = id_cell(where, number, row, _COLUMNS.judged_doc)
            yield Judgement(query_id, doc_id, whole_cell(where, number, row, _COLUMNS.relevance))

    def notes(self) -> Sequence[str]:
        """Nothing is told."""
        return ()
