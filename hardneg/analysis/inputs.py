"""What analyses read, be it artifacts of a recipe or plain files, whoever made them."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from hardneg.formats.qrels import Qrels, positives, read_qrels
from hardneg.formats.runs import EMPTY, Run, read_run
from hardneg.formats.source_files import queries_part, records
from hardneg.formats.text_lines import id_field, json_row, read_lines, text_field, title_field
from hardneg.records import NEGATIVES, DataError, Document, Query, RankedList, UsageError, suggestion
from hardneg.runtime import SEED, Progress, Silent

if TYPE_CHECKING:
    from hardneg.encoders.spec import Side
    from hardneg.evaluation.metrics import Scores
    from hardneg.evaluation.metrics_json import Measured
    from hardneg.protocols import DenseSearcher

_LINES = 65_536

Record = Mapping[str, Any]
"""One line of a training's history."""


@dataclass(frozen=True)
class System:
    """An index with one vector a document, opened, and the model of its queries.

    doc_ids: those of its rows. rows: finds documents, int64 [n], -1 where the index lacks one. encode: query vectors
    float32 [n, d] of texts. device: where to compute. encode_documents: the same of texts as documents, where it can.
    """

    searcher: "DenseSearcher"
    doc_ids: Sequence[str]
    rows: Callable[[Sequence[str]], NDArray[np.int64]]
    encode: Callable[[Sequence[str]], NDArray[np.float32]]
    device: str = "cpu"
    encode_documents: Callable[[Sequence[str]], NDArray[np.float32]] | None = None


class AnalysisInputs(ABC):
    """What an analysis is handed. `path` is that of one of its references, such as `runs.BM25`."""

    split: str = "test"
    relevance_level: int = 1
    seed: int = SEED

    @abstractmethod
    def location(self, path: str) -> str:
        """How a message names what a reference leads to."""

    @abstractmethod
    def label(self, path: str) -> str:
        """How a table names it."""

    @abstractmethod
    def run(self, path: str) -> Run:
        """A run, whole."""

    @abstractmethod
    def stream(self, path: str) -> Iterator[tuple[str, RankedList]]:
        """The items of a run that may be too large to hold."""

    @abstractmethod
    def lists(self, path: str, query_ids: Sequence[str]) -> Iterator[RankedList]:
        """The lists of a run for these queries, in the order of `query_ids`, an empty one where it has none."""

    @abstractmethod
    def query_ids(self, path: str, split: str) -> Sequence[str]:
        """The queries of a split that a run may list, in its order."""

    @abstractmethod
    def qrels(self) -> Qrels:
        """The judgements of the split."""

    @abstractmethod
    def relevant(self) -> Mapping[str, Sequence[str]]:
        """All that is known to be relevant, whatever the split and the grade, by query."""

    @abstractmethod
    def withheld(self) -> Mapping[str, Sequence[str]]:
        """Positives that were kept from training, by query."""

    @abstractmethod
    def queries(self, split: str | None) -> Mapping[str, str]:
        """Texts by query of a split, or of all; empty where they are not known."""

    @abstractmethod
    def texts(self, doc_ids: Sequence[str]) -> Mapping[str, str]:
        """Texts of documents, by id; those that are not known are left out."""

    @abstractmethod
    def copies(self, doc_ids: Sequence[str]) -> Sequence[str]:
        """These documents, and those with the same contents."""

    def groups(self) -> Mapping[str, str]:
        """The group of each document that has one, by its id; maybe none."""
        return {}

    @abstractmethod
    def negatives(self, path: str) -> Path:
        """The file of mined negatives."""

    @abstractmethod
    def mined(self, path: str) -> tuple[Path, Path]:
        """The file of what a miner dropped, and that of its negatives."""

    @abstractmethod
    def history(self, path: str) -> list[Record]:
        """The records of a training."""

    @abstractmethod
    def facts(self, path: str) -> tuple[str, Mapping[str, Any]]:
        """The type of a stage's artifact, and the facts of its manifest."""

    @abstractmethod
    def measured(self, path: str) -> "Measured":
        """An evaluation: scores by system, those of each seed, and its tests."""

    def results(self, path: str) -> "Mapping[str, Scores]":
        """Scores of an evaluation by system."""
        return self.measured(path).results

    @abstractmethod
    def index(self, path: str) -> tuple[Path, int | None]:
        """The folder of an index, and how many documents it may be of where it does not say so itself."""

    @abstractmethod
    def system(self, index: str, model: str) -> System:
        """An index and the model of its queries, opened."""

    def runs(self, field_name: str, labels: Iterable[str]) -> dict[str, Run]:
        """The runs of a mapping of references, by label."""
        return {label: self.run(f"{field_name}.{label}") for label in labels}

    def positives(self) -> dict[str, list[str]]:
        """The positives of the split's queries, from the relevance level up."""
        return positives(self.qrels(), self.relevance_level)


