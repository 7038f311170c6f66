"""A dataset as a function is given it: a name, a folder, tables or dicts, as a recipe names it."""

import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence, Sized
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hardneg.api.argument_values import name_of
from hardneg.api.arguments import Dataset
from hardneg.api.content_store import keep_content
from hardneg.api.qrels_argument import graded, is_id, mistakes_in, refuse
from hardneg.datasets.hub_tables import id_cell, numbered_rows, text_cell, whole_cell
from hardneg.formats.source_files import order_splits, split_problem
from hardneg.formats.text_lines import find_file
from hardneg.records.errors import DataError, UsageError
from hardneg.records.named_plugins import BEIR
from hardneg.records.types import Document, Judgement, Query
from hardneg.records.wording import suggestion
from hardneg.store.artifacts import Store

PARTS = ("corpus", "queries", "qrels")
_ONLY = "train"
_FORMS = "give beir:FOLDER or another plugin's name, a folder in BEIR's form, a datasets.Dataset, or a dict"
_PAIR = ("anchor", "positive")


def named_dataset(dataset: Dataset, store: Store) -> str:
    """The dataset as a recipe names it; one in memory is written into the store, under its content.

    Raises:
        UsageError: it is none of the forms that a dataset may have.
        DataError: one in memory has a mistake; each is told with its place.
    """
    if isinstance(dataset, os.PathLike) or (isinstance(dataset, str) and _is_folder(dataset)):
        return f"{BEIR}:{os.fspath(dataset)}"
    if isinstance(dataset, str):
        return name_of("dataset", dataset)
    artifact = keep_content(store, "given-collection", MemoryCollection.of(dataset).write)
    return f"{BEIR}:{artifact.path}"


def split_of(dataset: Dataset, wanted: str | None, usual: str) -> str:
    """The split that is wanted; else the usual one, or the only one of a dataset in memory."""
    if wanted is not None or isinstance(dataset, str | os.PathLike):
        return wanted or usual
    known = list(MemoryCollection.of(dataset).judged)
    return known[0] if len(known) == 1 else usual


def _is_folder(dataset: str) -> bool:
    try:
        return find_file(Path(dataset), "corpus.jsonl") is not None
    except (OSError, ValueError) as error:
        raise UsageError(
            f"dataset: {dataset!r:.60} is no name ({getattr(error, 'strerror', error)}); {_FORMS}"
        ) from None


@dataclass(frozen=True)
class MemoryCollection:
    """BEIR's three parts in memory, each a dict by id or a table with BEIR's columns; judgements by split."""

    corpus: Any
    texts: Any
    judged: Mapping[str, Any]

    @classmethod
    def of(cls, dataset: Any) -> "MemoryCollection":
        """The collection of a dict, or of a table of pairs.

        Raises:
            UsageError: it is neither.
            DataError: a part is missing, unknown, or neither a dict nor a table.
        """
        parts = _of_pairs(dataset) if _is_table(dataset) else dataset
        if not isinstance(parts, Mapping) or not parts:
            raise UsageError(f"dataset: cannot read {dataset!r:.60}; {_FORMS}")
        problems = [f"{name!r}: no such part{suggestion(str(name), PARTS)}" for name in parts if name not in PARTS]
        problems += [f"{name!r} is missing" for name in PARTS if name not in parts]
        given = {name: parts[name] for name in PARTS if name in parts}
        problems += [
            f"{name}: must be a dict by id, or a table, not {_form(part)}"
            for name, part in given.items()
            if not isinstance(part, Mapping) and not _is_table(part)
        ]
        refuse(
            problems
            or [f"{name} is empty" for name, part in given.items() if isinstance(part, Sized) and not len(part)]
        )
        qrels = parts["qrels"]
        judged = dict(qrels) if _is_by_split(qrels) else {_ONLY: qrels}
        refuse([problem for split in judged if (problem := split_problem(str(split)))])
        return cls(parts["corpus"], parts["queries"], {split: judged[split] for split in order_splits(judged)})

    def write(self, folder: Path) -> None:
        """Writes the collection in BEIR's form. Raises DataError for mistakes, those of a part together."""
        write_beir(folder, self.documents(), self.queries(), {split: self.qrels(split) for split in self.judged})

    def documents(self) -> Iterator[Document]:
        """The corpus in the order that it was given in. Raises DataError where something is no text."""
        with mistakes_in("dataset") as mistakes:
            for doc_id, content in _items("corpus", self.corpus, mistakes):
                parts = content if isinstance(content, Mapping) else {"text": content}
                title, text = parts.get("title"), parts.get("text")
                title = "" if title is None else title
                if not isinstance(title, str) or not isinstance(text, str):
                    wanted = "must be a text, or a dict with 'text' and 'title'"
                    mistakes.append(f"corpus[{doc_id!r}]: {wanted}, not {content!r:.60}")
                elif odd := [each for each in parts if each != "title" and suggestion(str(each), ["title"])]:
                    mistakes.append(f"corpus[{doc_id!r}]: {odd[0]!r}: no such part; did you mean 'title'?")
                else:
                    yield Document(doc_id, text, title)

    def queries(self) -> Iterator[Query]:
        """The queries as they were given, judged or not. Raises DataError where something is no text."""
        with mistakes_in("dataset") as mistakes:
            for query_id, content in _items("queries", self.texts, mistakes):
                text = content["text"] if _is_table(self.texts) else content
                if not isinstance(text, str):
                    mistakes.append(f"queries[{query_id!r}]: must be a text, not {text!r:.60}")
                else:
                    yield Query(query_id, text)

    def qrels(self, split: str) -> Iterator[Judgement]:
        """The judgements of a split. Raises DataError where one is no whole number, or is about an unknown text."""
        if _is_table(table := self.judged[split]):
            where = f"dataset qrels {split}"
            for number, row in numbered_rows(where, table):
                query_id, doc_id = (id_cell(where, number, row, name) for name in ("query-id", "corpus-id"))
                yield Judgement(query_id, doc_id, whole_cell(where, number, row, "score"))
            return
        with mistakes_in("dataset") as mistakes:
            for query_id, grades in table.items():
                path = f"qrels[{split!r}][{query_id!r}]"
                if isinstance(self.texts, Mapping) and query_id not in self.texts:
                    mistakes.append(f"{path}: there is no query {query_id!r:.60} in queries")
                    continue
                if isinstance(self.texts, Mapping) and not str(self.texts[query_id]).strip():
                    mistakes.append(f"queries[{query_id!r}]: has no text")
                for doc_id, grade in graded(path, grades, mistakes):
                    if isinstance(self.corpus, Mapping) and doc_id not in self.corpus:
                        mistakes.append(f"{path}: there is no document {doc_id!r:.60} in corpus")
                    else:
                        yield Judgement(query_id, doc_id, grade)


