"""The texts of a task's corpus or queries, as a model gets them from mteb; a corpus as a collection."""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from pydantic import Field

from hardneg.encoders.spec import Side
from hardneg.records.types import Document, Judgement, Query

_AT_ONCE = 4096


def task_texts(rows: Any, task_metadata: Any, side: Side) -> Sequence[str]:
    """The text of each row: of a document its title and its text, of a query its text and its instruction.

    Args:
        rows: a `datasets.Dataset` of a task's corpus or queries.
        task_metadata: mteb's `TaskMetadata`.
    """
    from mteb._create_dataloaders import create_dataloader
    from mteb.types import PromptType

    if not len(rows):
        return ()
    loader = create_dataloader(rows, task_metadata=task_metadata, prompt_type=PromptType(side))
    texts: Sequence[str] = loader.dataset["text"]
    return texts


@dataclass(frozen=True)
class TaskTexts:
    """The loader of a corpus that mteb holds; a document's id is its row, so that equal texts have equal keys.

    source: the texts in row order.
    """

    source: Annotated[Any, Field(exclude=True)]
    version: ClassVar[int] = 1

    def load(self) -> "TaskCorpus":
        """The corpus as a collection."""
        return TaskCorpus(self.source)

    def fingerprint(self) -> str:
        """A digest of the texts: of each its length in bytes, then its bytes."""
        state = hashlib.blake2b(digest_size=16)
        for text in _texts(self.source):
            encoded = text.encode("utf-8", "surrogatepass")
            state.update(len(encoded).to_bytes(8, "little"))
            state.update(encoded)
        return state.hexdigest()

    def size_hint(self) -> int:
        """How many documents there are."""
        return len(self.source)


@dataclass(frozen=True)
class TaskCorpus:
    """A collection of documents alone: mteb itself holds the queries."""

    texts: Sequence[str]

    def documents(self) -> Iterator[Document]:
        """Each text, with its row as id."""
        for row, text in enumerate(_texts(self.texts)):
            yield Document(str(row), text)

    def splits(self) -> Sequence[str]:
        """None."""
        return ()

    def queries(self, split: str) -> Iterator[Query]:
        """None."""
        return iter(())

    def qrels(self, split: str) -> Iterator[Judgement]:
        """None."""
        return iter(())

    def notes(self) -> Sequence[str]:
        """None."""
        return ()


def _texts(source: Sequence[str]) -> Iterator[str]:
    for start in range(0, len(source), _AT_ONCE):
        yield from source[start : start + _AT_ONCE]
