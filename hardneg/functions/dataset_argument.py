"""A dataset, judgements or a model as a function is given them: by name, as a folder or file, or in memory."""

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from numbers import Integral
from pathlib import Path
from typing import Any

from hardneg.datasets.hub_tables import numbered_rows, text_cell
from hardneg.formats.qrels import GRADE_DIGITS, Qrels
from hardneg.formats.source_files import order_splits, split_problem
from hardneg.formats.text_lines import find_file, one_word
from hardneg.functions.argument_values import name_of
from hardneg.functions.arguments import AnyQrels, Dataset, Model
from hardneg.functions.content_store import keep_content
from hardneg.records.errors import DataError, UsageError
from hardneg.records.named_plugins import BEIR
from hardneg.records.types import Document, Judgement, Query
from hardneg.records.wording import suggestion
from hardneg.store.artifacts import Store

_PARTS = ("corpus", "queries", "qrels")
_ONLY = "train"
_FORMS = "give beir:FOLDER or another plugin's name, a folder in BEIR's form, a dict, or a datasets.Dataset of pairs"
_PAIR = ("anchor", "positive")
_SHOWN = 10
_LARGEST = 10**GRADE_DIGITS - 1


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
    return f"{BEIR}:{keep_content(store, 'given-collection', lambda folder: write_dataset(dataset, folder)).path}"


def _is_folder(dataset: str) -> bool:
    try:
        return find_file(Path(dataset), "corpus.jsonl") is not None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", error)
        raise UsageError(f"dataset: {dataset!r:.60} is no name ({reason}); {_FORMS}") from None


def split_of(dataset: Dataset, wanted: str | None, usual: str) -> str:
    """The split that is wanted; else the usual one, or the only one of a dataset in memory."""
    if wanted is not None or isinstance(dataset, str | os.PathLike):
        return wanted or usual
    known = list(_parts_of(dataset)[2])
    return known[0] if len(known) == 1 else usual


def named_qrels(qrels: AnyQrels | None) -> Path | Qrels | None:
    """A file, or checked judgements: grades by document id by query id.

    Raises:
        UsageError: it is neither.
        DataError: an id is none, or a grade is no whole number; all such are told, with their query.
    """
    if qrels is None:
        return None
    if isinstance(qrels, str | os.PathLike):
        return Path(os.fspath(qrels)).expanduser()
    if not isinstance(qrels, Mapping):
        raise UsageError(f"qrels: cannot read {qrels!r:.60}; give a file, or grades by document id by query id")
    if not qrels:
        raise UsageError("qrels is empty; give grades by document id by query id")
    with mistakes_in("qrels") as mistakes:
        return {
            query_id: dict(_graded(f"[{query_id!r}]", judged, mistakes))
            for query_id, judged in qrels.items()
            if is_id(query_id, "", mistakes)
        }


@contextmanager
def mistakes_in(where: str) -> Iterator[list[str]]:
    """A list for the mistakes of one part, raised together as DataError when it was read: ten, and how many more."""
    problems: list[str] = []
    yield problems
    if problems:
        more = [f"and {len(problems) - _SHOWN} more"] if len(problems) > _SHOWN else []
        lines = [*problems[:_SHOWN], *more]
        raise DataError("\n".join(f"{where}{'' if line.startswith('[') else ': '}{line}" for line in lines))


def is_id(value: Any, path: str, mistakes: list[str]) -> bool:
    """Whether this may be the id of a query or a document; if not, that is one mistake more."""
    if isinstance(value, str) and one_word(value):
        return True
    problem = f"id {value!r:.60} must be one word, a text without white space"
    mistakes.append(f"{path}: {problem}" if path else problem)
    return False


def _graded(path: str, judged: Any, mistakes: list[str]) -> Iterator[tuple[str, int]]:
    """Document ids and grades of one query; those of a list are relevant."""
    if isinstance(judged, str) or not isinstance(judged, Iterable) or hasattr(judged, "to_dict"):
        mistakes.append(f"{path}: must be grades by document id, or a list of document ids, not {judged!r:.60}")
        return
    for doc_id, grade in judged.items() if isinstance(judged, Mapping) else ((each, 1) for each in judged):
        if not is_id(doc_id, path, mistakes):
            continue
        if isinstance(grade, bool) or not isinstance(grade, Integral):
            mistakes.append(f"{path}[{doc_id!r}]: a grade is a whole number, not {grade!r:.60}")
        elif not -_LARGEST <= grade <= _LARGEST:
            mistakes.append(f"{path}[{doc_id!r}]: a grade has at most {GRADE_DIGITS} digits")
        else:
            yield doc_id, int(grade)


def _parts_of(dataset: Any) -> tuple[Mapping[str, Any], Mapping[str, Any], dict[str, Any]]:
    """Corpus and queries by id, and judgements by split, of a dict, or of a table of pairs of texts."""
    parts = _of_pairs(dataset) if hasattr(dataset, "column_names") else dataset
    if not isinstance(parts, Mapping) or not parts:
        raise UsageError(f"dataset: cannot read {dataset!r:.60}; {_FORMS}")
    with mistakes_in("dataset") as problems:
        problems += [f"{name!r}: no such part{suggestion(str(name), _PARTS)}" for name in parts if name not in _PARTS]
        for name in _PARTS:
            if not isinstance(part := parts.get(name), Mapping):
                form = f"must be a dict by id, not {type(part).__name__}"
                problems.append(f"{name}: {form}" if name in parts else f"{name!r} is missing")
            elif not part:
                problems.append(f"{name} is empty")
    qrels = parts["qrels"]
    first = next(iter(qrels.values()))
    by_split = isinstance(first, Mapping) and isinstance(next(iter(first.values()), None), Mapping | list | tuple)
    judged = dict(qrels) if by_split else {_ONLY: qrels}
    with mistakes_in("dataset") as problems:
        problems += [problem for split in judged if (problem := split_problem(str(split)))]
    return parts["corpus"], parts["queries"], {split: judged[split] for split in order_splits(judged)}


