"""Collections on the Hugging Face hub, or in local folders with the same layout, read as streams of table rows."""

import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, ClassVar

from hardneg import store
from hardneg.formats import source_files, text_lines
from hardneg.records import DataError, Document, Judgement, Lookup, MissingDependency, Query, first_line

_SPLIT_NAMES = {"validation": "dev", "valid": "dev", "val": "dev"}
_SCRIPT = re.compile(r"scripts are no longer supported, but found (\S+)")


@dataclass(frozen=True)
class HubTable:
    """The location of one table; for values that are None, the loader derives defaults from its `source`.

    repo: a hub id or a local folder.
    config: the configuration of the repository; in a plain local folder, the subfolder or file stem.
    split: the only split to read; None reads all splits.
    revision: a branch, tag or commit of `repo`.
    """

    repo: str | None = None
    config: str | None = None
    split: str | None = None
    revision: str | None = None

    @property
    def title(self) -> str:
        """The repository and configuration, as shown in errors."""
        return f"{self.repo}[{self.config or 'default'}]"

    @property
    def local(self) -> Path | None:
        """The local path of `repo`; None for a hub id."""
        path = Path(self.repo or "").expanduser()
        return path if self.repo and path.exists() else None


def open_table(table: HubTable) -> dict[str, Any]:
    """Open a table's splits for streaming; return the datasets by split name, with `validation` renamed to `dev`.

    Raises:
        DataError: the table cannot be reached, or does not have the requested split.
        MissingDependency: the `datasets` package is not installed.
    """
    with _refusals(table) as datasets:
        opened = datasets.load_dataset(**_arguments(table, datasets), streaming=True)
        splits = {_SPLIT_NAMES.get(str(name), str(name)): value for name, value in opened.items()}
        wanted = _SPLIT_NAMES.get(table.split or "", table.split)
        if not splits or (wanted is not None and wanted not in splits):
            reason = f"no split {table.split!r}; available: {', '.join(splits)}" if splits else "no splits"
            raise DataError(f"{table.title}: {reason}")
        return splits if wanted is None else {wanted: splits[wanted]}


@contextmanager
def _refusals(table: HubTable) -> Iterator[Any]:
    """Yield the `datasets` package; any error of the hub's client in the block becomes a DataError with advice."""
    try:
        import datasets
    except ImportError as error:
        raise MissingDependency('Hugging Face data needs datasets: pip install "hardneg[hub]"') from error
    try:
        yield datasets
    except DataError:
        raise
    except Exception as error:
        reason, advice = first_line(error).rstrip("."), "check the name and the network, or give a local folder"
        if script := _SCRIPT.search(str(error)):
            owner, _, name = str(table.repo).partition("/")
            reason = f"the repository contains a loading script ({script[1]}), which is never executed"
            copy = f"hf:mteb/{name}, which has the same data" if owner.lower() == "beir" else "a copy in Parquet"
            advice = f"use {copy}"
        elif "gated" in str(error).lower():
            reason = "the dataset is gated"
            advice = f"accept its terms at {datasets.config.HF_ENDPOINT}/datasets/{table.repo}, and run `hf auth login`"
        at = f" at revision {table.revision}" if table.revision else ""
        raise DataError(f"{table.title}{at} cannot be opened: {reason}; {advice}") from error


def numbered_rows(title: str, rows: Iterable[Any]) -> Iterator[tuple[int, Any]]:
    """Yield rows with numbers from 1; `title` names the table in errors. Raises DataError if reading fails."""
    number = 0
    try:
        for number, row in enumerate(rows, 1):
            yield number, row
    except DataError:
        raise
    except Exception as error:
        raise DataError.at(title, number + 1, f"cannot be read ({first_line(error)})") from error


def row_part(
    title: str,
    rows: Callable[[], Iterable[Any]],
    parse: Callable[[str, int, Any], Iterable[source_files.Record]],
    split: str | None = None,
) -> source_files.Part:
    """Return a part that reads `rows()` and converts each row with `parse(title, number, row)`; errors name `title`."""

    def read() -> Iterator[tuple[int, source_files.Record | DataError]]:
        try:
            for number, row in numbered_rows(title, rows()):
                try:
                    yield from ((number, record) for record in parse(title, number, row))
                except DataError as error:
                    yield number, error
        except DataError as error:
            yield 0, error

    return source_files.Part(title, read, split)


