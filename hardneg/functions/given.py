"""Arguments for datasets, judgements and runs: a name, a path or an object in memory."""

import json
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from numbers import Integral
from pathlib import Path
from typing import Any
from uuid import uuid4

from hardneg import formats
from hardneg.datasets.hugging_face import numbered_rows, text_cell
from hardneg.formats import source_files, text_lines
from hardneg.formats.qrels import GRADE_DIGITS, Qrels
from hardneg.functions.arguments import AnyQrels, AnyRun, Dataset
from hardneg.records import Document, Judgement, Query, RankedList, errors, layout, wording
from hardneg.store import Artifact, Store, digest, tree_digest

_PARTS, _PAIR, _ONLY = ("corpus", "queries", "qrels"), ("anchor", "positive"), "train"
FORMS = "give beir:FOLDER or another plugin's name, a folder in BEIR format, a dict, or a DataFrame or Dataset of pairs"
_LARGEST = 3.4028234663852886e38  # of 32 bits


def keep_result(
    store: Store, artifact_type: str, origin: Mapping[str, Any], make: Callable[[Path], Mapping[str, Any] | None]
) -> Artifact:
    """Return the artifact with the given origin from the store, or create it with `make`.

    origin: the artifact's name, and everything that determines its content. make: fills a folder; may return facts.
    """
    key = digest({name: value for name, value in origin.items() if name != "name"})
    with store.lock(key):
        store.recover(key)
        if artifact := store.whole(key):
            return artifact
        store.discard(key)
        facts = make(store.workspace(key))
        return store.commit(key, artifact_type, facts or {}, origin)


def keep_content(store: Store, artifact_type: str, write: Callable[[Path], object]) -> Artifact:
    """Call `write` with an empty folder, and store the files that it creates as an artifact keyed by their content.

    Raises ArtifactError if the store is not writable.
    """
    name = uuid4().hex
    with store.lock(name):
        folder = store.workspace(name)

        def move(target: Path) -> None:
            for path in folder.iterdir():
                os.replace(path, target / path.name)

        try:
            write(folder)
            origin = {"stage": artifact_type, "content": tree_digest(folder), "name": artifact_type}
            return keep_result(store, artifact_type, origin, move)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
            (store.root / "locks" / name).unlink(missing_ok=True)


def split_of(dataset: Dataset, usual: str) -> str:
    """Return the split to use if none is requested: `usual`, or the only split of an in-memory dataset."""
    if isinstance(dataset, str | os.PathLike):
        return usual
    known = list(_parts_of(dataset)[2])
    return known[0] if len(known) == 1 else usual


def named_qrels(qrels: AnyQrels | None) -> Path | Qrels | None:
    """Convert judgements to a path or, if in memory, to checked grades by query id and document id; None stays None.

    Raises:
        UsageError: the value is neither a path nor a mapping.
        DataError: an id or grade is invalid; the message names the query.
    """
    if qrels is None:
        return None
    if isinstance(qrels, str | os.PathLike):
        return Path(os.fspath(qrels)).expanduser()
    if not isinstance(qrels, Mapping) or not qrels:
        problem = " is empty" if isinstance(qrels, Mapping) else f": cannot read {qrels!r:.60}"
        raise errors.UsageError(f"qrels{problem}; give a file, or {{query_id: {{doc_id: grade}}}}")
    return {_id("qrels", name): dict(_graded(f"qrels[{name!r}]", judged)) for name, judged in qrels.items()}


def _id(place: str, value: Any) -> str:
    if isinstance(value, str) and text_lines.one_word(value):
        return value
    raise errors.DataError(f"{place}: id {value!r:.60} must be a string without white space")


def _graded(place: str, judged: Any) -> Iterator[tuple[str, int]]:
    """Yield the document ids and grades of one query; ids in a list have grade 1."""
    if isinstance(judged, str) or not isinstance(judged, Iterable) or hasattr(judged, "to_dict"):
        raise errors.DataError(f"{place}: must be a dict of grades by document id or a list of ids, not {judged!r:.60}")
    for doc_id, grade in judged.items() if isinstance(judged, Mapping) else ((each, 1) for each in judged):
        _id(place, doc_id)
        if isinstance(grade, bool) or not isinstance(grade, Integral):
            raise errors.DataError(f"{place}[{doc_id!r}]: the grade must be a whole number, not {grade!r:.60}")
        if abs(grade) >= 10**GRADE_DIGITS:
            raise errors.DataError(f"{place}[{doc_id!r}]: the grade must have at most {GRADE_DIGITS} digits")
        yield doc_id, int(grade)


