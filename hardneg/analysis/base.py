"""The base class of analyses (options, measurement, table and figure), and the inputs that they read."""

import json
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import Annotated, Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict

from hardneg.evaluation import metrics, metrics_json
from hardneg.fields import Name, Option as Option, Reference, marked
from hardneg.formats import source_files, text_lines
from hardneg.formats.qrels import Qrels, positives, read_qrels
from hardneg.formats.runs import EMPTY, Run, read_run
from hardneg.formats.source_files import queries_part
from hardneg.protocols import DenseSearcher
from hardneg.records import NEGATIVES, DataError, Document, Query, RankedList, Side, UsageError, suggestion
from hardneg.registry import plugin_errors
from hardneg.report.figure import draw_table
from hardneg.report.table import Section, Table
from hardneg.runtime import SEED, Progress, Silent
from hardneg.store import options_in_key, replace_text

_LINES = 65_536

Record = Mapping[str, Any]
"""One row of a training history: values by name."""


@dataclass(frozen=True)
class System:
    """An open index with one vector per document, and the model that encodes its queries.

    doc_ids: document ids by row. rows: returns the rows of documents, int64 [n], with -1 for documents not in the
    index. encode: encodes texts as query vectors, float32 [n, d]. device: the device to compute on. encode_documents:
    encodes texts as document vectors; None if the model cannot.
    """

    searcher: DenseSearcher
    doc_ids: Sequence[str]
    rows: Callable[[Sequence[str]], NDArray[np.int64]]
    encode: Callable[[Sequence[str]], NDArray[np.float32]]
    device: str = "cpu"
    encode_documents: Callable[[Sequence[str]], NDArray[np.float32]] | None = None


class AnalysisInputs(Protocol):
    """The inputs of an analysis; `path` is the path of a reference, such as `runs.BM25`."""

    split: str = "test"
    relevance_level: int = 1
    seed: int = SEED

    def location(self, path: str) -> str:
        """Return the name of a referenced input for messages."""

    def label(self, path: str) -> str:
        """Return the name of a referenced input for tables."""

    def run(self, path: str) -> Run:
        """Return a run, read into memory."""

    def stream(self, path: str) -> Iterator[tuple[str, RankedList]]:
        """Yield the queries and lists of a run, which may be too large for memory."""

    def lists(self, path: str, query_ids: Sequence[str]) -> Iterator[RankedList]:
        """Yield the lists of a run in the order of `query_ids`; lists are empty for queries not in the run."""

    def query_ids(self, path: str, split: str) -> Sequence[str]:
        """Return the ids of the queries that a run may contain, in the order of the split."""

    def qrels(self) -> Qrels:
        """Return the relevance judgements of the split."""

    def relevant(self) -> Mapping[str, Sequence[str]]:
        """Return all known relevant documents by query, from all splits and with any relevant grade."""

    def withheld(self) -> Mapping[str, Sequence[str]]:
        """Return the positives withheld from training, by query."""

    def queries(self, split: str | None) -> Mapping[str, str]:
        """Return query texts by id, from one split or from all splits; empty if unknown."""

    def texts(self, doc_ids: Sequence[str]) -> Mapping[str, str]:
        """Return document texts by id; unknown ids are left out."""

    def copies(self, doc_ids: Sequence[str]) -> Sequence[str]:
        """Return the given documents and all other documents with the same contents."""

    def groups(self) -> Mapping[str, str]:
        """Return groups by document id, without the documents that have no group; by default, empty."""
        return {}

    def negatives(self, path: str) -> Path:
        """Return the path of a file of mined negatives."""

    def mined(self, path: str) -> tuple[Path, Path]:
        """Return the path of the candidates that a miner dropped, and the path of the negatives that it kept."""

    def history(self, path: str) -> list[Record]:
        """Return the rows of a training history."""

    def facts(self, path: str) -> tuple[str, Mapping[str, Any]]:
        """Return the type of a stage's artifact, and the facts in the artifact's manifest."""

    def measured(self, path: str) -> metrics_json.Measured:
        """Return an evaluation: scores by system and by seed, and significance tests."""

    def results(self, path: str) -> Mapping[str, metrics.Scores]:
        """Return an evaluation's scores, by system."""
        return self.measured(path).results

    def index(self, path: str) -> tuple[Path, int | None]:
        """Return the folder of an index, and its number of documents; None if the index itself records the number."""

    def system(self, index: str, model: str) -> System:
        """Open an index and the model that encodes its queries."""

    def runs(self, field_name: str, labels: Iterable[str]) -> dict[str, Run]:
        """Return the run of each reference `field_name.label`, by label."""
        return {label: self.run(f"{field_name}.{label}") for label in labels}

    def positives(self) -> dict[str, list[str]]:
        """Return, by query of the split, the documents with a grade of at least `relevance_level`."""
        return positives(self.qrels(), self.relevance_level)