@dataclass(frozen=True)
class Files(AnalysisInputs):
    """Plain files, and the stages of a run folder.

    named: what each reference names, by its path: a file, a folder, a model, or a stage. labels: how a table names a
    file. judged, topics, corpus, hidden: files of judgements, queries, documents, withheld judgements. stages: kind
    and facts by name of stage.
    """

    named: Mapping[str, str]
    labels: Mapping[str, str] = field(default_factory=dict)
    judged: Path | None = None
    topics: Path | None = None
    corpus: Path | None = None
    hidden: Path | None = None
    stages: Mapping[str, tuple[str, Mapping[str, Any]]] = field(default_factory=dict)
    device: str | None = None
    relevance_level: int = 1
    seed: int = SEED
    progress: Progress = field(default_factory=Silent)

    def _path(self, path: str) -> Path:
        return Path(self.named[path])

    def location(self, path: str) -> str:
        return self.named.get(path, path)

    def label(self, path: str) -> str:
        return self.labels.get(self.named[path], self._path(path).name)

    def run(self, path: str) -> Run:
        return read_run(self._path(path))

    def stream(self, path: str) -> Iterator[tuple[str, RankedList]]:
        return iter(self.run(path).items())

    def lists(self, path: str, query_ids: Sequence[str]) -> Iterator[RankedList]:
        run = self.run(path)
        return (run.get(query_id, EMPTY) for query_id in query_ids)

    def query_ids(self, path: str, split: str) -> Sequence[str]:
        return list(self.run(path))

    @cached_property
    def _qrels(self) -> Qrels:
        return read_qrels(self.judged) if self.judged else {}

    def qrels(self) -> Qrels:
        return self._qrels

    def relevant(self) -> Mapping[str, Sequence[str]]:
        return positives(self._qrels)

    def withheld(self) -> Mapping[str, Sequence[str]]:
        return positives(read_qrels(self.hidden)) if self.hidden else {}

    def queries(self, split: str | None) -> Mapping[str, str]:
        if self.topics is None:
            return {}
        found = (record for _, record in records(queries_part(self.topics)) if isinstance(record, Query))
        queries = {record.query_id: record.text for record in found}
        if not queries:
            raise DataError(f"{self.topics}: holds no queries")
        return queries

    def texts(self, doc_ids: Sequence[str]) -> Mapping[str, str]:
        wanted, texts = set(doc_ids), dict[str, str]()
        if (path := self.corpus) is None or not wanted:
            return texts
        for number, line in read_lines(path):
            row = json_row(path, number, line)
            if (doc_id := id_field(path, number, row, "_id")) in wanted:
                title, text = title_field(path, number, row), text_field(path, number, row, "text")
                texts[doc_id] = Document(doc_id, text, title).contents
        return texts

    def copies(self, doc_ids: Sequence[str]) -> Sequence[str]:
        return doc_ids

    def negatives(self, path: str) -> Path:
        return self._path(path)

    def mined(self, path: str) -> tuple[Path, Path]:
        return self._path(path), self._path(path).with_name(NEGATIVES)

    def history(self, path: str) -> list[Record]:
        file = self._path(path)
        return [json_row(file, number, line) for number, line in read_lines(file)]

    def facts(self, path: str) -> tuple[str, Mapping[str, Any]]:
        name = self.named[path]
        if name not in self.stages:
            hint = suggestion(name, self.stages)
            raise UsageError(f"{{stages}}: no stage {name!r}{hint}; there are: {', '.join(self.stages)}", "stages")
        return self.stages[name]

    def measured(self, path: str) -> "Measured":
        from hardneg.evaluation.metrics_json import read_metrics

        return read_metrics(self._path(path))

    def index(self, path: str) -> tuple[Path, int | None]:
        return self._path(path), None

    def system(self, index: str, model: str) -> System:
        from hardneg.encoders.open.resolved import load_learner
        from hardneg.encoders.protocol import EncodeOptions
        from hardneg.encoders.spec import ModelSpec
        from hardneg.indexes.open_store import DenseIndex

        opened, encoder = DenseIndex.open(self._path(index)), load_learner(ModelSpec(self.named[model]), self.device)
        if opened.dimension != encoder.dimension:
            sizes = f"{opened.dimension} numbers a vector, the model's {encoder.dimension}"
            raise UsageError(f"{opened.folder}: {sizes}: give the model that encoded the index")

        def encode(side: "Side", texts: Sequence[str]) -> NDArray[np.float32]:
            vectors: NDArray[np.float32] = encoder.encode(texts, side, EncodeOptions(precision="fp32"), self.progress)
            return vectors

        def rows(wanted: Sequence[str]) -> NDArray[np.int64]:
            starts, known = range(0, len(ids), _LINES), dict.fromkeys(wanted, -1)  # ids are read once and not held
            numbered = (each for start in starts for each in enumerate(ids[start : start + _LINES], start))
            known |= {doc_id: row for row, doc_id in numbered if doc_id in known}
            return np.array([known[doc_id] for doc_id in wanted], np.int64)

        ids, device = opened.doc_ids, str(encoder.device)
        return System(opened.searcher, ids, rows, partial(encode, "query"), device, partial(encode, "document"))
