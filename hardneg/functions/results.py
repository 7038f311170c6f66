"""What functions return: frozen objects over artifacts of the store, whose content is read when it is asked for."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hardneg.formats.collection import StoredCollection
from hardneg.formats.runs import read_run, stream_run
from hardneg.functions.argument_values import file_path
from hardneg.functions.content_store import keep_result
from hardneg.functions.session import usual_store
from hardneg.records import RUN, RankedList, counted
from hardneg.store import Artifact, Outputs, Store, Target

if TYPE_CHECKING:
    from hardneg.formats.runs import Run


ROWS_FILE = "rows.arrow"


@dataclass(frozen=True)
class StoredResult:
    """An artifact of the store that a function has made or found there.

    name: what it was made with, as tables and runs call it. key: its identity. path: of the file or folder that other
    programs read; the object itself serves where a path does. facts: what its manifest tells.
    """

    name: str
    key: str
    path: Path
    facts: Mapping[str, Any] = field(repr=False)

    def __fspath__(self) -> str:
        return str(self.path)


@dataclass(frozen=True)
class BuiltIndex(StoredResult):
    """An index: a folder that hardneg's searches open, and most of them Pyserini's searchers."""


@dataclass(frozen=True)
class TrainedModel(StoredResult):
    """A model's folder, which `SentenceTransformer(str(model.path))` opens; functions take the object itself."""


@dataclass(frozen=True)
class WrittenQueries(StoredResult):
    """A collection whose queries were written, a folder in BEIR's form; functions take the object as a dataset."""


@dataclass(frozen=True)
class RankedRun(StoredResult):
    """A run: a list of documents for each query of a split, best first. `path` is a TREC run, gzip.

    Iterating streams pairs of a query id and its list; indexing by a query id reads the run into memory once.
    """

    store: Store = field(repr=False)
    source: "TextSource | None" = field(repr=False)

    def __iter__(self) -> Iterator[tuple[str, RankedList]]:
        return stream_run(self.path)

    def __getitem__(self, query_id: str) -> RankedList:
        return self._lists[query_id]

    def __len__(self) -> int:
        return len(self._lists)

    @cached_property
    def _lists(self) -> "Run":
        return read_run(self.path)

    def to_dict(self) -> dict[str, dict[str, float]]:
        """Scores by document id by query id, as mteb and ranx take them."""
        return {query_id: dict(zip(ranked.doc_ids, ranked.scores.tolist(), strict=True)) for query_id, ranked in self}

    def to_dataset(self) -> Any:
        """A `datasets.Dataset`, memory-mapped: a row a document, with `query_id`, `doc_id`, `rank`, `score`.

        Raises:
            MissingDependency: `datasets` is not installed.
        """
        from hardneg.functions.arrow_tables import dataset_of, write_lists

        origin = {"stage": "rows", "inputs": {"run": self.key}, "name": "rows"}
        artifact = keep_result(self.store, "rows", origin, lambda folder: write_lists(self._rows(), folder / ROWS_FILE))
        return dataset_of(artifact.path / ROWS_FILE)

    def to_pandas(self) -> Any:
        """The same rows as a `pandas.DataFrame`. Raises MissingDependency where pandas is not installed."""
        from hardneg.functions.arrow_tables import frame_of_lists

        return frame_of_lists(self._rows())

    def _rows(self) -> Iterator[tuple[str, Sequence[str], Any]]:
        return ((query_id, ranked.doc_ids, ranked.scores) for query_id, ranked in self)

    def __repr__(self) -> str:
        queries = counted(int(self.facts.get("queries", 0)), "query")
        split = f" of split {self.source.split}" if self.source else ""
        return f"RankedRun({self.name!r}, {queries}{split}, {self.path})"


@dataclass(frozen=True)
class TextSource:
    """Where the texts behind ids are: the stored collection, the split of the queries, and the store.

    reads: the files and folders of the user that a result was made from.
    """

    collection: StoredCollection
    split: str
    store: Store
    reads: Sequence[Path] = ()

    @classmethod
    def of(cls, dataset: Artifact, split: str, store: Store, reads: Sequence[Path] = ()) -> "TextSource":
        """Opens the artifact of a dataset."""
        return cls(StoredCollection.open(dataset.path), split, store, reads)


def source_of_runs(value: Any) -> TextSource | None:
    """Where the texts of runs are: of a dict, a list or one alone, as the first of those says that were searched."""
    runs = [*value.values()] if isinstance(value, Mapping) else value if isinstance(value, list | tuple) else [value]
    return next((each.source for each in runs if isinstance(each, RankedRun) and each.source), None)


def built_index(name: str, artifact: Artifact) -> BuiltIndex:
    """The index that an artifact is."""
    return BuiltIndex(name, artifact.key, artifact.path, artifact.facts)


def run_of(name: str, artifact: Artifact, source: TextSource) -> RankedRun:
    """The run in an artifact."""
    return RankedRun(name, artifact.key, artifact.path / RUN, artifact.facts, source.store, source)


@contextmanager
def writing(
    writer: str,
    paths: Sequence[Any],
    overwrite: bool = False,
    source: "TextSource | None" = None,
    *,
    reads: Sequence[Path] = (),
) -> Iterator[list[Path]]:
    """The files to write in the block; what stands there must be as the same writer left it, or `overwrite` be given.

    writer: such as `Evaluation.write`, as messages call it. source: of the result, whose store and whose files nothing
    replaces; else the usual store. reads: files that nothing replaces either.

    Raises:
        UsageError: something is no path, is a folder, lies in the store, was read, or is there already.
        ArtifactError: a file cannot be written.
    """
    files = [file_path(path) for path in paths]
    store, known = (source.store, source.reads) if source else (usual_store(None), ())
    outputs = Outputs(writer, [Target(path) for path in files], [*known, *reads], store, overwrite)
    outputs.check()
    with outputs.laid_out():
        yield files
