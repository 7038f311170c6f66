"""Mined negatives as a result: by query, as tables for training, and written in any form."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Literal

from hardneg.api.argument_values import at_least_one, file_path
from hardneg.api.content_store import keep_result
from hardneg.api.notebook import ROWS, caption, cut
from hardneg.api.output_files import writing
from hardneg.api.results import ROWS_FILE, StoredResult, TextSource
from hardneg.formats.negatives import NegativesFile, read_negatives
from hardneg.records.layout import NEGATIVES, RUN
from hardneg.records.types import Negatives
from hardneg.records.wording import counted
from hardneg.report.table import Table

if TYPE_CHECKING:
    from hardneg.api.workplace import Workplace
    from hardneg.indexes.positive_scores import PositiveScores
    from hardneg.recipe.execute import Outcome
    from hardneg.recipe.plan import Plan
    from hardneg.records.types import Encoded

_SHOWN = 20
"""Negatives of one query that a notebook shows."""

TableForm = Literal["triplet", "n-tuple", "labeled-list"]


KnowsScores = Callable[["MinedNegatives"], "PositiveScores"]
"""Gives the scores of positives, float32 [positives] by query, nan where there is none: by a run, or by the model."""


@dataclass(frozen=True)
class MinedNegatives(StoredResult):
    """Negatives by query; `path` is the file of the form `hardneg`. Iterating streams them, in the split's order."""

    source: TextSource = field(repr=False)
    positive_scores: "KnowsScores | None" = field(default=None, repr=False, compare=False)

    @property
    def folder(self) -> Path:
        """The artifact's folder, which may tell too what was dropped."""
        return self.path.parent

    @property
    def rows(self) -> NegativesFile:
        """Negatives by row, memory-mapped."""
        return read_negatives(self.path)

    def __iter__(self) -> Iterator[Negatives]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, query_id: str) -> "QueryNegatives":
        row = self.rows[self._rows_by_query[query_id]]
        return QueryNegatives(**{each.name: getattr(row, each.name) for each in fields(row)}, source=self.source)

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
        from hardneg.formats.export.catalogue import check_form

        check_form(form, file_path(path))
        if negatives is not None:
            at_least_one("negatives", negatives)
        with writing("MinedNegatives.write", [path], overwrite, self.source) as (file,):
            return self.write_form(file, form, negatives, scores)

    def write_form(self, path: Path, form: str, negatives: int | None, scores: bool) -> Mapping[str, int]:
        """The same into a file that is free to be written, as a command has checked."""
        from hardneg.formats.export.forms import WriteOptions, write_form

        known = self.positive_scores(self) if scores and self.positive_scores is not None else None
        options = WriteOptions(negatives, scores, (lambda item: known[item.query_id]) if known else None)
        collection = self.source.collection
        return write_form(form, path, self, collection.queries(self.source.split), collection.corpus, options)

    def to_dataset(self, form: TableForm = "n-tuple", *, negatives: int = 8, scores: bool = False) -> Any:
        """A `datasets.Dataset` of texts in a form of sentence-transformers, memory-mapped from the store.

        Raises:
            MissingDependency: `datasets` is not installed.
            UsageError: `negatives` is no count.
            DataError: no query has so many negatives.
        """
        from hardneg.api.arrow_tables import dataset_of

        at_least_one("negatives", negatives)
        options = {"form": form, "negatives": negatives, "scores": scores, "split": self.source.split}
        origin = {"stage": "rows", "inputs": {"negatives": self.key}, "options": options, "name": "rows"}
        artifact = keep_result(
            self.source.store, "rows", origin, lambda folder: self._write_rows(folder, form, negatives, scores)
        )
        return dataset_of(artifact.path / ROWS_FILE)

    def _write_rows(self, folder: Path, form: str, negatives: int, scores: bool) -> Mapping[str, int]:
        from hardneg.api.arrow_tables import write_parquet_rows

        with TemporaryDirectory() as aside:
            written = Path(aside) / "rows.parquet"
            counts = self.write_form(written, form, negatives, scores)
            write_parquet_rows(written, folder / ROWS_FILE)
        return counts

    def to_pandas(self) -> Any:
        """A `pandas.DataFrame`, a row a negative: `query_id`, `doc_id`, `rank`, `score`.

        Raises:
            MissingDependency: pandas is not installed.
        """
        from hardneg.api.arrow_tables import frame_of, negatives_rows

        return frame_of(negatives_rows(self))

    def to_dict(self) -> dict[str, dict[str, list[Any]]]:
        """`positives`, `negatives` and the negatives' `scores`, lists of equal order, by query id."""
        return {
            item.query_id: {
                "positives": list(item.positives),
                "negatives": list(item.negatives),
                "scores": item.scores.tolist(),
            }
            for item in self
        }

    def __repr__(self) -> str:
        queries, negatives = (int(self.facts.get(name, 0)) for name in ("queries", "negatives"))
        size = f"{counted(queries, 'query')} of split {self.source.split}, {counted(negatives, 'negative')}"
        return f"MinedNegatives({self.name!r}, {size}, {self.path})"

    def _repr_html_(self) -> str:
        shown = self.rows[:ROWS]
        texts = self.source.queries([item.query_id for item in shown])
        first = [doc_id for item in shown for doc_id in (*item.positives[:1], *item.negatives[:1])]
        contents = self.source.documents(first)
        rows = [
            [
                texts.get(item.query_id, item.query_id),
                *(contents[doc_ids[0]] if doc_ids else "–" for doc_ids in (item.positives, item.negatives)),
                str(len(item.negatives)),
            ]
            for item in shown
        ]
        return caption(repr(self), Table(["query", "positive", "first negative", "negatives"], rows, words=3))


