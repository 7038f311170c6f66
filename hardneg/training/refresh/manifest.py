"""What a finished run tells of its refreshes."""

from collections.abc import Sequence
from typing import Any

from hardneg.training.history import Record

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
