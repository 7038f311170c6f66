"""Stage `analyze`: numbers as JSON, figures as PNG and SVG, one of each an analysis whose inputs are given."""

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from hardneg.errors import DataError, UsageError
from hardneg.registry import suggestion
from hardneg.replacing import replace_text
from hardneg.stages.analyze_errors import pairwise_errors
from hardneg.stages.analyze_projection import projection
from hardneg.stages.evaluate import METRICS
from hardneg.stages.work import Work

ERRORS, DRIFT, ABLATION, PROJECTION, COSTS = "errors", "drift", "ablation", "projection", "costs"


def run(work: Work) -> dict[str, Any]:
    """Makes the analyses; facts: their names."""
    spec = work.spec
    wanted: Mapping[str, tuple[bool, Callable[[Work], Any]]] = {
        ERRORS: (bool(spec.indexes or spec.runs), _errors),
        DRIFT: (bool(spec.training), _drift),
        ABLATION: (spec.evaluation is not None, _ablation),
        PROJECTION: (spec.projection is not None, _projection),
        COSTS: (bool(spec.costs), _costs),
    }
    made = [name for name, (asked, _) in wanted.items() if asked]
    for name in made:
        content = wanted[name][1](work)
        text = json.dumps(content, indent=1, ensure_ascii=False, allow_nan=False)
        replace_text(work.folder / f"{name}.json", text + "\n")
    return {"analyses": made}


def _figures(work: Work, name: str) -> list[Path]:
    return [work.folder / f"{name}.png", work.folder / f"{name}.svg"]


def _errors(work: Work) -> dict[str, Any]:
    from hardneg.analysis.error_table import distribution_of, to_json
    from hardneg.analysis.figures.errors import draw_errors

    found = pairwise_errors(work)
    draw_errors({label: distribution_of(errors) for label, errors in found.items()}, _figures(work, ERRORS))
    return {label: to_json(errors) for label, errors in found.items()}


def _drift(work: Work) -> dict[str, Any]:
    from hardneg.analysis.drift_curves import drift_curves
    from hardneg.analysis.figures.drift import draw_drift
    from hardneg.training.history import HISTORY, History

    curves = {
        label: drift_curves(History(source.folder / HISTORY).read())
        for label, source in work.inputs_of("training").items()
    }
    for label, measured in curves.items():
        if not measured:
            raise DataError(
                f"{work.name}.training.{label}: {work.spec.training[label]} measured no drift; train it with `watch`"
            )
    draw_drift(curves, _figures(work, DRIFT))
    return curves


def _ablation(work: Work) -> dict[str, Any]:
    from hardneg.analysis.figures.ablation import draw_ablation
    from hardneg.evaluation.metrics_json import read_metrics
    from hardneg.evaluation.report import estimates

    results = read_metrics(work.inputs["evaluation"].folder / METRICS).results
    systems = {label: estimates(scores) for label, scores in results.items()}
    metrics = list(dict.fromkeys(name for measured in systems.values() for name in measured))
    metric = work.spec.metric or metrics[0]
    if metric not in metrics:
        hint = suggestion(metric, metrics)
        raise UsageError(f"{work.name}.metric: {metric!r} was not evaluated{hint}; there are: {', '.join(metrics)}")
    means = {label: measured[metric].mean for label, measured in systems.items()}
    intervals = {
        label: (found.low, found.high) if (found := measured[metric].interval) else None
        for label, measured in systems.items()
    }
    draw_ablation(metric, means, intervals, _figures(work, ABLATION))
    return {"metric": metric, "means": means, "intervals": intervals}


def _projection(work: Work) -> dict[str, Any]:
    from hardneg.analysis.figures.projection import draw_projection

    found = projection(work)
    draw_projection(found.panels, _figures(work, PROJECTION))
    return found.to_json()


def _costs(work: Work) -> list[dict[str, Any]]:
    from hardneg.analysis.costs import costs, facts_of
    from hardneg.analysis.figures.costs import draw_costs

    methods: dict[str, dict[str, Any]] = {}
    for place, source in work.inputs_of("costs").items():
        methods.setdefault(place.rpartition(".")[0], {})[source.name] = facts_of(source.facts)
    rows = costs(methods)
    draw_costs(rows, _figures(work, COSTS))
    return [asdict(row) for row in rows]
