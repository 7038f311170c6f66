"""Open-domain question answering in DPR's files: Wikipedia passages, questions with answers and judged passages."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import ClassVar

from hardneg.data.source_files import Part, Record, line_part, order_splits, records
from hardneg.data.text_lines import estimate_lines, find_file
from hardneg.datasets.dpr_files import Question, passage, read_questions
from hardneg.digest import digest, tree_digest
from hardneg.errors import DataError
from hardneg.types import Answers, Document, Judgement, Query

_FILES = (
    re.compile(r"(?:biencoder-)?(.+)-(train|dev|test)\.json"),
    re.compile(r"(.+)-(train|dev|test)\.qa\.csv"),
    re.compile(r"topics\.dpr\.(.+)\.(train|dev|test)\.txt"),
)


@dataclass(frozen=True)
class Dpr:
    """A folder with `psgs_w100.tsv` and questions such as `biencoder-nq-train.json` and `nq-test.qa.csv`.

    Of a JSON file the positive passages that have an id are the judgements (relevance 1); its negatives are left out
    and counted. A `.qa.csv` file has questions and answers, but no judgements. Where both are there for a split, the
    JSON file is read. Questions have no ids: the first one of `train` is `train-0`.

    Source: Karpukhin et al., "Dense Passage Retrieval for Open-Domain Question Answering", 2020.

    Args:
        source: the folder; each file as it is or as `.gz`.
        questions: which ones, such as nq or trivia, where the folder has those of several sets.
        corpus: the passages: id, text and title, with a header line.
        splits: for each split its file in the folder; empty finds them by their names.
    """

    source: str
    questions: str = ""
    corpus: str = "psgs_w100.tsv"
    splits: Mapping[str, str] = field(default_factory=dict)
    version: ClassVar[int] = 1

    def load(self) -> "DprCollection":
        """The collection, opened for streaming. Raises DataError where a file is missing."""
        folder = Path(self.source).expanduser()
        passages = _file(folder, self.corpus)
        if self.splits:
            return DprCollection(passages, {split: _file(folder, self.splits[split]) for split in self.splits})
        found, unread = self._find(folder)
        notes = [f"{path.name}: left out, {found[split].name} is read for {split}" for split, path in unread]
        return DprCollection(passages, {split: found[split] for split in order_splits(found)}, notes)

    def fingerprint(self) -> str:
        """A digest of the bytes of the files that are read, and of their splits."""
        collection, root = self.load(), Path(self.source).expanduser()
        paths = [collection.passages, *collection.questions.values()]
        names = [path.relative_to(root).as_posix() for path in paths]
        return digest(
            ["dpr", self.version, dict(zip(collection.questions, names[1:], strict=True)), tree_digest(root, names)]
        )

    def size_hint(self) -> int:
        """About how many passages there are, from the first lines and the size of the file."""
        return estimate_lines(_file(Path(self.source).expanduser(), self.corpus))

    def _find(self, folder: Path) -> tuple[dict[str, Path], list[tuple[str, Path]]]:
        names = sorted({path.name.removesuffix(".gz") for path in folder.iterdir()})
        matches = [match for pattern in _FILES for match in map(pattern.fullmatch, names) if match]
        sets = sorted({match[1] for match in matches})
        if self.questions not in sets and (self.questions or len(sets) != 1):
            there = ", ".join(sets) or "none, such as biencoder-nq-train.json"
            raise DataError(f"{folder}: choose with `questions`; there are: {there}")
        found: dict[str, Path] = {}
        unread: list[tuple[str, Path]] = []
        for match in matches:
            path = _file(folder, match[0])
            if match[1] == (self.questions or sets[0]) and found.setdefault(match[2], path) != path:
                unread.append((match[2], path))
        return found, unread


@dataclass(frozen=True)
class DprCollection:
    """The opened files: the passages, and the questions by split."""

    passages: Path
    questions: Mapping[str, Path]
    left_out: Sequence[str] = ()
    _counts: dict[str, Counter[str]] = field(default_factory=dict)

    def documents(self) -> Iterator[Document]:
        """The passages, in the file's order."""
        return (record for _, record in records(self._documents()) if isinstance(record, Document))

    def splits(self) -> Sequence[str]:
        """The splits that have a file."""
        return list(self.questions)

    def queries(self, split: str) -> Iterator[Query]:
        """All questions of one split, in the file's order."""
        return (Query(query_id, question.text) for query_id, question in self._read(split))

    def qrels(self, split: str) -> Iterator[Judgement]:
        """Relevance 1 for each positive passage that has an id; what is left out is counted."""
        counts = self._counts[split] = Counter()
        for query_id, question in self._read(split):
            counts.update(question.left_out)
            yield from (Judgement(query_id, doc_id, 1) for doc_id in dict.fromkeys(question.positives))

    def answers(self, split: str) -> Iterator[Answers]:
        """The answers to the questions of one split."""
        return (Answers(query_id, question.answers) for query_id, question in self._read(split))

    def notes(self) -> Sequence[str]:
        """Files that are not read, and how many passages of the questions were left out."""
        counted = [(self.questions[split].name, counts) for split, counts in self._counts.items()]
        return [*self.left_out, *(f"{name}: {n} {what}" for name, counts in counted for what, n in counts.items())]

    def parts(self) -> Iterator[Part]:
        """The files as `hardneg.data.check` reads them; a mistake in a JSON file ends its reading."""
        yield self._documents()
        for split, path in self.questions.items():
            yield Part(str(path), partial(self._records, split, False), split)
        for split, path in self.questions.items():
            if path.name.endswith((".json", ".json.gz")):
                yield Part(str(path), partial(self._records, split, True), split)

    def _documents(self) -> Part:
        return line_part(self.passages, passage)

    def _read(self, split: str) -> Iterator[tuple[str, Question]]:
        for number, (_, question) in enumerate(read_questions(self.questions[split])):
            if isinstance(question, DataError):
                raise question
            yield f"{split}-{number}", question

    def _records(self, split: str, judged: bool) -> Iterator[tuple[int, Record | DataError]]:
        for number, (line, question) in enumerate(read_questions(self.questions[split])):
            if isinstance(question, DataError):
                if not judged:
                    yield line, question
            elif judged:
                yield from ((line, Judgement(f"{split}-{number}", doc_id, 1)) for doc_id in question.positives)
            else:
                yield line, Query(f"{split}-{number}", question.text)


def _file(folder: Path, name: str) -> Path:
    path = find_file(folder, name)
    if path is None:
        raise DataError(f"{folder}: neither {name} nor {name}.gz; `hardneg data fetch nq` brings those of NQ")
    return path
