"""`hardneg analyze costs` and `operations`: of the stages of a finished recipe."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hardneg.cli.analyses.output import AsJson, Overwrite, Plot, check_plot, drawing, show
from hardneg.cli.options import STORE, open_store
from hardneg.errors import UsageError

if TYPE_CHECKING:
    from hardneg.artifacts import Artifact

RunFolder = Annotated[Path, typer.Argument(metavar="RUN_FOLDER", help="The folder of a finished recipe.")]


def costs(
    folder: RunFolder,
    stage: Annotated[
        list[str] | None,
        typer.Option("--stage", metavar="NAME=STAGE[,STAGE]", help="Stages summed; default: each that trains."),
    ] = None,
    as_json: AsJson = False,
    plot: Plot = None,
    overwrite: Overwrite = False,
    store: Path | None = STORE,
) -> None:
    """Show what training took: time, steps, device, memory, and how many times faster than the first method.

    Example: hardneg analyze costs runs/star-passage --stage STAR=star --stage both=star,adore
    """
    from dataclasses import asdict

    from hardneg.analysis.costs import costs as costs_of
    from hardneg.analysis.figures.costs import draw_costs
    from hardneg.recipe.run_folder import artifacts_of

    check_plot(plot, overwrite, folder)
    found = costs_of(_methods(stage or [], artifacts_of(folder, open_store(store))))
    if plot:
        with drawing(plot):
            draw_costs(found, [plot])
    rows = [
        [
            row.method,
            f"{row.seconds:,.1f}" + (f" without {', '.join(row.unknown)}" if row.unknown else ""),
            f"{row.steps:,}",
            ", ".join(row.devices) or "unknown",
            *("unknown" if size is None else f"{size / 1e9:.2f}" for size in (row.peak_memory, row.peak_gpu_memory)),
            f"{row.speedup:.3g}×" if row.speedup else "–",
        ]
        for row in found
    ]
    columns = ("method", "seconds", "steps", "device", "peak GB", "peak GPU GB", "speed")
    show([asdict(row) for row in found], as_json, columns, rows)


def _methods(given: Sequence[str], artifacts: "Mapping[str, Artifact]") -> dict[str, dict[str, dict[str, Any]]]:
    from hardneg.analysis.costs import facts_of

    trained = [name for name, artifact in artifacts.items() if artifact.kind == "model"]
    methods: dict[str, dict[str, dict[str, Any]]] = {}
    for text in given or [f"{name}={name}" for name in trained]:
        label, equals, stages = text.partition("=")
        if not (label and equals and stages):
            raise UsageError(f"--stage {text}: must be of the form NAME=STAGE or NAME=STAGE,STAGE")
        for name in stages.split(","):
            methods.setdefault(label, {})[name] = facts_of(_stage(name, artifacts, f"--stage {text}").facts)
    return methods


def operations(
    folder: RunFolder,
    stage: Annotated[
        list[str] | None, typer.Option("--stage", help="One to show; by default all but those that evaluate.")
    ] = None,
    as_json: AsJson = False,
    plot: Plot = None,
    overwrite: Overwrite = False,
    store: Path | None = STORE,
) -> None:
    """Show what one document, query, training step or refresh took, of each stage of a finished recipe.

    Example: hardneg analyze operations runs/star-passage --stage star-index --stage star-test
    """
    from hardneg.analysis.figures.operations import draw_operations
    from hardneg.analysis.operations import UNITS, operation_table
    from hardneg.analysis.operations import operations as operations_of
    from hardneg.recipe.run_folder import artifacts_of

    check_plot(plot, overwrite, folder)
    artifacts = {name: one for name, one in artifacts_of(folder, open_store(store)).items() if one.kind in UNITS}
    chosen = {name: _stage(name, artifacts, "--stage") for name in stage or artifacts}
    found = [each.to_json() for each in operations_of({name: (one.kind, one.facts) for name, one in chosen.items()})]
    if plot:
        with drawing(plot):
            draw_operations(found, [plot])
    show(found, as_json, *operation_table(found))


def _stage(name: str, artifacts: "Mapping[str, Artifact]", place: str) -> "Artifact":
    from hardneg.registry import suggestion

    if name not in artifacts:
        hint = suggestion(name, artifacts)
        raise UsageError(f"{place}: no stage {name!r}{hint}; there are: {', '.join(artifacts)}")
    return artifacts[name]
