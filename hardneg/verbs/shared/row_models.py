"""Which model each row of an evaluation is of: the one that a report is about, and the one that it began from."""

from collections.abc import Mapping

from hardneg.records.layout import DATASET, START
from hardneg.verbs.shared.seeded import BySeed
from hardneg.verbs.shared.stage_spec import StageSpec

_Rows = Mapping[str, BySeed]


def row_of(model: str, rows: _Rows, stages: Mapping[str, StageSpec]) -> str:
    """The row of a model, by the fewest steps between its run and the model; empty where there is none."""
    nearest = {label: nearest_model(run, stages) for label, run in rows.items()}
    own = {label: steps for label, (name, steps) in nearest.items() if name == model}
    return min(own, key=own.__getitem__, default="")


def began_from(label: str, rows: _Rows, stages: Mapping[str, StageSpec]) -> str:
    """The row of the model that a row's own was trained from; empty where there is none."""
    trained = stages.get(nearest_model(rows[label], stages)[0])
    start = getattr(trained, "model", None) or START
    return row_of(start, rows, stages) if trained is not None else ""


def nearest_model(run: BySeed, stages: Mapping[str, StageSpec]) -> tuple[str, int]:
    """The model that a run was made from by the fewest steps, and how many; empty where there is none."""
    seen, level, steps = {DATASET}, [run] if isinstance(run, str) else [*run.values()], 0
    while level:
        if models := [name for name in level if name == START or (name in stages and "model" in stages[name].parts)]:
            return models[0], steps
        seen |= {*level}
        known = [stages[name] for name in level if name in stages]
        references = (each for spec in known for each in spec.references())
        level = [target for path, target, _ in references if path != DATASET and target not in seen]
        steps += 1
    return "", 0
