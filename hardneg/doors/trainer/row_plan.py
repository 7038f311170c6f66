"""The rows of the training data, and their columns, in the forms that trainers read."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from hardneg.formats.collection import StoredCollection
from hardneg.formats.qrels import positives
from hardneg.records.errors import DataError, UsageError

Form = Literal["n-tuple", "triplet", "labeled-pair", "labeled-list"]
FORMS: tuple[Form, ...] = ("n-tuple", "triplet", "labeled-pair", "labeled-list")


@dataclass(frozen=True, eq=False)
class RowPlan:
    """The rows, in the order of the queries and of their positives.

    `n-tuple` and `labeled-list` have one for each positive, with all negatives; `triplet` one for each positive and
    negative; `labeled-pair` one for each positive and one for each negative of a query.

    texts: of all Q queries. query: int32 [n], places among them. positive: int64 [n], rows of the corpus; -1 where the
    row has none. place: int32 [n], which of the query's negatives the row has; -1 for none, or all.
    """

    form: Form
    negatives: int
    query_ids: Sequence[str]
    texts: Sequence[str]
    query: NDArray[np.int32]
    positive: NDArray[np.int64]
    number: NDArray[np.int32]

    def __len__(self) -> int:
        return len(self.query)

    @property
    def columns(self) -> tuple[str, ...]:
        """In the order of trainers."""
        if self.form == "labeled-pair":
            return ("anchor", "passage", "label")
        if self.form == "labeled-list":
            return ("anchor", "positive", "labels")
        many = self.form == "n-tuple" and self.negatives > 1
        names = [f"negative_{number + 1}" for number in range(self.negatives)] if many else ["negative"]
        return ("anchor", "positive", *names)

    def wanted(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """int64 [B], how many of its query's negatives each row takes."""
        if self.form in ("n-tuple", "labeled-list"):
            return np.full(len(rows), self.negatives)
        return (self.number[rows] >= 0).astype(np.int64)

    def columns_of(
        self, rows: NDArray[np.int64], negatives: Sequence[Sequence[str]], positive: Mapping[int, str]
    ) -> dict[str, list[Any]]:
        """The rows as columns.

        rows: int64 [B]. negatives: the texts of each row's, as many as it wants. positive: texts by row of the corpus.
        """
        anchors = [self.texts[number] for number in self.query[rows]]
        own = [positive.get(int(number), "") for number in self.positive[rows]]
        names = self.columns
        if self.form == "labeled-pair":
            passages = [has[0] if has else text for has, text in zip(negatives, own, strict=True)]
            labels = [float(not has) for has in negatives]
            return dict(zip(names, (anchors, passages, labels), strict=True))
        if self.form == "labeled-list":
            lists = [[text, *has] for text, has in zip(own, negatives, strict=True)]
            labels_of = [[1.0] + [0.0] * len(has) for has in negatives]
            return dict(zip(names, (anchors, lists, labels_of), strict=True))
        return dict(zip(names, (anchors, own, *map(list, zip(*negatives, strict=True))), strict=True))


def plan_rows(collection: StoredCollection, split: str, form: str, negatives: int) -> RowPlan:
    """The rows of a split; queries without a positive have none.

    Raises:
        UsageError: there is no such form. DataError: there are no rows.
    """
    if form not in FORMS:
        raise UsageError(f"form {form!r}: one of {', '.join(FORMS)}")
    queries, known = collection.queries(split), positives(collection.all_qrels())
    query_rows = [row for row, query_id in enumerate(queries.query_ids) if query_id in known]
    if not query_rows:
        raise DataError(f"none of the {len(queries)} queries of split {split} has a positive: nothing to train on")
    counts = np.array([len(known[queries.query_ids[row]]) for row in query_rows])
    flat = [doc_id for row in query_rows for doc_id in known[queries.query_ids[row]]]
    rows = collection.corpus.known_rows(flat, "positive", "read the dataset again")
    query, positive, row = _laid_out(form, np.arange(len(query_rows)), counts, rows, negatives)
    ids, texts = ([column[row] for row in query_rows] for column in (queries.query_ids, queries.texts))
    return RowPlan(form, negatives, ids, texts, query.astype(np.int32), positive, row.astype(np.int32))


def _laid_out(
    form: str, queries: NDArray[np.int64], counts: NDArray[np.int64], rows: NDArray[np.int64], negatives: int
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Query, positive and negative of each row."""
    owner = np.repeat(queries, counts)
    if form == "triplet":
        numbers = np.tile(np.arange(negatives), len(owner))
        return np.repeat(owner, negatives), np.repeat(rows, negatives), numbers
    if form != "labeled-pair":
        return owner, rows, np.full(len(owner), -1)
    added = np.repeat(queries, negatives)
    query = np.concatenate([owner, added])
    order = np.argsort(query, stable=True)
    positive = np.concatenate([rows, np.full(len(added), -1)])
    numbers = np.concatenate([np.full(len(owner), -1), np.tile(np.arange(negatives), len(queries))])
    return query[order], positive[order], numbers[order]
