"""What each row of an evaluation took, by the manifests of the steps that made its run."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from statistics import fmean
from typing import TYPE_CHECKING

from hardneg.records.layout import DATASET
from hardneg.verbs.shared.context import ArtifactInput
from hardneg.verbs.shared.stage_spec import StageSpec

if TYPE_CHECKING:
    from hardneg.report.cost_section import SystemCosts

_TRAINED = ("model", "reranker")


def steps_behind(names: Iterable[str], stages: Mapping[str, StageSpec]) -> Iterator[str]:
    """The stages that these come of, and these themselves, each once; the collection is none of them."""
    seen = {DATASET}
    waiting = list(names)[::-1]
    while waiting:
        name = waiting.pop()
        if name not in seen and name in stages:
            seen.add(name)
            yield name
            waiting += [target for path, target, _ in stages[name].references() if path != DATASET][::-1]


def system_costs(runs: Sequence[str], inputs: Mapping[str, ArtifactInput]) -> "SystemCosts":
    """What a row's run took, or each of its runs with several seeds on average; made: all steps behind them."""
    from hardneg.report.cost_section import SystemCosts

    costs = [_costs(name, inputs) for name in runs]
    devices = dict.fromkeys(device for each in costs for device in each.devices)
    names = ("training", "indexing", "size", "query", "steps")
    values = {name: [getattr(each, name) for each in costs] for name in names}
    means = {name: fmean(known) if known and None not in known else None for name, known in values.items()}
    return SystemCosts(**means, devices=tuple(devices))


def _costs(run: str, inputs: Mapping[str, ArtifactInput]) -> "SystemCosts":
    from hardneg.report.cost_section import SystemCosts

    specs = {name: item.spec for name, item in inputs.items() if item.spec is not None}
    behind = [inputs[name] for name in steps_behind([run], specs)]
    searches = _linked([run], "run", inputs)
    indexes = _linked(_named(searches), "index", inputs)
    searched = [item for item in indexes if item.name in _named(searches)]
    trainings = [item for item in behind if item.spec and item.spec.artifact_type in _TRAINED and "steps" in item.facts]
    return SystemCosts(
        training=_seconds(trainings),
        indexing=_seconds(indexes),
        size=_sum([item.facts.get("bytes") for item in searched]),
        query=_sum([_milliseconds(item) for item in searches]),
        steps=_seconds(behind),
        devices=tuple(dict.fromkeys(filter(None, map(_device, behind)))),
    )


def _named(items: Iterable[ArtifactInput]) -> list[str]:
    """The stages that these are made from."""
    return [target for item in items if item.spec is not None for _, target, _ in item.spec.references()]


def _linked(names: Iterable[str], artifact_type: str, inputs: Mapping[str, ArtifactInput]) -> list[ArtifactInput]:
    """Those of a type among the names, and those of the same type that they are made from, each once."""
    costs: dict[str, ArtifactInput] = {}
    waiting = list(names)
    while waiting:
        name = waiting.pop()
        item = inputs.get(name)
        if item and item.spec and item.spec.artifact_type == artifact_type and name not in costs:
            costs[name] = item
            waiting += _named([item])
    return list(costs.values())


def _seconds(items: Sequence[ArtifactInput]) -> float | None:
    return _sum([item.facts.get("seconds") for item in items])


def _milliseconds(run: ArtifactInput) -> float | None:
    seconds, queries = run.facts.get("seconds"), run.facts.get("queries")
    known = isinstance(seconds, int | float) and isinstance(queries, int) and queries > 0
    return 1000 * float(seconds) / queries if known else None  # type: ignore[arg-type,operator]


def _sum(values: Sequence[object]) -> float | None:
    """None where there are none, or where one is not known."""
    known = [float(value) for value in values if isinstance(value, int | float)]
    return sum(known) if known and len(known) == len(values) else None


def _device(item: ArtifactInput) -> str | None:
    used = item.facts.get("usage")
    if not isinstance(used, Mapping) or "device" not in used:
        return None
    name = used["device"] if used["device"] != "cpu" else used.get("processor", "cpu")
    device, count = str(name), used.get("processes", 1)
    return f"{count} × {device}" if isinstance(count, int) and count > 1 else device