@dataclass(frozen=True)
class Files(AnalysisInputs):
    """Analysis inputs from plain files and from the stages of a run folder.

    named: the file, folder, model or stage for each reference path. labels: each file's name in tables. judged, topics,
    corpus, hidden: files of judgements, queries, documents and withheld judgements. stages: artifact type and facts by
    stage.
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
        found = (record for _, record in source_files.records(queries_part(self.topics)) if isinstance(record, Query))
        queries = {record.query_id: record.text for record in found}
        if not queries:
            raise DataError(f"{self.topics}: contains no queries")
        return queries

    def texts(self, doc_ids: Sequence[str]) -> Mapping[str, str]:
        wanted, texts = set(doc_ids), dict[str, str]()
        if (path := self.corpus) is None or not wanted:
            return texts
        for number, line in text_lines.read_lines(path):
            row = text_lines.json_row(path, number, line)
            if (doc_id := text_lines.id_field(path, number, row, "_id")) in wanted:
                title, text = (
                    text_lines.title_field(path, number, row),
                    text_lines.text_field(path, number, row, "text"),
                )
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
        return [text_lines.json_row(file, number, line) for number, line in text_lines.read_lines(file)]

    def facts(self, path: str) -> tuple[str, Mapping[str, Any]]:
        name = self.named[path]
        if name not in self.stages:
            hint = suggestion(name, self.stages)
            raise UsageError(f"{{stages}}: no stage {name!r}{hint}; available: {', '.join(self.stages)}", "stages")
        return self.stages[name]

    def measured(self, path: str) -> metrics_json.Measured:
        return metrics_json.read_metrics(self._path(path))

    def index(self, path: str) -> tuple[Path, int | None]:
        return self._path(path), None

    def system(self, index: str, model: str) -> System:
        from hardneg.encoders.open.resolved import load_learner
        from hardneg.encoders.protocol import EncodeOptions
        from hardneg.encoders.spec import ModelSpec
        from hardneg.indexes.open_store import DenseIndex

        opened, encoder = DenseIndex.open(self._path(index)), load_learner(ModelSpec(self.named[model]), self.device)
        if opened.dimension != encoder.dimension:
            sizes = f"has dimension {opened.dimension}, but the model has {encoder.dimension}"
            raise UsageError(f"{opened.folder}: {sizes}; give the model that encoded the index")

        def encode(side: Side, texts: Sequence[str]) -> NDArray[np.float32]:
            vectors: NDArray[np.float32] = encoder.encode(texts, side, EncodeOptions(precision="fp32"), self.progress)
            return vectors

        def rows(wanted: Sequence[str]) -> NDArray[np.int64]:
            starts, known = range(0, len(ids), _LINES), dict.fromkeys(wanted, -1)  # ids are streamed once
            numbered = (each for start in starts for each in enumerate(ids[start : start + _LINES], start))
            known |= {doc_id: row for row, doc_id in numbered if doc_id in known}
            return np.array([known[doc_id] for doc_id in wanted], np.int64)

        ids, device = opened.doc_ids, str(encoder.device)
        return System(opened.searcher, ids, rows, partial(encode, "query"), device, partial(encode, "document"))


Runs = Annotated[dict[Name, Name], Reference(("run",)), Option("run")]
"""Runs by label; on the command line, run files, labelled with their file names."""


class Analysis(BaseModel):
    """The base class of all analyses; the fields of a subclass are its options and the references to its inputs.

    The docstring of a subclass is the help of its command and ends with an `Example:`; the descriptions of its fields
    are the help of its options.

    name: the entry point's name. version: increased when the same options and inputs give a different result. title:
    the title of the report section. explained: how to read the table. paper: the table or figure reproduced. asks:
    further arguments of the command: `qrels`, `queries`, `corpus`, `withheld` (each with a `?` if optional),
    `relevance_level`, `seed`, `device`, `stages` (of a run folder). extra: the hardneg extra that the analysis needs.
    beside: columns that a report appends from other analyses, joined on the first cell. drawn: table columns to draw
    as bars or, if `across` is set, as lines over that column.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: ClassVar[str]
    version: ClassVar[int] = 1
    title: ClassVar[str]
    explained: ClassVar[str] = ""
    paper: ClassVar[str] = ""
    asks: ClassVar[tuple[str, ...]] = ()
    extra: ClassVar[str] = ""
    beside: ClassVar[Mapping[str, slice]] = {}
    drawn: ClassVar[slice] = slice(-1, None)
    across: ClassVar[int | None] = None

    @abstractmethod
    def measure(self, inputs: AnalysisInputs) -> Any:
        """Compute the results and return them as JSON values."""

    @abstractmethod
    def table(self, results: Any) -> Table:
        """Return the results of `measure` as a table of strings."""

    def draw(self, results: Any, paths: Sequence[Path]) -> None:
        """Draw the results as a figure and write it to each path; by default, draw columns of the table."""
        draw_table(self.table(results), self.drawn, self.across, paths)

    def tables(self, results: Any) -> Sequence[Table]:
        """Return all tables of the results; by default, only `table`."""
        return [self.table(results)]

    def heading(self, results: Any) -> str:
        """Return the title of the report section; by default, `title`."""
        return self.title

    def explain(self, results: Any) -> str:
        """Return the text that explains the table; by default, `explained`."""
        return self.explained

    @classmethod
    def arranged(cls, values: Mapping[str, Any], types: Mapping[str, str]) -> Mapping[str, Any]:
        """Convert the command's arguments, `values`, to fields. types: artifact type of each stage of the run folder.

        Raises:
            UsageError: a value is missing, or values contradict each other.
        """
        return values

    def missing(self, collection: Mapping[str, Any]) -> Iterator[str]:
        """Yield a message for each required part that the dataset lacks. collection: facts of stage `dataset`."""
        yield from ()

    def encoders(self) -> Mapping[str, str]:
        """Return, by path of each omitted model reference, the index that was encoded with the model to use.

        By default, `models` have the labels of `indexes`, and `model` belongs to `index`.
        """
        models: Any = getattr(self, "models", None)
        indexes = {} if models is None else getattr(self, "indexes", {})
        unnamed = {f"models.{label}": index for label, index in indexes.items() if label not in models}
        alone = getattr(self, "index", None) if getattr(self, "model", "") is None else None
        return unnamed if alone is None else {"model": alone, **unnamed}

    def references(self) -> Iterator[tuple[str, str, Reference]]:
        """Yield the path, target and requirements of each reference to an input."""
        return ((path, name, mark) for path, mark, name in marked(self, Reference))

    def identity(self) -> dict[str, Any]:
        """Return everything that may change the result: values, including defaults, and reference labels in order."""
        described = type(self).model_fields.items()
        references = {name for name, info in described if any(isinstance(each, Reference) for each in info.metadata)}
        values = {field: _ordered(value) for field, value in options_in_key(self, references).items()}
        return {"version": self.version, **values, "references": [path for path, _, _ in self.references()]}


