"""What a recipe's first stages find: by depth, by number of candidates, by size of vectors."""

from typing import Any

from hardneg.analysis.candidates import CandidateOptions, candidates
from hardneg.analysis.depths import depths, dimensions
from hardneg.data.qrels import Qrels
from hardneg.data.runs import Run, read_run
from hardneg.layout import RUN
from hardneg.stages.context import StageContext
from hardneg.stages.inputs import open_collection


def depths_found(work: StageContext[Any]) -> dict[str, Any]:
    """Those of each run that `depths` names."""
    spec = work.spec
    return depths(_runs(work, "depths.runs"), _qrels(work), spec.depths.depths, spec.relevance_level)


def candidates_found(work: StageContext[Any]) -> dict[str, Any]:
    """Those of each pair of runs that `candidates` names."""
    part = work.spec.candidates
    options = CandidateOptions(sorted(set(part.counts)), part.metric, work.spec.relevance_level)
    first, reranked = _runs(work, "candidates.first"), _runs(work, "candidates.reranked")
    found = candidates({label: (first[label], reranked[label]) for label in first}, _qrels(work), options)
    asked = {"metric": part.metric, "counts": options.counts, "relevance_level": work.spec.relevance_level}
    return {**asked, "runs": found}


def dimensions_found(work: StageContext[Any]) -> dict[str, Any]:
    """Those of each series of runs that `dimensions` names."""
    part, runs = work.spec.dimensions, _runs(work, "dimensions.runs")
    series = {label: {size: runs[f"{label}.{size}"] for size in sizes} for label, sizes in part.runs.items()}
    return dimensions(series, _qrels(work), part.metric, work.spec.relevance_level)


def _qrels(work: StageContext[Any]) -> Qrels:
    return open_collection(work.inputs["dataset"]).qrels(work.spec.split)


def _runs(work: StageContext[Any], field: str) -> dict[str, Run]:
    return {label: read_run(source.folder / RUN) for label, source in work.inputs_of(field).items()}
