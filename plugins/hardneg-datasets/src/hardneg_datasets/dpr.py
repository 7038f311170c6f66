"""A loader of DPR's question-answering files: Wikipedia passages, and questions with answers and judgements."""

import ast
import csv
import re
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

from hardneg.plugin import Document, Judgement, Query, errors, records, source_files, stores, text_lines

_FILES = (
    re.compile(r"(?:biencoder-)?(.+)-(train|dev|test)\.json"),
    re.compile(r"(.+)-(train|dev|test)\.qa\.csv"),
    re.compile(r"topics\.dpr\.(.+)\.(train|dev|test)\.txt"),
)
_HEADER = ["id", "text", "title"]
_IDS = ("passage_id", "psg_id", "id")
_LONGEST = 1 << 20


@dataclass(frozen=True)
class Question:
    """A question, its answers, and the ids of its positive passages. left_out: counts of other passages by reason."""

    text: str
    answers: tuple[str, ...]
    positives: tuple[str, ...] = ()
    left_out: Counter[str] = field(default_factory=Counter)


@dataclass(frozen=True)
class Dpr:
    """A folder with `psgs_w100.tsv` and question files such as `biencoder-nq-train.json` and `nq-test.qa.csv`.

    In a JSON file, the positive passages with an id become the judgements (relevance 1), and negatives are left out and
    counted. A `.qa.csv` file has questions and answers, but no judgements. If a split has both, the JSON file is read.
    The files have no query ids; the first question of split `train` gets the id `train-0`.

    Source: Karpukhin et al., "Dense Passage Retrieval for Open-Domain Question Answering", 2020.

    Args:
        source: the folder; each file plain or `.gz`.
        questions: the set of questions, such as nq or trivia, if the folder has several.
        corpus: the file of passages, with a header line and the columns id, text and title.
        splits: file names in the folder, by split; if empty, files are found by name.
    """

    source: str
    questions: str = ""
    corpus: str = "psgs_w100.tsv"
    splits: Mapping[str, str] = field(default_factory=dict)
    version: ClassVar[int] = 1
    known_by: ClassVar[tuple[str, ...]] = ("psgs_w100.tsv", "psgs_w100.tsv.gz")

    def load(self) -> "DprCollection":
        """Return the collection, opened for streaming. Raises DataError if a file is missing."""
        folder = Path(self.source).expanduser()
        passages = _file(folder, self.corpus)
        if self.splits:
            return DprCollection.of(passages, {split: _file(folder, self.splits[split]) for split in self.splits})
        files, unread = self._find(folder)
        notes = [f"{path.name}: left out; {files[split].name} is read for {split}" for split, path in unread]
        return DprCollection.of(passages, {split: files[split] for split in source_files.order_splits(files)}, notes)

    def fingerprint(self) -> str:
        """Return a digest of the files' bytes and their splits."""
        collection, root = self.load(), Path(self.source).expanduser()
        names = {split: path.relative_to(root).as_posix() for split, path in collection.questions.items()}
        return stores.digest(["dpr", self.version, names, collection.digest(root)])

    def size_hint(self) -> int:
        """Estimate the number of passages from the first lines and the size of the corpus file."""
        return text_lines.estimate_lines(_file(Path(self.source).expanduser(), self.corpus))

    def _find(self, folder: Path) -> tuple[dict[str, Path], list[tuple[str, Path]]]:
        names = sorted({path.name.removesuffix(".gz") for path in folder.iterdir()})
        matches = [match for pattern in _FILES for match in map(pattern.fullmatch, names) if match]
        sets = sorted({match[1] for match in matches})
        if self.questions not in sets and (self.questions or len(sets) != 1):
            there = ", ".join(sets) or "none (no file like biencoder-nq-train.json)"
            raise errors.DataError(f"{folder}: choose a set with `questions`; available: {there}")
        files: dict[str, Path] = {}
        unread: list[tuple[str, Path]] = []
        for match in matches:
            path = _file(folder, match[0])
            if match[1] == (self.questions or sets[0]) and files.setdefault(match[2], path) != path:
                unread.append((match[2], path))
        return files, unread


@dataclass(frozen=True)
class DprCollection(source_files.PartedCollection):
    """A DPR folder, open for streaming. questions: files by split. counts: passages left out, by split and reason."""

    questions: Mapping[str, Path] = field(default_factory=dict)
    counts: dict[str, Counter[str]] = field(default_factory=dict)

    @classmethod
    def of(cls, passages: Path, questions: Mapping[str, Path], left_out: Sequence[str] = ()) -> "DprCollection":
        """Return the collection with the given passage file and question files by split. left_out: further notes."""
        counts: dict[str, Counter[str]] = {}
        queries, judged = (
            {
                split: source_files.Part(str(path), partial(read, counts, split, path), split)
                for split, path in questions.items()
            }
            for read in (_queries, _judgements)
        )
        return cls(
            [source_files.line_part(passages, passage)],
            queries,
            judged,
            left_out,
            True,
            questions=questions,
            counts=counts,
        )

    def answers(self, split: str) -> Iterator[records.Answers]:
        """Yield the answers to each question of a split. Raises DataError if a question is unreadable."""
        for number, (_, question) in enumerate(read_questions(self.questions[split])):
            if isinstance(question, errors.DataError):
                raise question
            yield records.Answers(f"{split}-{number}", question.answers)

    def notes(self) -> Sequence[str]:
        """Return notes on files that were not read and, after reading the judgements, on passages left out."""
        read = [(self.questions[split].name, counts) for split, counts in self.counts.items()]
        return [*self.left_out, *(f"{name}: {n} {what}" for name, counts in read for what, n in counts.items())]