def _ordered(value: Any) -> Any:
    """Convert mappings to lists of pairs, because the order of rows matters."""
    return [[key, _ordered(item)] for key, item in value.items()] if isinstance(value, dict) else value


def write_analysis(analysis: Analysis, inputs: AnalysisInputs, folder: Path) -> None:
    """Run an analysis, and write `NAME.json`, `NAME.png` and `NAME.svg` into a folder."""
    with plugin_errors([analysis]):
        results = analysis.measure(inputs)
        analysis.draw(results, [folder / f"{analysis.name}.png", folder / f"{analysis.name}.svg"])
    text = json.dumps(results, indent=1, ensure_ascii=False, allow_nan=False)
    replace_text(folder / f"{analysis.name}.json", text + "\n")


def sections(label: str, analyses: Sequence[Analysis], folder: Path) -> list[Section]:
    """Return the report sections of analyses from the files of `write_analysis`. Titles start with `label`."""
    made = []
    with plugin_errors(analyses):
        contents = {each.name: json.loads((folder / f"{each.name}.json").read_text("utf-8")) for each in analyses}
        tables = {each.name: list(each.tables(contents[each.name])) for each in analyses}
        for each in analyses:
            results, (first, *more) = contents[each.name], tables[each.name]
            for name in (name for name in each.beside if name in tables):
                other, columns = tables[name][0], each.beside[name]
                known, lacking = {row[0]: row[columns] for row in other.rows}, ["–"] * len(other.columns[columns])
                rows = [[*row, *known.get(row[0], lacking)] for row in first.rows]
                first = Table([*first.columns, *other.columns[columns]], rows, first.words)
            svg = (folder / f"{each.name}.svg").read_text("utf-8")
            title, explained = f"{label}: {each.heading(results)}", each.explain(results)
            made.append(Section(title, [first, *more], explained, svg))
    return made


def percent(share: float | None) -> str:
    """Format a share as a percentage with one decimal place, and None as a dash."""
    return "–" if share is None else f"{share:.1%}"