def _parts_of(dataset: Any) -> tuple[Mapping[str, Any], Mapping[str, Any], dict[str, Any]]:
    """Return corpus and queries by id, and judgements by split, from a dict or a table of text pairs."""
    parts = _of_pairs(dataset) if hasattr(dataset, "column_names") or hasattr(dataset, "iterrows") else dataset
    if not isinstance(parts, Mapping) or not parts:
        raise errors.UsageError(f"dataset: cannot read {dataset!r:.60}; {FORMS}")
    for name in (*parts, *_PARTS):
        if name not in _PARTS:
            raise errors.DataError(f"dataset: unknown part {name!r}{wording.suggestion(str(name), _PARTS)}")
        if not isinstance(part := parts.get(name), Mapping) or not part:
            form = " is empty" if isinstance(part, Mapping) else f": must be a dict by id, not {type(part).__name__}"
            raise errors.DataError(f"dataset: {name}{form}")
    qrels = parts["qrels"]
    first = next(iter(qrels.values()))
    by_split = isinstance(first, Mapping) and isinstance(next(iter(first.values()), None), Mapping | list | tuple)
    judged = dict(qrels) if by_split else {_ONLY: qrels}
    if problem := next(filter(None, map(source_files.split_problem, map(str, judged))), None):
        raise errors.DataError(f"dataset: {problem}")
    return parts["corpus"], parts["queries"], {split: judged[split] for split in source_files.order_splits(judged)}


def _of_pairs(table: Any) -> dict[str, Any]:
    """Convert a table of anchors and positives to a dataset; each distinct text gets one id, in order of appearance.

    Texts in columns named `negative*` are documents too.
    """
    named = list(map(str, table if hasattr(table, "iterrows") else table.column_names))
    rows = table.to_dict("records") if hasattr(table, "iterrows") else table.with_format(None)  # Python's own values
    if missing := [name for name in _PAIR if name not in named]:
        raise errors.DataError(f"dataset: missing column {missing[0]!r}; rename one of: {', '.join(named)}")
    columns = [*_PAIR, *(name for name in named if name.startswith("negative"))]
    documents, queries, qrels = dict[str, str](), dict[str, str](), dict[str, dict[str, int]]()
    for number, row in numbered_rows("dataset", rows):
        anchor, *texts = (text_cell("dataset", number, row, name) for name in columns)
        doc_ids = [documents.setdefault(text, f"d{len(documents)}") for text in texts]
        qrels.setdefault(queries.setdefault(anchor, f"q{len(queries)}"), {})[doc_ids[0]] = 1
    corpus, asked = ({each: text for text, each in known.items()} for known in (documents, queries))
    return {"corpus": corpus, "queries": asked, "qrels": qrels}


def write_dataset(dataset: Any, folder: Path) -> None:
    """Write an in-memory dataset in BEIR format. Raises the same UsageError and DataError as `named_dataset`."""
    corpus, queries, judged = _parts_of(dataset)
    documents = (Document(*each) for each in _texts("corpus", corpus))
    grades = {split: _judgements(split, qrels, corpus, queries) for split, qrels in judged.items()}
    write_beir(folder, documents, (Query(each, text) for each, text, _ in _texts("queries", queries)), grades)


def _texts(part: str, contents: Mapping[Any, Any]) -> Iterator[tuple[str, str, str]]:
    """Yield id, text and title; a document may be a dict of `text` and `title`."""
    for each, content in contents.items():
        row = content if isinstance(content, Mapping) and part == "corpus" else {"text": content}
        title, text = row.get("title") or "", row.get("text")
        _id(f"dataset: {part}", each)
        if not isinstance(title, str) or not isinstance(text, str):
            wanted = "a string, or a dict with 'text' and 'title'" if part == "corpus" else "a string"
            raise errors.DataError(f"dataset: {part}[{each!r}]: must be {wanted}, not {content!r:.60}")
        yield each, text, title


def _judgements(split: str, qrels: Mapping[str, Any], corpus: Any, queries: Any) -> Iterator[Judgement]:
    for query_id, grades in qrels.items():
        place = f"dataset: qrels[{split!r}][{query_id!r}]"
        if query_id not in queries:
            raise errors.DataError(f"{place}: query {query_id!r:.60} is not in queries")
        if not str(queries[query_id]).strip():
            raise errors.DataError(f"dataset: queries[{query_id!r}]: the text is empty")
        for doc_id, grade in _graded(place, grades):
            if doc_id not in corpus:
                raise errors.DataError(f"{place}: document {doc_id!r:.60} is not in corpus")
            yield Judgement(query_id, doc_id, grade)


def write_beir(
    folder: Path, documents: Iterable[Document], queries: Iterable[Query], judged: Mapping[str, Iterable[Judgement]]
) -> None:
    """Stream `corpus.jsonl`, `queries.jsonl` and `qrels/SPLIT.tsv` into an empty folder.

    queries: the queries of all splits; a repeated query is written once. judged: judgements by split.

    Raises:
        DataError: a text is not valid Unicode, or two texts have the same query id.
    """

    def line(name: str, **texts: str) -> str:
        row = json.dumps({"_id": name, **texts}, ensure_ascii=False) + "\n"
        try:
            row.encode()
        except UnicodeEncodeError as error:
            problem = f"the text of {name!r:.60} has an unpaired surrogate, {error.object[error.start]!r}"
            raise errors.DataError(f"dataset: {problem}, which UTF-8 cannot encode; fix or remove it") from error
        return row

    def write(path: Path, lines: Iterable[str], head: str = "") -> None:
        with path.open("w", encoding="utf-8", newline="\n") as file:
            file.write(head)
            file.writelines(lines)

    (folder / "qrels").mkdir()
    write(folder / "corpus.jsonl", (line(each.doc_id, title=each.title, text=each.text) for each in documents))
    texts: dict[str, str] = {}

    def query_lines() -> Iterator[str]:
        for query_id, text in queries:
            if query_id not in texts:
                yield line(query_id, text=text)
            if texts.setdefault(query_id, text) != text:
                raise errors.DataError(f"dataset: query {query_id!r} has two different texts; keep one")

    write(folder / "queries.jsonl", query_lines())
    for split, rows in judged.items():
        judgements = (f"{query_id}\t{doc_id}\t{grade}\n" for query_id, doc_id, grade in rows)
        write(folder / "qrels" / f"{split}.tsv", judgements, "query-id\tcorpus-id\tscore\n")


