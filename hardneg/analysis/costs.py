"""What trainings take."""

from collections.abc import Iterable, Mapping
from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from hardneg.analysis.base import Analysis, Option
from hardneg.analysis.inputs import AnalysisInputs
from hardneg.fields import Name, Reference
from hardneg.report.table import Table


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
        unit, length = time_unit(row["seconds"] for row in results)
        rows = [
            [
                row["method"],
                f"{row['seconds'] / length:,.2f}" + (f" without {', '.join(row['unknown'])}" if row["unknown"] else ""),
                *(
                    "unknown" if size is None else f"{size / 1e9:.1f}"
                    for size in (row["peak_memory"], row["peak_gpu_memory"])
                ),
                "–" if row["speedup"] is None else f"{row['speedup']:.3g}×",
                f"{row['steps']:,}",
                ", ".join(row["devices"]) or "unknown",
            ]
            for row in results
        ]
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
        seconds = sum(float(facts.get("seconds", 0)) for facts in steps)
        unknown = [name for name, facts in stages.items() if "seconds" not in facts]
        base = rows[0]["seconds"] if rows else seconds
        known = not unknown and not (rows and rows[0]["unknown"]) and seconds > 0
        rows.append(
            {
                "method": method,
                "stages": list(stages),
                "seconds": seconds,
                "steps": sum(int(facts.get("steps", 0)) for facts in steps),
                "devices": list(dict.fromkeys(str(facts["device"]) for facts in steps if "device" in facts)),
                **{
                    name: max((int(facts[name]) for facts in steps if name in facts), default=None)
                    for name in ("peak_memory", "peak_gpu_memory")
                },
                "speedup": base / seconds if known else None,
                "unknown": unknown,
            }
        )
    return rows


def time_unit(seconds: Iterable[float]) -> tuple[str, float]:
    """What to show these times in, and how many seconds that is: hours, or minutes where none is as long as an hour."""
    return ("hours", 3600.0) if max(seconds, default=0.0) >= 3600 else ("minutes", 60.0)
