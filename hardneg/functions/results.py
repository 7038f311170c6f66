"""What functions return: frozen objects over artifacts of the store, whose content is read when it is asked for."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Literal

from hardneg import formats
from hardneg.formats import form_names
from hardneg.functions import arguments, given, session
from hardneg.records import errors, layout, types, wording
from hardneg.store import Artifact, Outputs, Store, Target

if TYPE_CHECKING:
    from hardneg.indexes.kernels.candidate_scoring import PositiveScores

_ROWS = "rows.arrow"
TableForm = Literal["triplet", "n-tuple", "labeled-list"]


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

    @classmethod
    def of(cls, name: str, artifact: Artifact) -> "BuiltIndex":
        """The index that an artifact is."""
        return cls(name, artifact.key, artifact.path, artifact.facts)


@dataclass(frozen=True)
class TrainedModel(StoredResult):
    """A model's folder, which `SentenceTransformer(str(model.path))` opens; functions take the object itself."""


@dataclass(frozen=True)
class WrittenQueries(StoredResult):
    """A collection whose queries were written, a folder in BEIR's form; functions take the object as a dataset."""


@dataclass(frozen=True)
class TextSource:
    """Where the texts behind ids are: the stored collection, the split of the queries, and the store.

    reads: the files and folders of the user that a result was made from.
    """

    collection: "formats.collection.StoredCollection"
    split: str
    store: Store
    reads: Sequence[Path] = ()

    @classmethod
    def of(cls, dataset: Artifact, split: str, store: Store, reads: Sequence[Path] = ()) -> "TextSource":
        """Opens the artifact of a dataset."""
        return cls(formats.collection.StoredCollection.open(dataset.path), split, store, reads)


@dataclass(frozen=True)
class RankedRun(StoredResult):
    """A run: a list of documents for each query of a split, best first. `path` is a TREC run, gzip.

    Iterating streams pairs of a query id and its list; indexing by a query id reads the run into memory once.
    """

    store: Store = field(repr=False)
    source: TextSource | None = field(repr=False)

    @classmethod
    def of(cls, name: str, artifact: Artifact, source: TextSource) -> "RankedRun":
        """The run in an artifact."""
        return cls(name, artifact.key, artifact.path / layout.RUN, artifact.facts, source.store, source)

    def __iter__(self) -> Iterator[tuple[str, types.RankedList]]:

        return formats.runs.stream_run(self.path)

    def __getitem__(self, query_id: str) -> types.RankedList:
        return self._lists[query_id]

    def __len__(self) -> int:
        return len(self._lists)

    @cached_property
    def _lists(self) -> "formats.runs.Run":

        return formats.runs.read_run(self.path)

    def to_dict(self) -> dict[str, dict[str, float]]:
        """Scores by document id by query id, as mteb and ranx take them."""
        return {query_id: dict(zip(ranked.doc_ids, ranked.scores.tolist(), strict=True)) for query_id, ranked in self}

    def __repr__(self) -> str:
        queries = wording.counted(int(self.facts.get("queries", 0)), "query")
        split = f" of split {self.source.split}" if self.source else ""
        return f"RankedRun({self.name!r}, {queries}{split}, {self.path})"


def source_of_runs(value: Any) -> TextSource | None:
    """Where the texts of runs are: of a dict, a list or one alone, as the first of those says that were searched."""
    runs = [*value.values()] if isinstance(value, Mapping) else value if isinstance(value, list | tuple) else [value]
    return next((each.source for each in runs if isinstance(each, RankedRun) and each.source), None)