def table_digest(table: HubTable) -> str:
    """Return a digest of a table's local files or, for a hub repository, the hash of its commit.

    If `revision` is a full commit hash, it is returned unchanged; any other revision is looked up on the hub.

    Raises DataError if the hub cannot be reached, or the repository does not exist.
    """
    if table.local is not None:
        if table.local.is_file():
            return store.file_digest(table.local)
        paths = (path.relative_to(table.local) for path in table.local.rglob("*"))
        visible = (path.as_posix() for path in paths if not any(part.startswith(".") for part in path.parts))
        return store.tree_digest(table.local, visible)
    if re.fullmatch("[0-9a-f]{40}", table.revision or ""):
        return str(table.revision)
    from huggingface_hub import HfApi

    with _refusals(table):
        return str(HfApi().dataset_info(str(table.repo), revision=table.revision).sha)


def _arguments(table: HubTable, datasets: Any) -> dict[str, Any]:
    """The arguments of `load_dataset`."""
    if table.local is None:
        return {"path": table.repo, "revision": table.revision, "name": table.config}
    for suffix, builder in ((".parquet", "parquet"), (".jsonl", "json"), (".jsonl.gz", "json")):
        path = table.local / f"{table.config}{suffix}"
        if path.is_file():
            return {"path": builder, "data_files": {"all": str(path)}}
    folder = str(table.local)
    if table.config is None or table.config in datasets.get_dataset_config_names(folder):
        return {"path": folder, "name": table.config}
    if not (table.local / table.config).is_dir():
        raise FileNotFoundError(f"no configuration, subfolder, .parquet or .jsonl file {table.config!r}")
    return {"path": folder, "data_dir": table.config}


def _value(where: str, number: int, row: dict[str, Any], column: str) -> Any:
    if column not in row:
        known = ", ".join(row)
        raise DataError.at(where, number, f"missing column {column!r} (available: {known}); set its name in `columns`")
    return row[column]


def text_cell(where: str, number: int, row: dict[str, Any], column: str) -> str:
    """Return the string in a column. Raises DataError at row `number` of `where` if it is missing or not a string."""
    value = _value(where, number, row, column)
    if not isinstance(value, str):
        raise DataError.at(where, number, f"column {column!r} must contain strings, not {value!r:.40}")
    return value


def id_cell(where: str, number: int, row: dict[str, Any], column: str) -> str:
    """Return the id in a column, a word or an integer, as text. Raises DataError at `where` if missing or invalid."""
    value = _value(where, number, row, column)
    name = str(value) if isinstance(value, int) and not isinstance(value, bool) else value
    if not isinstance(name, str) or not text_lines.one_word(name):
        raise DataError.at(where, number, f"column {column!r} must contain ids without white space, not {value!r:.40}")
    return name


class TableLoader:
    """Base class for loaders of hub tables; the first table is the corpus."""

    def tables(self) -> tuple[HubTable, ...]:
        """Return the locations of the tables, the corpus first."""
        raise NotImplementedError

    def look_up(self) -> Lookup:
        """Return a note on the number of documents, if it is known. Raises DataError if a table cannot be reached."""
        documents, *_ = [self._rows(table) for table in self.tables()]
        return Lookup(note=f"about {documents:,} documents" if documents else "")

    def size_hint(self) -> int:
        """Return the number of documents according to the repository's metadata; 0 if unknown."""
        with suppress(Exception):
            return self._rows(self.tables()[0])
        return 0

    def _rows(self, table: HubTable) -> int:
        with _refusals(table) as datasets:
            splits = datasets.load_dataset_builder(**_arguments(table, datasets)).info.splits or {}
            return sum(split.num_examples or 0 for split in splits.values())

    def corpus_rows(self) -> tuple[str, Any]:
        """Return the corpus title and a function that reads its rows. Raises DataError unless it has one split."""
        table = self.tables()[0]
        splits = open_table(table)
        if len(splits) != 1:
            raise DataError(f"{table.title}: has several splits ({', '.join(splits)}); choose one with `corpus.split`")
        return table.title, partial(iter, *splits.values())


