"""What a finished run tells of its refreshes."""

from collections.abc import Sequence
from typing import Any

from hardneg.training.history import Record


def refresh_facts(history: Sequence[Record], made: Sequence[Record], waited: float) -> dict[str, Any]:
    """From the records of all steps and of all refreshes, and the part of the time that was spent waiting."""
    lags = [record["lag"] for record in history if "lag" in record]
    seconds = {name: sum(one["seconds"][name] for one in made) for name in ("encode", "search", "write")}
    answering = sum(one.get("answering", 0) for one in made)
    return {
        "refreshes made": len(made),
        "refreshes used": len({record["refresh"] for record in history if "refresh" in record}),
        **({"mean lag": round(sum(lags) / len(lags), 2), "largest lag": max(lags)} if lags else {}),
        **{f"seconds of inference: {name}": round(value, 3) for name, value in seconds.items()},
        "waiting's part of the time": round(waited, 4),
        **({"documents left out of refreshes: they have an answer": answering} if answering else {}),
    }
