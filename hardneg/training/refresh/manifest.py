"""What a run tells of its refreshes: how much of each was there before, and what all of them took."""

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import numpy as np

from hardneg.data.negatives import read_negatives
from hardneg.errors import ArtifactError
from hardneg.training.examples import NegativeLists
from hardneg.training.history import Record
from hardneg.training.refresh.folder import RefreshFolder

_OPERATIONS = ("encode", "queries", "search", "write")


def refresh_facts(history: Sequence[Record], made: Sequence[Record], waited: float, documents: int) -> dict[str, Any]:
    """From the records of all steps and of all refreshes.

    waited: the part of the time that was spent waiting. documents: how many a refresh encodes.
    """
    lags = [record["lag"] for record in history if "lag" in record]
    seconds = {name: sum(one["seconds"].get(name, 0.0) for one in made) for name in _OPERATIONS}
    answering = sum(one.get("answering", 0) for one in made)
    return {
        "refreshes made": len(made),
        "refreshes used": len({record["refresh"] for record in history if "refresh" in record}),
        **({"mean lag": round(sum(lags) / len(lags), 2), "largest lag": max(lags)} if lags else {}),
        "documents encoded": len(made) * documents,
        "queries searched": sum(one["queries"] for one in made),
        **{f"seconds of inference: {name}": round(value, 3) for name, value in seconds.items()},
        "waiting's part of the time": round(waited, 4),
        **({"documents left out of refreshes: they have an answer": answering} if answering else {}),
    }


_QUERIES = 10_000  # looked at: the first ones, so that the time does not grow with their number


def kept(negatives: NegativeLists, before: NegativeLists) -> float | None:
    """The share of a query's negatives that it had before too: the mean over queries that have some in both.

    None where no query is in both, as with refreshes of different parts of the queries.
    """
    has, had = _first(negatives), _first(before)
    shares = [len({*has[name]} & {*had[name]}) / len(has[name]) for name in has if name in had]
    return sum(shares) / len(shares) if shares else None


def kept_since_before(place: RefreshFolder, number: int, first: NegativeLists | None) -> float | None:
    """The same for refresh `number` and the one published before it; `first` stands before refresh 0.

    None where one of the two is not there any more.
    """
    with suppress(ArtifactError):
        before = read_negatives(place.negatives(number - 1), whole=True) if number else first
        return None if before is None else kept(read_negatives(place.negatives(number), whole=True), before)
    return None


def _first(lists: NegativeLists) -> dict[str, list[str]]:
    counts = lists.counts
    return {
        query_id: lists.pick(row, np.arange(counts[row]))
        for row, query_id in enumerate(lists.query_ids[:_QUERIES])
        if counts[row]
    }
