"""Stage `analyze`: numbers as JSON, figures as PNG and SVG, one of each an analysis whose inputs are given."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from hardneg.analysis.figures.denoising import draw_denoising, draw_planted
from hardneg.analysis.figures.drift import draw_drift
from hardneg.analysis.figures.first_stage import draw_candidates, draw_depths, draw_dimensions
from hardneg.analysis.figures.gradients import draw_gradients
from hardneg.analysis.figures.operations import draw_operations
from hardneg.analysis.figures.refreshes import draw_refreshes
from hardneg.analysis.figures.runs import draw_holes, draw_overlap, draw_scores, draw_wins
from hardneg.atomic_write import replace_text
from hardneg.stages.analyze_denoising import denoising_found, planted_found
from hardneg.stages.analyze_errors import pairwise_errors
from hardneg.stages.analyze_first_stage import candidates_found, depths_found, dimensions_found
from hardneg.stages.analyze_histories import drift_found, gradients_found, refreshes_found
from hardneg.stages.analyze_operations import operations_found
from hardneg.stages.analyze_projection import projection
from hardneg.stages.analyze_quality import ablation, systems_matrix
from hardneg.stages.analyze_runs import holes_found, overlap_found, scores_found, wins_found
from hardneg.stages.analyze_sizes import index_sizes
from hardneg.stages.context import StageContext

ERRORS, DRIFT, ABLATION, PROJECTION, COSTS = "errors", "drift", "ablation", "projection", "costs"
MATRIX, SIZES, OPERATIONS = "matrix", "sizes", "operations"
GRADIENTS, REFRESHES = "gradients", "refreshes"
SCORES, OVERLAP, HOLES, WINS = "scores", "overlap", "holes", "wins"
DENOISING, PLANTED = "denoising", "planted"
DEPTHS, CANDIDATES, DIMENSIONS = "depths", "candidates", "dimensions"

_Make = Callable[[StageContext[Any], str], Any]
"""Makes an analysis and its figures under a name; what it returns goes into the JSON."""


def run(work: StageContext[Any]) -> dict[str, Any]:
    """Makes the analyses; facts: their names."""
    spec = work.spec
    wanted: Mapping[str, tuple[bool, _Make]] = {
        ERRORS: (bool(spec.indexes or spec.runs), _errors),
        DRIFT: (bool(spec.training), partial(_drawn, drift_found, draw_drift)),
        GRADIENTS: (bool(spec.gradients), partial(_drawn, gradients_found, draw_gradients)),
        REFRESHES: (bool(spec.refreshes), partial(_drawn, refreshes_found, draw_refreshes)),
        SCORES: (bool(spec.scores), partial(_drawn, scores_found, draw_scores)),
        OVERLAP: (spec.overlap is not None, partial(_drawn, overlap_found, draw_overlap)),
        HOLES: (spec.holes is not None, partial(_drawn, holes_found, draw_holes)),
        WINS: (spec.wins is not None, partial(_drawn, wins_found, draw_wins)),
        DENOISING: (spec.denoising is not None, partial(_drawn, denoising_found, draw_denoising)),
        PLANTED: (spec.planted is not None, partial(_drawn, planted_found, draw_planted)),
        DEPTHS: (spec.depths is not None, partial(_drawn, depths_found, draw_depths)),
        CANDIDATES: (spec.candidates is not None, partial(_drawn, candidates_found, draw_candidates)),
        DIMENSIONS: (spec.dimensions is not None, partial(_drawn, dimensions_found, draw_dimensions)),
        ABLATION: (spec.evaluation is not None, _ablation),
        MATRIX: (spec.matrix is not None, _matrix),
        PROJECTION: (spec.projection is not None, _projection),
        SIZES: (bool(spec.sizes), _sizes),
        COSTS: (bool(spec.costs), _costs),
        OPERATIONS: (bool(spec.operations), partial(_drawn, operations_found, draw_operations)),
    }
    made = [name for name, (asked, _) in wanted.items() if asked]
    for name in made:
        content = wanted[name][1](work, name)
        text = json.dumps(content, indent=1, ensure_ascii=False, allow_nan=False)
        replace_text(work.folder / f"{name}.json", text + "\n")
    return {"analyses": made}


def _figures(work: StageContext[Any], name: str) -> list[Path]:
    return [work.folder / f"{name}.png", work.folder / f"{name}.svg"]


def _drawn(
    find: Callable[[StageContext[Any]], Any],
    draw: Callable[[Any, Sequence[Path]], None],
    work: StageContext[Any],
    name: str,
) -> Any:
    """What needs nothing between its numbers and its figure."""
    found = find(work)
    draw(found, _figures(work, name))
    return found


def _errors(work: StageContext[Any], name: str) -> dict[str, Any]:
    from hardneg.analysis.error_table import distribution_of, to_json
    from hardneg.analysis.figures.errors import draw_errors

    found = pairwise_errors(work)
    draw_errors({label: distribution_of(errors) for label, errors in found.items()}, _figures(work, name))
    return {label: to_json(errors) for label, errors in found.items()}


def _ablation(work: StageContext[Any], name: str) -> dict[str, Any]:
    from hardneg.analysis.figures.ablation import draw_ablation

    found = ablation(work)
    draw_ablation(found["metric"], found["means"], found["intervals"], _figures(work, name))
    return found


def _matrix(work: StageContext[Any], name: str) -> dict[str, Any]:
    from hardneg.analysis.figures.matrix import draw_matrix

    found = systems_matrix(work)
    draw_matrix(found, work.spec.matrix.figure, _figures(work, name))
    return asdict(found)


def _sizes(work: StageContext[Any], name: str) -> list[dict[str, Any]]:
    from hardneg.analysis.figures.sizes import draw_sizes

    found = index_sizes(work)
    draw_sizes(found, _figures(work, name))
    return [asdict(size) for size in found]


def _projection(work: StageContext[Any], name: str) -> dict[str, Any]:
    from hardneg.analysis.figures.projection import draw_projection

    found = projection(work)
    draw_projection(found.panels, _figures(work, name))
    return found.to_json()


def _costs(work: StageContext[Any], name: str) -> list[dict[str, Any]]:
    from hardneg.analysis.costs import costs, facts_of
    from hardneg.analysis.figures.costs import draw_costs

    methods: dict[str, dict[str, Any]] = {}
    for place, source in work.inputs_of("costs").items():
        methods.setdefault(place.rpartition(".")[0], {})[source.name] = facts_of(source.facts)
    rows = costs(methods)
    draw_costs(rows, _figures(work, name))
    return [asdict(row) for row in rows]