@dataclass(frozen=True, slots=True, repr=False)
class QueryNegatives(Negatives):
    """What was mined for one query; a notebook shows it with texts."""

    source: TextSource | None = None

    def __repr__(self) -> str:
        counts = f"{counted(len(self.positives), 'positive')}, {counted(len(self.negatives), 'negative')}"
        return f"QueryNegatives({self.query_id!r}, {counts})"

    def _repr_html_(self) -> str:
        shown, more = self.negatives[:_SHOWN], len(self.negatives) - _SHOWN
        texts = self.source.documents([*self.positives, *shown]) if self.source else {}
        rows = [["positive", doc_id, texts.get(doc_id, ""), "–"] for doc_id in self.positives]
        pairs = zip(shown, self.scores.tolist(), strict=False)
        rows += [["negative", doc_id, texts.get(doc_id, ""), f"{score:.4f}"] for doc_id, score in pairs]
        text = (self.source.queries([self.query_id]) if self.source else {}).get(self.query_id, "")
        title = f"{self!r}{f': {cut(text)}' if text else ''}{f'; the first {_SHOWN} negatives' if more > 0 else ''}"
        return caption(title, Table(["is", "document", "text", "score"], rows, words=3))


def mined_in(
    name: str, folder: Path, key: str, facts: Mapping[str, Any], source: TextSource, scores: "KnowsScores | None" = None
) -> MinedNegatives:
    """The negatives in an artifact's folder."""
    return MinedNegatives(name, key, folder / NEGATIVES, facts, source, scores)


@dataclass(frozen=True)
class RunScores:
    """The scores of positives in a run; nan where it lacks them."""

    run: Path

    def __call__(self, mined: MinedNegatives) -> "PositiveScores":
        from hardneg.formats.runs import read_run
        from hardneg.indexes.positive_scores import scores_in_run

        return scores_in_run(mined, read_run(self.run).items())


@dataclass(frozen=True)
class ModelScores:
    """The scores of positives in the run of a search; the model's own where that did not reach them.

    index, run: the steps that encode and search.
    """

    plan: "Plan"
    outcome: "Outcome"
    workplace: "Workplace"
    index: str
    run: str

    def __call__(self, mined: MinedNegatives) -> "PositiveScores":
        import numpy as np

        from hardneg.formats.runs import stream_run
        from hardneg.indexes.positive_scores import scores_in_run

        scores = scores_in_run(mined, stream_run(self.outcome.artifacts[self.run].path / RUN))
        if any(np.isnan(values).any() for values in scores.values()):
            self._fill(scores, mined)
        return scores

    def _fill(self, scores: "PositiveScores", mined: MinedNegatives) -> None:
        from hardneg.encoders.open.resolved import load_encoder
        from hardneg.encoders.protocol import EncodeOptions
        from hardneg.indexes.kernels.max_passage import pooled
        from hardneg.indexes.open_store import open_store
        from hardneg.indexes.positive_scores import fill_from_model

        encoder, folder = (
            load_encoder(self.plan.recipe.model, self.workplace.device),
            self.outcome.artifacts[self.index].path,
        )
        options, source = EncodeOptions(precision="fp32"), mined.source
        searcher = pooled(open_store(folder), folder, source.collection.corpus.doc_ids)

        def encode(texts: Sequence[str]) -> "Encoded":
            return encoder.encode(texts, "query", options, self.workplace.progress)

        queries = source.collection.queries(source.split)
        fill_from_model(scores, mined, queries, source.collection, encode, searcher)