def _of_pairs(table: Any) -> dict[str, Any]:
    """The parts of a table of anchors and positives: each text is a query or a document once, numbered as met.

    Texts of columns whose names begin with `negative` are documents too.
    """
    if missing := [name for name in _PAIR if name not in table.column_names]:
        there = ", ".join(table.column_names)
        raise DataError(f"dataset: no column {missing[0]!r} among {there}; rename_column gives it one")
    columns = [*_PAIR, *(name for name in table.column_names if name.startswith("negative"))]
    documents, queries, qrels = dict[str, str](), dict[str, str](), dict[str, dict[str, int]]()
    for number, row in numbered_rows("dataset", table.with_format(None)):  # as Python's own values
        anchor, *texts = (text_cell("dataset", number, row, name) for name in columns)
        doc_ids = [documents.setdefault(text, f"d{len(documents)}") for text in texts]
        qrels.setdefault(queries.setdefault(anchor, f"q{len(queries)}"), {})[doc_ids[0]] = 1
    corpus, asked = ({each: text for text, each in known.items()} for known in (documents, queries))
    return {"corpus": corpus, "queries": asked, "qrels": qrels}


def write_dataset(dataset: Any, folder: Path) -> None:
    """Write a dataset in memory in BEIR's form. Raises UsageError and DataError as `named_dataset`."""
    corpus, queries, judged = _parts_of(dataset)
    with mistakes_in("dataset") as mistakes:
        documents = [Document(*each) for each in _texts("corpus", corpus, mistakes)]
        texts = [Query(each, text) for each, text, _ in _texts("queries", queries, mistakes)]
        grades = {split: list(_judgements(split, judged[split], corpus, queries, mistakes)) for split in judged}
    write_beir(folder, documents, texts, grades)


def _texts(part: str, contents: Mapping[Any, Any], mistakes: list[str]) -> Iterator[tuple[str, str, str]]:
    """Id, text and title of each; a document may be a dict of both."""
    for each, content in contents.items():
        row = content if isinstance(content, Mapping) and part == "corpus" else {"text": content}
        title, text = row.get("title") or "", row.get("text")
        if not is_id(each, part, mistakes):
            continue
        if not isinstance(title, str) or not isinstance(text, str):
            wanted = "a text, or a dict with 'text' and 'title'" if part == "corpus" else "a text"
            mistakes.append(f"{part}[{each!r}]: must be {wanted}, not {content!r:.60}")
        else:
            yield each, text, title


def _judgements(
    split: str, qrels: Mapping[str, Any], corpus: Any, queries: Any, mistakes: list[str]
) -> Iterator[Judgement]:
    for query_id, grades in qrels.items():
        path = f"qrels[{split!r}][{query_id!r}]"
        if query_id not in queries:
            mistakes.append(f"{path}: there is no query {query_id!r:.60} in queries")
            continue
        if not str(queries[query_id]).strip():
            mistakes.append(f"queries[{query_id!r}]: has no text")
        for doc_id, grade in _graded(path, grades, mistakes):
            if doc_id not in corpus:
                mistakes.append(f"{path}: there is no document {doc_id!r:.60} in corpus")
            yield Judgement(query_id, doc_id, grade)


def write_beir(
    folder: Path, documents: Iterable[Document], queries: Iterable[Query], judged: Mapping[str, Iterable[Judgement]]
) -> None:
    """Write `corpus.jsonl`, `queries.jsonl` and `qrels/SPLIT.tsv` into an empty folder, streaming.

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

    def lines() -> Iterator[str]:
        for query_id, text in queries:
            if query_id not in texts:
                yield _line(query_id, text=text)
            if texts.setdefault(query_id, text) != text:
                raise DataError(f"dataset: query {query_id!r} has two texts; give it one")

    _write(folder / "queries.jsonl", lines())
    for split, rows in judged.items():
        judgements = (f"{query_id}\t{doc_id}\t{grade}\n" for query_id, doc_id, grade in rows)
        _write(folder / "qrels" / f"{split}.tsv", ["query-id\tcorpus-id\tscore\n"], judgements)


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


def named_model(argument: Model, store: Store) -> str:
    """The model as a recipe names it; a live one is written into the store, under its content.

    Raises:
        UsageError: it is nothing that a model may be.
    """
    if isinstance(argument, str | os.PathLike):
        return name_of("model", os.fspath(argument))
    if not hasattr(argument, "save_pretrained") or not hasattr(argument, "tokenizer"):
        raise UsageError(
            f"model: cannot use {argument!r:.60}; give a folder, a hub id, or a model of sentence-transformers"
        )

    def save(folder: Path) -> None:
        from hardneg.encoders.open.resolved import quiet

        with quiet():
            argument.save_pretrained(str(folder), create_model_card=False)

    return str(keep_content(store, "given-model", save).path)


def model_name(argument: Model) -> str:
    """How results call a model: its name without its place, the name of a result, or a live one's class."""
    if isinstance(argument, str | Path):
        return Path(str(argument).partition(":")[2] or argument).name
    return str(getattr(argument, "name", type(argument).__name__))
