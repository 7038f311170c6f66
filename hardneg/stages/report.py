"""Stage `report`: the table, the tests and the training curves, as Markdown and as one HTML page."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hardneg.counting import counted
from hardneg.layout import METRICS
from hardneg.stages.analysis_sections import sections
from hardneg.stages.context import ArtifactInput, StageContext
from hardneg.stages.reading_sections import reading_sections
from hardneg.stages.specs import EvaluateSpec
from hardneg.stages.training_common import TrainingSpec
from hardneg.training.history import HISTORY


def run(work: StageContext[Any]) -> dict[str, Any]:
    """Writes `report.md` and `report.html`."""
    from hardneg.evaluation.metrics_json import read_metrics
    from hardneg.reporting.content import Report
    from hardneg.reporting.page import write_report
    from hardneg.reporting.queries import Passages

    evaluation, trained = work.inputs["evaluation"], work.inputs_of("training")
    measured = read_metrics(evaluation.folder / METRICS)
    report = Report.of(
        work.spec.title or "Results",
        measured,
        histories={label: _history(source.folder / HISTORY) for label, source in trained.items()},
        settings=_settings(evaluation, trained),
        sections=[
            section
            for label, source in work.inputs_of("analyses").items()
            for section in sections(label, source.folder, source.facts["analyses"])
        ]
        + reading_sections(work.inputs_of("reading")),
    )
    write_report(work.folder, report, measured, Passages({}))
    return {}


def _history(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def _settings(evaluation: ArtifactInput, trained: Mapping[str, ArtifactInput]) -> dict[str, object]:
    """What one needs to know to judge the table, name by name."""
    assert isinstance(evaluation.spec, EvaluateSpec)
    settings: dict[str, object] = {
        "passages": evaluation.facts["passages"],
        "evaluated on": f"{counted(evaluation.facts['queries'], 'query')} of split {evaluation.spec.split}",
        "relevant from grade": evaluation.spec.relevance_level,
    }
    for label, source in trained.items():
        assert isinstance(source.spec, TrainingSpec)
        settings[f"{label}: loss"] = source.plugins["loss"]
        settings |= {f"{label}: {name}": value for name, value in source.spec.options.identity().items()}
        settings |= {
            f"{label}: {name}": value for name, value in source.facts.items() if isinstance(value, int | float)
        }
    return settings