@dataclass(frozen=True)
class MinedNegatives(StoredResult):
    """Negatives by query; `path` is the file of the form `hardneg`. Iterating streams them, in the split's order.

    positive_scores: gives the scores of positives, float32 [positives] by query, nan where there is none.
    """

    source: TextSource = field(repr=False)
    positive_scores: "Callable[[MinedNegatives], PositiveScores] | None" = field(
        default=None, repr=False, compare=False
    )

    @classmethod
    def of(cls, name: str, folder: Path, key: str, facts: Mapping[str, Any], *more: Any) -> "MinedNegatives":
        """The negatives in an artifact's folder."""
        return cls(name, key, folder / layout.NEGATIVES, facts, *more)

    @property
    def folder(self) -> Path:
        """The artifact's folder, which may tell too what was dropped."""
        return self.path.parent

    @property
    def rows(self) -> "formats.negatives.NegativesFile":
        """Negatives by row, memory-mapped."""
        return formats.negatives.read_negatives(self.path)

    def __iter__(self) -> Iterator[types.Negatives]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, query_id: str) -> types.Negatives:
        return self.rows[self._rows_by_query[query_id]]

    def __contains__(self, query_id: object) -> bool:
        return isinstance(query_id, str) and query_id in self._rows_by_query

    @cached_property
    def _rows_by_query(self) -> dict[str, int]:
        return {query_id: row for row, query_id in enumerate(self.rows.query_ids)}

    def write(
        self,
        path: str | Path,
        form: str = "n-tuple",
        *,
        negatives: int | None = 8,
        scores: bool = False,
        overwrite: bool = False,
    ) -> Mapping[str, int]:
        """Writes them in a form, whole or not at all; negatives: how many for each query, the first ones.

        Returns `rows`, and what was left out, by reason. A file that it wrote before is replaced.

        Raises:
            UsageError: the form is unknown, the file's ending is not one of its own, something else stands there and
                `overwrite` is not given, or they were mined from what stands there.
            DataError: no query has so many negatives.
        """
        form_names.check_form(form, arguments.file_path(path))
        if negatives is not None:
            arguments.whole_number("negatives", negatives, 1)
        with writing("MinedNegatives.write", [path], overwrite, self.source) as (file,):
            return self.write_form(file, form, negatives, scores)

    def write_form(self, path: Path, form: str, negatives: int | None, scores: bool) -> Mapping[str, int]:
        """The same into a file that is free to be written, as a command has checked."""
        known = self.positive_scores(self) if scores and self.positive_scores is not None else None
        options = formats.forms.WriteOptions(negatives, scores, (lambda item: known[item.query_id]) if known else None)
        collection = self.source.collection
        return formats.forms.write_form(
            form, path, self, collection.queries(self.source.split), collection.corpus, options
        )

    def to_dataset(self, form: TableForm = "n-tuple", *, negatives: int = 8, scores: bool = False) -> Any:
        """A `datasets.Dataset` of texts in a form of sentence-transformers, memory-mapped from the store.

        Raises:
            MissingDependency: `datasets` is not installed.
            UsageError: `negatives` is no count.
            DataError: no query has so many negatives.
        """
        arguments.whole_number("negatives", negatives, 1)
        options = {"form": form, "negatives": negatives, "scores": scores, "split": self.source.split}
        origin = {"stage": "rows", "inputs": {"negatives": self.key}, "options": options, "name": "rows"}

        def write(folder: Path) -> Mapping[str, int]:
            import pyarrow as pa
            from pyarrow.parquet import ParquetFile

            with TemporaryDirectory() as aside:
                counts = self.write_form(written := Path(aside) / "rows.parquet", form, negatives, scores)
                with (
                    ParquetFile(written) as file,
                    pa.OSFile(str(folder / _ROWS), "wb") as sink,
                    pa.ipc.new_stream(sink, file.schema_arrow) as writer,
                ):
                    for batch in file.iter_batches(1000):
                        writer.write_batch(batch)
            return counts

        try:
            from datasets import Dataset
        except ImportError as error:
            raise errors.MissingDependency('to_dataset needs datasets: pip install "hardneg[hub]"') from error
        artifact = given.keep_result(self.source.store, "rows", origin, write)
        return Dataset.from_file(str(artifact.path / _ROWS))

    def to_dict(self) -> dict[str, dict[str, list[Any]]]:
        """`positives`, `negatives` and the negatives' `scores`, lists of equal order, by query id."""
        rows = ((each.query_id, each.positives, each.negatives, each.scores.tolist()) for each in self)
        return {
            query_id: {"positives": list(positives), "negatives": list(negatives), "scores": scores}
            for query_id, positives, negatives, scores in rows
        }

    def __repr__(self) -> str:
        counts = {"query": "queries", "negative": "negatives"}
        queries, mined = (wording.counted(int(self.facts.get(name, 0)), one) for one, name in counts.items())
        size = f"{queries} of split {self.source.split}, {mined}"
        return f"MinedNegatives({self.name!r}, {size}, {self.path})"


@contextmanager
def writing(
    writer: str,
    paths: Sequence[Any],
    overwrite: bool = False,
    source: TextSource | None = None,
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
    files = [arguments.file_path(path) for path in paths]
    store, known = (source.store, source.reads) if source else (session.usual_store(None), ())
    outputs = Outputs(writer, [Target(path) for path in files], [*known, *reads], store, overwrite)
    outputs.check()
    with outputs.laid_out():
        yield files
