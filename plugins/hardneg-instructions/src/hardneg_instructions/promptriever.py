"""The training data of Promptriever: queries with instructions, and passages that violate the instructions."""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

from hardneg.plugin import Document, Judgement, Query, errors, stores
from hardneg_instructions.tables import (
    TEMPLATE,
    TableRow,
    check_template,
    files_in,
    instructed,
    read_tables,
    tables_digest,
)

_SPLIT = re.compile(r"([A-Za-z0-9][A-Za-z0-9_]*?)(-\d+-of-\d+)?\.(?:parquet|jsonl?)(?:\.gz)?")
_POSITIVE, _RULED_OUT, _MINED = "positive_passages", "new_negatives", "negative_passages"
SUFFIX = "-instruct"
"""Suffix that marks the id of a query with an instruction. Without an instruction, the id is unchanged."""


@dataclass(frozen=True)
class Promptriever:
    """Queries with an instruction, positive passages, and passages that answer the query but violate the instruction.

    The columns are those of `samaya-ai/msmarco-w-instructions`: `query_id`, `only_query`, `only_instruction` and
    `has_instruction`, and lists of passages with `docid`, `title` and `text`. `positive_passages` are judged 1.
    `new_negatives` violate the instruction and are judged 0. `negative_passages` are not judged. A query with an
    instruction gets the id `ID-instruct`. A passage with an `explanation` was written by a language model and gets the
    id `DOCID.DIGEST`.

    Source: Weller et al., Promptriever: Instruction-Trained Retrievers Can Be Prompted Like Language Models (ICLR
    2025).

    Args:
        source: a Parquet or JSON Lines file, or a folder of files named by split, like `train-00000-of-00052.parquet`.
        template: the text of a query with an instruction; `{query}` alone omits instructions.
        dev: share of the queries of split `train` to use as split `dev`; queries with equal texts stay together.
        test: share of the queries of split `train` to use as split `test`.
    """

    source: str
    template: str = TEMPLATE
    dev: float = 0.0
    test: float = 0.0
    version: ClassVar[int] = 1

    def __post_init__(self) -> None:
        check_template(self.template)
        if not (self.dev >= 0 and self.test >= 0 and self.dev + self.test < 1):
            shares = f"{self.dev} and {self.test}"
            raise errors.PluginError(f"dev, test: shares must be at least 0 and sum to less than 1, not {shares}")

    def load(self) -> "PromptrieverRows":
        """Return the collection, to be read as a stream. Raises DataError if there is no file or split to read."""
        if not self.source:
            raise errors.DataError("promptriever needs a file or a folder, as in promptriever:FOLDER")
        path = Path(self.source).expanduser()
        files = [path] if path.is_file() else files_in(path) or files_in(path / "data")
        by_split: dict[str, list[Path]] = {}
        for each in files:
            if match := _SPLIT.fullmatch(each.name):
                by_split.setdefault(match[1], []).append(each)
        if not by_split:
            raise errors.DataError(f"{path}: no data file, such as train.jsonl or train-00000-of-00052.parquet")
        for split, share in (("dev", self.dev), ("test", self.test)):
            if share and (split in by_split or "train" not in by_split):
                raise errors.DataError(f"{path}: option {split} needs split train and no split {split}; remove it")
        return PromptrieverRows(by_split, self)

    def fingerprint(self) -> str:
        """Return a digest of the loader's version and of its files."""
        files = [path for paths in self.load().files.values() for path in paths]
        return tables_digest("promptriever", self.version, files)

    def size_hint(self) -> int:
        """Return 0, because the number of distinct passages is known only after reading all rows."""
        return 0


@dataclass(frozen=True)
class PromptrieverRows:
    """A collection that is read from the files of each split. loader: the loader with its options."""

    files: dict[str, list[Path]]
    loader: Promptriever
    _counts: Counter[str] = field(default_factory=Counter)

    def documents(self) -> Iterator[Document]:
        """Yield all distinct passages in row order. Raises DataError if passages with the same id differ."""
        known: dict[str, int] = {}
        for split in self.files:
            for row in read_tables(self.files[split]):
                for column in (_POSITIVE, _RULED_OUT, _MINED):
                    for passage in row.rows(column):
                        document = Document(_doc_id(passage), passage.text("text"), passage.optional("title"))
                        content = hash((document.title, document.text))
                        if document.doc_id not in known:
                            known[document.doc_id] = content
                            yield document
                        elif known[document.doc_id] != content:
                            raise row.error(f"{column}: document {document.doc_id!r} differs from an earlier row")

    def splits(self) -> Sequence[str]:
        """Return the splits that have files, then `dev` and `test` if they get a share of `train`."""
        shares = {"dev": self.loader.dev, "test": self.loader.test}
        return [*self.files, *(split for split, share in shares.items() if share)]

    def queries(self, split: str) -> Iterator[Query]:
        """Yield the queries of a split. The template adds the instruction to each query that has one."""
        self._counts.clear()
        for query_id, row in self._rows(split):
            instruction = _instruction(row)
            self._counts["with"] += bool(instruction)
            yield Query(query_id, instructed(self.loader.template, row.text("only_query"), instruction))

    def qrels(self, split: str) -> Iterator[Judgement]:
        """Yield judgements: 1 for positives, 0 for new negatives. Raises DataError if a passage is in both lists."""
        for query_id, row in self._rows(split):
            positive = {_doc_id(passage): 1 for passage in row.rows(_POSITIVE)}
            ruled_out = {_doc_id(passage): 0 for passage in row.rows(_RULED_OUT)}
            if both := positive.keys() & ruled_out.keys():
                raise row.error(f"document {min(both)!r} is in both {_POSITIVE} and {_RULED_OUT}; remove one")
            yield from (Judgement(query_id, *pair) for pair in (positive | ruled_out).items())

    def notes(self) -> Sequence[str]:
        """Return notes for the user on unjudged passages, and on instructions that the template omits."""
        notes = [f"{_MINED} were mined and count as unjudged documents"]
        if "{instruction}" not in self.loader.template and self._counts["with"]:
            notes.append(f"{self._counts['with']} instructions omitted by the template {self.loader.template!r}")
        return notes

    def _rows(self, split: str) -> Iterator[tuple[str, TableRow]]:
        shared = {"dev": self.loader.dev, "test": self.loader.test}
        source = split if split in self.files else "train"
        for row in read_tables(self.files[source]):
            if source != "train" or not any(shared.values()) or self._share(row) == split:
                query_id = row.id("query_id")
                bare = not _instruction(row) or query_id.endswith(SUFFIX)
                yield query_id if bare else query_id + SUFFIX, row

    def _share(self, row: TableRow) -> str:
        """Return the split of a row of `train`, drawn by its query alone."""
        drawn = int(stores.digest(["split", row.text("only_query")])[:8], 16) / 16**8
        return "test" if drawn < self.loader.test else "dev" if drawn < self.loader.test + self.loader.dev else "train"


def _instruction(row: TableRow) -> str:
    return "" if row.cells.get("has_instruction") is False else row.optional("only_instruction")


def _doc_id(passage: TableRow) -> str:
    doc_id = passage.id("docid")
    written = passage.cells.get("explanation") is not None
    return f"{doc_id}.{stores.digest([passage.optional('title'), passage.text('text')])[:8]}" if written else doc_id
