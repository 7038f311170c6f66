"""What trainings take."""

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from hardneg.analysis.base import Analysis, Option
from hardneg.analysis.inputs import AnalysisInputs
from hardneg.fields import Name, Reference
from hardneg.report.table import Table

_PEAKS = ("peak_memory", "peak_gpu_memory")


class Costs(Analysis):
    """Show what training took: time, steps, device, memory, and how many times faster than the first method.

    Example: hardneg analyze costs runs/star-passage --stage STAR=star --stage both=star,adore
    """

    name = "costs"
    title = "training costs"
    explained = "Wall time of the stages themselves; of one that was stopped, up to its checkpoints, and its last run."
    paper = "STAR/ADORE, Table 4"
    asks = ("stages",)
    drawn = slice(1, 2)

    methods: Annotated[
        dict[
            Name, Annotated[tuple[Name, ...], BeforeValidator(lambda each: (each,) if isinstance(each, str) else each)]
        ],
        Reference(("model", "index", "run", "negatives")),
        Option("stage", metavar="NAME=STAGE[,STAGE]"),
    ] = Field(min_length=1, description="Stages summed; default: each that trains.")

    @classmethod
    def arranged(cls, values: Mapping[str, Any], types: Mapping[str, str]) -> Mapping[str, Any]:
        return values if "methods" in values else {"methods": {name: name for name in types if types[name] == "model"}}

    def measure(self, inputs: AnalysisInputs) -> list[dict[str, Any]]:
        """Of each method what `costs` says."""
        methods: dict[str, dict[str, Any]] = {}
        for label, stages in self.methods.items():
            facts = {name: inputs.facts(f"methods.{label}.{position}")[1] for position, name in enumerate(stages)}
            methods[label] = {name: {**each, **each.get("usage", {})} for name, each in facts.items()}
        return costs(methods)

    def table(self, results: Any) -> Table:
        """Times in hours, or in minutes where none is as long as an hour."""
        longest = max((row["seconds"] for row in results), default=0.0)
        unit, length = ("hours", 3600.0) if longest >= 3600 else ("minutes", 60.0)
        rows = []
        for row in results:
            without = f" without {', '.join(row['unknown'])}" if row["unknown"] else ""
            sizes = ["unknown" if row[name] is None else f"{row[name] / 1e9:.1f}" for name in _PEAKS]
            speed = "–" if row["speedup"] is None else f"{row['speedup']:.3g}×"
            devices = ", ".join(row["devices"]) or "unknown"
            time = f"{row['seconds'] / length:,.2f}{without}"
            rows.append([row["method"], time, *sizes, speed, f"{row['steps']:,}", devices])
        return Table(("method", unit, "peak GB", "peak GPU GB", "speed", "steps", "device"), rows)


def costs(methods: Mapping[str, Mapping[str, Mapping[str, Any]]]) -> list[dict[str, Any]]:
    """The costs of each method from the facts that its stages' manifests hold, by stage.

    Args:
        methods: method to stage to facts (`seconds`, `steps`, `device`, `peak_memory`, `peak_gpu_memory`).

    Returns:
        For each method its `stages`; `seconds` (wall time) and `steps` (of the optimizer), summed; `devices`, each
        once; `peak_memory` and `peak_gpu_memory`, bytes, the largest of the stages, None where no stage tells;
        `speedup`: the first method's seconds over this one's, None where either is unknown; `unknown`: stages that
        tell no time.

    Source: STAR/ADORE (Zhan et al., SIGIR 2021), table 4.
    """
    rows: list[dict[str, Any]] = []
    for method, stages in methods.items():
        steps = list(stages.values())
        row: dict[str, Any] = {"method": method, "stages": list(stages)}
        row["seconds"] = sum(float(facts.get("seconds", 0)) for facts in steps)
        row["steps"] = sum(int(facts.get("steps", 0)) for facts in steps)
        row["devices"] = list(dict.fromkeys(str(facts["device"]) for facts in steps if "device" in facts))
        row |= {name: max((int(each[name]) for each in steps if name in each), default=None) for name in _PEAKS}
        row["unknown"] = [name for name, facts in stages.items() if "seconds" not in facts]
        rows.append(row)
        known = not row["unknown"] and not rows[0]["unknown"] and row["seconds"] > 0
        row["speedup"] = rows[0]["seconds"] / row["seconds"] if known else None
    return rows
