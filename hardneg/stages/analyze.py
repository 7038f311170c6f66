"""Stage `analyze`: numbers as JSON, figures as PNG and SVG, one of each an analysis whose inputs are given."""

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from hardneg.replacing import replace_text
from hardneg.stages.analyze_errors import pairwise_errors
from hardneg.stages.analyze_histories import drift_found, gradients_found, refreshes_found
from hardneg.stages.analyze_operations import operations_found
from hardneg.stages.analyze_projection import projection
from hardneg.stages.analyze_quality import ablation, systems_matrix
from hardneg.stages.analyze_runs import holes_found, overlap_found, scores_found, wins_found
from hardneg.stages.analyze_sizes import index_sizes
from hardneg.stages.work import Work

ERRORS, DRIFT, ABLATION, PROJECTION, COSTS = "errors", "drift", "ablation", "projection", "costs"
MATRIX, SIZES, OPERATIONS = "matrix", "sizes", "operations"
GRADIENTS, REFRESHES = "gradients", "refreshes"
SCORES, OVERLAP, HOLES, WINS = "scores", "overlap", "holes", "wins"


def run(work: Work) -> dict[str, Any]:
    """Makes the analyses; facts: their names."""
    spec = work.spec
    wanted: Mapping[str, tuple[bool, Callable[[Work], Any]]] = {
        ERRORS: (bool(spec.indexes or spec.runs), _errors),
        DRIFT: (bool(spec.training), _drift),
        GRADIENTS: (bool(spec.gradients), _gradients),
        REFRESHES: (bool(spec.refreshes), _refreshes),
        SCORES: (bool(spec.scores), _scores),
        OVERLAP: (spec.overlap is not None, _overlap),
        HOLES: (spec.holes is not None, _holes),
        WINS: (spec.wins is not None, _wins),
        ABLATION: (spec.evaluation is not None, _ablation),
        MATRIX: (spec.matrix is not None, _matrix),
        PROJECTION: (spec.projection is not None, _projection),
        SIZES: (bool(spec.sizes), _sizes),
        COSTS: (bool(spec.costs), _costs),
        OPERATIONS: (bool(spec.operations), _operations),
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
    from hardneg.analysis.figures.drift import draw_drift

    found = drift_found(work)
    draw_drift(found, _figures(work, DRIFT))
    return found


def _gradients(work: Work) -> dict[str, Any]:
    from hardneg.analysis.figures.gradients import draw_gradients

    found = gradients_found(work)
    draw_gradients(found, _figures(work, GRADIENTS))
    return found


def _refreshes(work: Work) -> dict[str, Any]:
    from hardneg.analysis.figures.refreshes import draw_refreshes

    found = refreshes_found(work)
    draw_refreshes(found, _figures(work, REFRESHES))
    return found


def _scores(work: Work) -> dict[str, Any]:
    from hardneg.analysis.figures.runs import draw_scores

    found = scores_found(work)
    draw_scores(found, _figures(work, SCORES))
    return found


def _overlap(work: Work) -> dict[str, Any]:
    from hardneg.analysis.figures.runs import draw_overlap

    found = overlap_found(work)
    draw_overlap(found, _figures(work, OVERLAP))
    return found


def _holes(work: Work) -> dict[str, Any]:
    from hardneg.analysis.figures.runs import draw_holes

    found = holes_found(work)
    draw_holes(found, _figures(work, HOLES))
    return found


def _wins(work: Work) -> dict[str, Any]:
    from hardneg.analysis.figures.runs import draw_wins

    found = wins_found(work)
    draw_wins(found, _figures(work, WINS))
    return found


def _ablation(work: Work) -> dict[str, Any]:
    from hardneg.analysis.figures.ablation import draw_ablation

    found = ablation(work)
    draw_ablation(found["metric"], found["means"], found["intervals"], _figures(work, ABLATION))
    return found


def _matrix(work: Work) -> dict[str, Any]:
    from hardneg.analysis.figures.matrix import draw_matrix

    found = systems_matrix(work)
    draw_matrix(found, work.spec.matrix.figure, _figures(work, MATRIX))
    return asdict(found)


def _sizes(work: Work) -> list[dict[str, Any]]:
    from hardneg.analysis.figures.sizes import draw_sizes

    found = index_sizes(work)
    draw_sizes(found, _figures(work, SIZES))
    return [asdict(size) for size in found]


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


def _operations(work: Work) -> list[dict[str, Any]]:
    from hardneg.analysis.figures.operations import draw_operations

    found = operations_found(work)
    draw_operations(found, _figures(work, OPERATIONS))
    return found