@dataclass(frozen=True)
class Columns:
    """The column names in the tables; the title column is optional, and its values may be null."""

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
    """A corpus, queries and qrels on the hub, streamed with `datasets`; code from the repository is never executed.

    By default, the tables `corpus` and `queries` are the configurations with these names. The qrels are the
    repository `source`-qrels if `source` is a BeIR repository, the folder `qrels` if `source` is a local folder with
    one, or otherwise the configuration `default`. Each split of the qrels is a split of the collection; `validation` is
    renamed to `dev`. If the query table has a split with the same name, only that split of it is read. Ids may be
    integers. Queries without judgements are left out and noted.

    MS MARCO passages are `HuggingFace("mteb/msmarco")`, with splits train, dev and test. A repository with a loading
    script is refused. A commit hash as `revision` pins the data and needs no look-up on the hub.

    Args:
        source: a hub id, or a local folder with the same layout.
        revision: a branch, tag or commit of the repository.
        corpus: the table of documents, by default the configuration `corpus`.
        queries: the table of queries, by default the configuration `queries`.
        qrels: the table of judgements; the default is described above.
        columns: the names of the columns, by default BEIR's names.
    """

    source: str
    revision: str | None = None
    corpus: HubTable = HubTable(config="corpus")
    queries: HubTable = HubTable(config="queries")
    qrels: HubTable = HubTable()
    columns: Columns = Columns()
    version: ClassVar[int] = 1
    extra: ClassVar[str] = "hub"

    def load(self) -> source_files.PartedCollection:
        """Open the collection for streaming. Raises DataError if a table cannot be reached."""
        _, queries, qrels = self.tables()
        corpus, asked, judged = self.corpus_rows(), open_table(queries), open_table(qrels)
        queries_in, qrels_in = dict[str, source_files.Part](), dict[str, source_files.Part]()
        for split in source_files.order_splits(judged):
            own = {split: asked[split]} if split in asked else asked
            part = row_part(queries.title, partial(chain.from_iterable, own.values()), self._query)
            queries_in[split] = replace(part, name=f"{queries.title} {' '.join(own)}")
            qrels_in[split] = row_part(qrels.title, partial(iter, judged[split]), self._judgement, split)
        return source_files.PartedCollection([row_part(*corpus, self._document)], queries_in, qrels_in)

    def _document(self, where: str, number: int, row: dict[str, Any]) -> Iterator[Document]:
        names = self.columns
        doc_id = id_cell(where, number, row, names.doc_id)
        title = text_cell(where, number, row, names.title) if row.get(names.title) is not None else ""
        yield Document(doc_id, text_cell(where, number, row, names.text), title)

    def _query(self, where: str, number: int, row: dict[str, Any]) -> Iterator[Query]:
        names = self.columns
        yield Query(id_cell(where, number, row, names.query_id), text_cell(where, number, row, names.query))

    def _judgement(self, where: str, number: int, row: dict[str, Any]) -> Iterator[Judgement]:
        names = self.columns
        query_id, doc_id = (id_cell(where, number, row, name) for name in (names.judged_query, names.judged_doc))
        grade = _value(where, number, row, names.relevance)
        if isinstance(grade, bool) or not isinstance(grade, int | float) or grade != grade // 1:
            reason = f"column {names.relevance!r} must contain whole numbers, not {grade!r:.40}"
            raise DataError.at(where, number, reason)
        yield Judgement(query_id, doc_id, int(grade))

    def fingerprint(self) -> str:
        """Return a digest of the options and of the local files or the hub's commit hashes."""
        tables = self.tables()
        content = [table_digest(table) for table in tables]
        layout = [[table.config, table.split] for table in tables]
        return store.digest(["hf", self.version, content, layout, asdict(self.columns)])

    def tables(self) -> tuple[HubTable, HubTable, HubTable]:
        """Return the tables of the corpus, the queries and the qrels, with defaults filled in."""
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