def _is_table(value: Any) -> bool:
    """Whether this is a `datasets.Dataset`, or has rows and columns as one has; the library is not imported."""
    return hasattr(value, "column_names") and not isinstance(value, Mapping)


def _is_by_split(qrels: Any) -> bool:
    first = next(iter(qrels.values())) if isinstance(qrels, Mapping) else None
    inner = next(iter(first.values()), None) if isinstance(first, Mapping) else None
    return _is_table(first) or (isinstance(inner, Mapping | Sequence) and not isinstance(inner, str))


def _form(value: Any) -> str:
    """What was given in place of a dict; of a frame, what makes a table of it."""
    type_name = type(value).__name__
    maker = {"pandas": "from_pandas", "polars": "from_polars"}.get(type(value).__module__.partition(".")[0])
    return f"{type_name}; datasets.Dataset.{maker} makes a table of it" if maker else type_name


def _items(part: str, given: Any, mistakes: list[str]) -> Iterator[tuple[str, Any]]:
    """Ids and contents of a part; what is no id goes to `mistakes`."""
    if _is_table(given):
        for number, row in numbered_rows(f"dataset {part}", given):
            text_cell(f"dataset {part}", number, row, "text")
            yield id_cell(f"dataset {part}", number, row, "_id"), row
    else:
        yield from ((each, content) for each, content in given.items() if is_id(each, part, mistakes))


def _of_pairs(table: Any) -> dict[str, Any]:
    """The parts of a table of anchors and positives: each text is a query or a document once, numbered as met.

    Texts of columns whose names begin with `negative` are documents too.
    """
    if missing := [name for name in _PAIR if name not in table.column_names]:
        refuse([f"no column {missing[0]!r} among {', '.join(table.column_names)}; rename_column gives it one"])
    columns = [*_PAIR, *(name for name in table.column_names if name.startswith("negative"))]
    documents: dict[str, str] = {}
    queries: dict[str, str] = {}
    qrels: dict[str, dict[str, int]] = {}
    for number, row in numbered_rows("dataset", table):
        anchor, *texts = (text_cell("dataset", number, row, name) for name in columns)
        doc_ids = [documents.setdefault(text, f"d{len(documents)}") for text in texts]
        qrels.setdefault(queries.setdefault(anchor, f"q{len(queries)}"), {})[doc_ids[0]] = 1
    corpus, asked = ({each: text for text, each in known.items()} for known in (documents, queries))
    return {"corpus": corpus, "queries": asked, "qrels": qrels}


def write_beir(
    folder: Path, documents: Iterable[Document], queries: Iterable[Query], judged: Mapping[str, Iterable[Judgement]]
) -> None:
    """Writes `corpus.jsonl`, `queries.jsonl` and `qrels/SPLIT.tsv` into an empty folder, streaming.

    Args:
        folder: where the files are written.
        documents: the corpus.
        queries: those of all splits; one may come twice.
        judged: the judgements of each split.

    Raises:
        DataError: a text has half a character; or a query comes again with another text.
    """
    (folder / "qrels").mkdir()
    _write(folder / "corpus.jsonl", (_line(each.doc_id, title=each.title, text=each.text) for each in documents))
    texts: dict[str, str] = {}
    with (folder / "queries.jsonl").open("w", encoding="utf-8", newline="\n") as file:
        for query_id, text in queries:
            if query_id not in texts:
                file.write(_line(query_id, text=text))
            if texts.setdefault(query_id, text) != text:
                raise DataError(f"dataset: query {query_id!r} has two texts; give it one")
    for split, rows in judged.items():
        lines = (f"{query_id}\t{doc_id}\t{grade}\n" for query_id, doc_id, grade in rows)
        _write(folder / "qrels" / f"{split}.tsv", ["query-id\tcorpus-id\tscore\n"], lines)


def _line(name: str, **texts: str) -> str:
    line = json.dumps({"_id": name, **texts}, ensure_ascii=False) + "\n"
    try:
        line.encode()
    except UnicodeEncodeError as error:
        problem = f"the text of {name!r:.60} has half a character, {error.object[error.start]!r}"
        raise DataError(f"dataset: {problem}, which no file can hold; mend or leave it out") from error
    return line


def _write(path: Path, *parts: Iterable[str]) -> None:
    with path.open("w", encoding="utf-8", newline="\n") as file:
        for part in parts:
            file.writelines(part)
