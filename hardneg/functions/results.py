"""The results of the public functions: immutable objects that read their artifacts from the store on demand."""

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
    from hardneg.indexes.candidate_scoring import PositiveScores

_ROWS = "rows.arrow"
TableForm = Literal["triplet", "n-tuple", "labeled-list"]


@dataclass(frozen=True)
class StoredResult:
    """A stored result of a function, usable as a path.

    name: the model or method, as shown in tables. key: the artifact's key in the store; empty for part of a run folder.
    path: the file or folder, for other programs. facts: counts and properties from the artifact's manifest.
    """

    name: str
    key: str
    path: Path
    facts: Mapping[str, Any] = field(repr=False)

    def __fspath__(self) -> str:
        return str(self.path)


@dataclass(frozen=True)
class BuiltIndex(StoredResult):
    """An index folder; Pyserini's searchers open most kinds."""

    @classmethod
    def of(cls, name: str, artifact: Artifact) -> "BuiltIndex":
        """Return the index in an artifact. name: the name to show in tables."""
        return cls(name, artifact.key, artifact.path, artifact.facts)


@dataclass(frozen=True)
class TrainedModel(StoredResult):
    """A trained model; load it with `SentenceTransformer(str(model.path))`, or pass the object to functions."""


@dataclass(frozen=True)
class WrittenQueries(StoredResult):
    """A folder in BEIR format with generated queries and judgements. Functions accept the object as a dataset."""


@dataclass(frozen=True)
class TextSource:
    """The stored collection, split and store that a result comes from. reads: the user's input files and folders."""

    folder: Path
    split: str
    store: Store
    reads: Sequence[Path] = ()

    @cached_property
    def collection(self) -> "formats.collection.StoredCollection":
        """The collection, opened on first use."""
        return formats.collection.StoredCollection.open(self.folder)


@dataclass(frozen=True)
class RankedRun(StoredResult):
    """A run: the ranked documents of each query of a split; `path` is a gzipped TREC run.

    Iteration streams pairs of a query id and its ranked list. The first lookup by query id loads the whole run.
    """

    store: Store = field(repr=False)
    source: TextSource | None = field(repr=False)

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
        """Return the scores by query id and document id, as mteb and ranx accept them."""
        return {query_id: dict(zip(ranked.doc_ids, ranked.scores.tolist(), strict=True)) for query_id, ranked in self}

    def __repr__(self) -> str:
        queries = wording.counted(int(self.facts.get("queries", 0)), "query")
        split = f" of split {self.source.split}" if self.source else ""
        return f"RankedRun({self.name!r}, {queries}{split}, {self.path})"


def source_of_runs(value: Any) -> TextSource | None:
    """Return the `TextSource` of the first run that has one, or None; value: a run, or a list or dict of runs."""
    runs = [*value.values()] if isinstance(value, Mapping) else value if isinstance(value, list | tuple) else [value]
    return next((each.source for each in runs if isinstance(each, RankedRun) and each.source), None)


@dataclass(frozen=True)
class MinedNegatives(StoredResult):
    """The mined negatives of each query, in the order of the split; `path` is a file in the format `hardneg`.

    positive_scores: returns the scores of the positives by query id: float32 [positives], nan where unknown.
    """

    source: TextSource = field(repr=False)
    positive_scores: "Callable[[MinedNegatives], PositiveScores] | None" = field(
        default=None, repr=False, compare=False
    )

    @classmethod
    def of(cls, name: str, folder: Path, key: str, facts: Mapping[str, Any], *more: Any) -> "MinedNegatives":
        """Return the negatives in an artifact's folder; more: the source and, optionally, `positive_scores`."""
        return cls(name, key, folder / layout.NEGATIVES, facts, *more)

    @property
    def folder(self) -> Path:
        """The artifact's folder, which may also contain dropped candidates."""
        return self.path.parent

    @property
    def rows(self) -> "formats.negatives.NegativesFile":
        """The negatives as a memory-mapped sequence, one row per query."""
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
        """Write the negatives in the format `form`; return the number of `rows`, and of skipped items by reason.

        negatives: number per query, in mined order; None for all. scores: also write scores, if the format has them.

        Raises:
            UsageError: the format is unknown, the suffix is wrong, the path is an input, or the file exists, was not
                written by this method, and `overwrite` is not set.
            DataError: no query has enough negatives.
        """
        form_names.check_form(form, arguments.file_path(path))
        if negatives is not None:
            arguments.whole_number("negatives", negatives, 1)
        with writing("MinedNegatives.write", [path], overwrite, self.source) as (file,):
            return self.write_form(file, form, negatives, scores)

    def write_form(self, path: Path, form: str, negatives: int | None, scores: bool) -> Mapping[str, int]:
        """Write the negatives like `write`, but to a path that the caller has already checked."""
        known = self.positive_scores(self) if scores and self.positive_scores is not None else None
        options = formats.forms.WriteOptions(negatives, scores, (lambda item: known[item.query_id]) if known else None)
        collection = self.source.collection
        return formats.forms.write_form(
            form, path, self, collection.queries(self.source.split), collection.corpus, options
        )

    def to_dataset(self, form: TableForm = "n-tuple", *, negatives: int = 8, scores: bool = False) -> Any:
        """Return the texts as a memory-mapped `datasets.Dataset`, in the sentence-transformers format `form`.

        negatives: number per query, in mined order. scores: whether to add scores; rows with unknown ones are skipped.

        Raises:
            MissingDependency: `datasets` is not installed.
            UsageError: `negatives` is not a whole number above 0.
            DataError: no query has enough negatives.
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
        """Return the lists `positives`, `negatives` and `scores` (of the negatives), by query id."""
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
    """Check output files, yield their paths, and record the files that the block writes as the writer's own.

    writer: the writer's name, such as `Evaluation.write`. overwrite: whether to replace files of other writers.
    source: the source of the result; its store and inputs are protected. reads: further inputs to protect.

    Raises:
        UsageError: an output is not a path, or is a folder, a path in the store, an input, or another writer's file.
        ArtifactError: a file cannot be written.
    """
    files = [arguments.file_path(path) for path in paths]
    store, known = (source.store, source.reads) if source else (session.usual_store(None), ())
    outputs = Outputs(writer, [Target(path) for path in files], [*known, *reads], store, overwrite)
    outputs.check()
    with outputs.publish():
        yield files
