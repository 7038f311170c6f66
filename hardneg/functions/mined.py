"""Mined negatives as a result: by query, as tables for training, and written in any form."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Literal

from hardneg.formats.negatives import NegativesFile, read_negatives
from hardneg.functions.adhoc_recipe import ENCODED, SEARCHED
from hardneg.functions.argument_values import at_least_one, file_path
from hardneg.functions.content_store import keep_result
from hardneg.functions.results import ROWS_FILE, StoredResult, TextSource, writing
from hardneg.records import NEGATIVES, RUN, Negatives, counted
from hardneg.store import Artifact

if TYPE_CHECKING:
    from hardneg.functions.session import Session
    from hardneg.indexes.kernels.candidate_scoring import PositiveScores
    from hardneg.recipes import Plan

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

    def __getitem__(self, query_id: str) -> Negatives:
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
        from hardneg.formats.form_names import check_form

        check_form(form, file_path(path))
        if negatives is not None:
            at_least_one("negatives", negatives)
        with writing("MinedNegatives.write", [path], overwrite, self.source) as (file,):
            return self.write_form(file, form, negatives, scores)

    def write_form(self, path: Path, form: str, negatives: int | None, scores: bool) -> Mapping[str, int]:
        """The same into a file that is free to be written, as a command has checked."""
        from hardneg.formats.forms import WriteOptions, write_form

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
        from hardneg.functions.arrow_tables import dataset_of, write_parquet_rows

        at_least_one("negatives", negatives)
        options = {"form": form, "negatives": negatives, "scores": scores, "split": self.source.split}
        origin = {"stage": "rows", "inputs": {"negatives": self.key}, "options": options, "name": "rows"}

        def write(folder: Path) -> Mapping[str, int]:
            with TemporaryDirectory() as aside:
                written = Path(aside) / "rows.parquet"
                counts = self.write_form(written, form, negatives, scores)
                write_parquet_rows(written, folder / ROWS_FILE)
            return counts

        artifact = keep_result(self.source.store, "rows", origin, write)
        return dataset_of(artifact.path / ROWS_FILE)

    def to_pandas(self) -> Any:
        """A `pandas.DataFrame`, a row a negative: `query_id`, `doc_id`, `rank`, `score`.

        Raises:
            MissingDependency: pandas is not installed.
        """
        from hardneg.functions.arrow_tables import frame_of_lists

        return frame_of_lists((item.query_id, item.negatives, item.scores) for item in self)

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


def mined_in(
    name: str, folder: Path, key: str, facts: Mapping[str, Any], source: TextSource, scores: "KnowsScores | None" = None
) -> MinedNegatives:
    """The negatives in an artifact's folder."""
    return MinedNegatives(name, key, folder / NEGATIVES, facts, source, scores)


def scores_of_run(run: Path, mined: MinedNegatives) -> "PositiveScores":
    """The scores of positives in a run; nan where it lacks them."""
    from hardneg.formats.runs import read_run
    from hardneg.indexes.kernels.candidate_scoring import scores_in_run

    return scores_in_run(mined, read_run(run).items())


def scores_of_model(
    plan: "Plan", artifacts: Mapping[str, Artifact], session: "Session", mined: MinedNegatives
) -> "PositiveScores":
    """The scores of positives in the run of a search; the model's own where that did not reach them."""
    import numpy as np

    from hardneg.formats.runs import stream_run
    from hardneg.indexes.kernels.candidate_scoring import fill_from_model, pooled, scores_in_run
    from hardneg.indexes.open_store import open_store

    scores = scores_in_run(mined, stream_run(artifacts[SEARCHED].path / RUN))
    if any(np.isnan(values).any() for values in scores.values()):
        collection, folder = mined.source.collection, artifacts[ENCODED].path
        queries, encode = collection.queries(mined.source.split), session.query_encoder(plan)
        searcher = pooled(open_store(folder), folder, collection.corpus.doc_ids)
        fill_from_model(scores, mined, queries, collection, encode, searcher)
    return scores