def _queries(counts: object, split: str, path: Path) -> Iterator[tuple[int, source_files.Record | errors.DataError]]:
    for number, (line, question) in enumerate(read_questions(path)):
        yield line, question if isinstance(question, errors.DataError) else Query(f"{split}-{number}", question.text)


def _judgements(
    counts: dict[str, Counter[str]], split: str, path: Path
) -> Iterator[tuple[int, source_files.Record | errors.DataError]]:
    """Yield relevance 1 for each positive passage with an id; count the others."""
    counts[split] = Counter()
    for number, (line, question) in enumerate(read_questions(path)):
        if not isinstance(question, errors.DataError):  # reported with the queries
            counts[split].update(question.left_out)
            yield from ((line, Judgement(f"{split}-{number}", each, 1)) for each in dict.fromkeys(question.positives))


def _file(folder: Path, name: str) -> Path:
    path = text_lines.find_file(folder, name)
    if path is None:
        raise errors.DataError(f"{folder}: no {name} or {name}.gz; `hardneg data fetch nq` downloads NQ")
    return path


def passage(path: Path, number: int, line: str) -> Document | None:
    """Parse a tab-separated line of id, text and title with CSV quotes; return None for the header.

    Raises DataError if the line is malformed.
    """
    cells = _cells(path, number, line)
    if number == 1 and cells == _HEADER:
        return None
    if len(cells) != 3:
        raise errors.DataError.at(path, number, f"expected 3 columns (id, text, title), found {len(cells)}")
    return Document(text_lines.checked_id(path, number, cells[0]), *cells[1:])


def read_questions(path: Path) -> Iterator[tuple[int, Question | errors.DataError]]:
    """Yield numbered questions from a JSON array, JSON Lines, or lines of a question, a tab and a list of answers.

    For an unreadable question, its error is yielded instead; a JSON array is read only up to the first error.
    """
    if path.name.endswith((".json", ".json.gz")):
        try:
            for number, row in text_lines.read_array(path):
                yield number, _judged_question(path, number, row)
        except errors.DataError as error:
            yield 0, error
        return
    for number, line in text_lines.lines_or_errors(path):
        try:
            yield number, line if isinstance(line, errors.DataError) else _answered_question(path, number, line)
        except errors.DataError as error:
            yield number, error


def _judged_question(path: Path, number: int, row: dict[str, Any]) -> Question:
    left_out: Counter[str] = Counter()
    positives = []
    for entry in _passages(path, number, row, "positive_ctxs"):
        if any(entry.get(key) not in (None, "") for key in _IDS):
            keys = [key for key in _IDS if entry.get(key) not in (None, "")]
            positives.append(text_lines.id_field(path, number, entry, *keys))
        else:
            left_out["positive passages without an id left out"] += 1
    for key, words in (("negative_ctxs", "negatives"), ("hard_negative_ctxs", "hard negatives")):
        if count := len(_passages(path, number, row, key)):
            left_out[f"{words} left out: a collection has only positives"] += count
    answers = text_lines.texts_field(path, number, row, "answers")
    return Question(text_lines.text_field(path, number, row, "question"), answers, tuple(positives), left_out)


def _passages(path: Path, number: int, row: dict[str, Any], key: str) -> list[dict[str, Any]]:
    entries = row.get(key) or []
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise errors.DataError.at(path, number, f"{key!r} must be a list of JSON objects")
    return entries


def _answered_question(path: Path, number: int, line: str) -> Question:
    if line.startswith("{"):
        row = text_lines.json_row(path, number, line)
        answers = text_lines.texts_field(path, number, row, "answers" if "answers" in row else "answer")
        return Question(text_lines.text_field(path, number, row, "question"), answers)
    cells = _cells(path, number, line)
    if len(cells) != 2:
        raise errors.DataError.at(path, number, f"expected 2 columns (question, list of answers), found {len(cells)}")
    return Question(cells[0], _listed(path, number, cells[1]))


def _listed(path: Path, number: int, cell: str) -> tuple[str, ...]:
    """Parse a list of strings in Python's notation; only literals are evaluated."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # an answer with a stray backslash is a SyntaxWarning
            values = ast.literal_eval(cell) if len(cell) < _LONGEST else None
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        values = None
    if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
        raise errors.DataError.at(path, number, f"answers must be a list of strings like ['1901'], not {cell[:40]!r}")
    return tuple(values)


def _cells(path: Path, number: int, line: str) -> list[str]:
    try:
        return next(csv.reader([line], delimiter="\t"))
    except csv.Error as error:
        raise errors.DataError.at(path, number, f"not tab-separated values ({error})") from error
