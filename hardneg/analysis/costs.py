"""What training takes: time, steps and memory of each method, and how many times faster it is than the first."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Cost:
    """One method: its stages one after another.

    stages: their names. seconds: wall time, summed. steps: optimizer steps, summed. devices: where it ran, each once.
    peak_memory, peak_gpu_memory: bytes, the largest of the stages; None where no stage tells. speedup: the first
    method's seconds over this one's; None where either is unknown. unknown: stages that tell no time.
    """

    method: str
    stages: tuple[str, ...]
    seconds: float
    steps: int
    devices: tuple[str, ...]
    peak_memory: int | None
    peak_gpu_memory: int | None
    speedup: float | None
    unknown: tuple[str, ...] = ()


def facts_of(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """The facts that `costs` takes, from those of an artifact."""
    return {**manifest, **manifest.get("usage", {})}


def costs(methods: Mapping[str, Mapping[str, Mapping[str, Any]]]) -> list[Cost]:
    """The costs of each method from the facts that its stages' manifests hold, by stage.

    Args:
        methods: method to stage to facts (`seconds`, `steps`, `device`, `peak_memory`, `peak_gpu_memory`).

    Source: STAR/ADORE (Zhan et al., SIGIR 2021), table 4.
    """
    rows: list[Cost] = []
    for method, stages in methods.items():
        told = list(stages.values())
        seconds = sum(float(facts.get("seconds", 0)) for facts in told)
        unknown = tuple(name for name, facts in stages.items() if "seconds" not in facts)
        first = rows[0] if rows else None
        base = seconds if first is None else first.seconds
        known = not unknown and not (first and first.unknown) and seconds > 0
        rows.append(
            Cost(
                method,
                tuple(stages),
                seconds,
                sum(int(facts.get("steps", 0)) for facts in told),
                tuple(dict.fromkeys(str(facts["device"]) for facts in told if "device" in facts)),
                _largest(told, "peak_memory"),
                _largest(told, "peak_gpu_memory"),
                base / seconds if known else None,
                unknown,
            )
        )
    return rows


def time_unit(seconds: Iterable[float]) -> tuple[str, float]:
    """What to show these times in, and how many seconds that is: hours, or minutes where none is as long as an hour."""
    return ("hours", 3600.0) if max(seconds, default=0.0) >= 3600 else ("minutes", 60.0)


def _largest(told: Sequence[Mapping[str, Any]], name: str) -> int | None:
    return max((int(facts[name]) for facts in told if name in facts), default=None)