def run_file(run: AnyRun, store: Store) -> Path:
    """Return the path of a run; a run in memory is first written to the store.

    Raises:
        UsageError: the object has an unsupported type.
        DataError: an id or a score of a run in memory is invalid.
    """
    if isinstance(run, str | os.PathLike):
        return Path(os.fspath(run)).expanduser()
    if not isinstance(run, Mapping) or not run:
        forms = "give a file, a result of hardneg.search, or {query_id: {doc_id: score}}"
        raise errors.UsageError(f"run: cannot read {run!r:.60}; {forms}")

    def write(folder: Path) -> None:
        try:
            formats.runs.write_run(folder / layout.RUN, _ranked_lists(run))
        except UnicodeEncodeError as error:
            line = str(error.object)[max(0, error.start - 20) : error.end + 20]
            raise errors.DataError(
                f"run: an id has an unpaired surrogate, which UTF-8 cannot encode: {line!r}"
            ) from None

    return keep_content(store, "given-run", write).path / layout.RUN


def _ranked_lists(run: Mapping[str, Mapping[str, float]]) -> Iterator[tuple[str, RankedList]]:
    import numpy as np

    for query_id, scores in run.items():
        place = f"run[{_id('run', query_id)!r}]"
        if not isinstance(scores, Mapping):
            raise errors.DataError(f"{place}: must be a dict of scores by document id, not {scores!r:.60}")
        for doc_id, score in scores.items():
            _id(place, doc_id)
            try:
                finite = abs(float(score)) <= _LARGEST and not isinstance(score, str | bytes)
            except (TypeError, ValueError, OverflowError):
                finite = False
            if not finite:
                raise errors.DataError(f"{place}[{doc_id!r}]: must be a finite 32-bit number, not {score!r:.60}")
        doc_ids = sorted(scores, reverse=True)  # trec_eval's order, with no equal scores
        values = np.fromiter((scores[doc_id] for doc_id in doc_ids), np.float32, len(doc_ids))
        order = np.argsort(-values, stable=True)
        yield (
            query_id,
            RankedList([doc_ids[i] for i in order.tolist()], formats.runs.strictly_decreasing(values[order])),
        )


def is_run(run: Mapping[str, Any]) -> bool:
    """Return whether a mapping is one run (scores by query and document), rather than a dict of runs by label."""
    first = next(iter(run.values()), None)
    return isinstance(first, Mapping) and not isinstance(next(iter(first.values()), 0), Mapping)


def labelled_runs(argument: Any, store: Store) -> dict[str, Path]:
    """Return run files by label. The labels are the keys of a dict, or else the names of the files and results.

    Raises:
        UsageError: there are no runs, or two runs have the same label.
        DataError: an id or a score of a run in memory is invalid.
    """
    if isinstance(argument, Mapping | Sequence) and not argument:
        raise errors.UsageError("runs is empty; give a run, a list of runs, or a dict of runs by label")
    if isinstance(argument, Mapping) and not is_run(argument):
        named = [(str(label), each) for label, each in argument.items()]
    else:
        runs = list(argument) if isinstance(argument, Sequence) and not isinstance(argument, str) else [argument]
        paths = [run_file(each, store) for each in runs if isinstance(each, str | Path)]
        named = [(label, path) for path, label in run_labels(paths).items()]
        others = [(number, each) for number, each in enumerate(runs, 1) if not isinstance(each, str | Path)]
        named += [(getattr(each, "name", f"run {number}"), each) for number, each in others]
    files: dict[str, Path] = {}
    for label, each in named:
        if label in files:
            raise errors.UsageError(f"runs: two runs have the label {label!r}; give a dict of runs by label")
        files[label] = run_file(each, store)
    return files


def run_labels(paths: Sequence[Path]) -> dict[Path, str]:
    """Return unique labels by path: file names, with parent folders if needed. Raises UsageError for equal paths."""
    labels: dict[Path, str] = {}
    for path in paths:
        if path in labels:
            raise errors.UsageError(f"{path}: given twice; remove one")
        namesakes = [other.parts for other in paths if other.name == path.name]
        tails = (path.parts[-length:] for length in range(1, len(path.parts) + 1))
        alone = (tail for tail in tails if sum(parts[-len(tail) :] == tail for parts in namesakes) == 1)
        labels[path] = Path(*next(alone, path.parts)).as_posix()
    return labels
