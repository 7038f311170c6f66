"""Stage `evaluate`: runs scored on one split, and compared pairwise."""

from typing import Any

from hardneg.data.runs import read_run
from hardneg.errors import UsageError
from hardneg.registry import suggestion
from hardneg.stages.opening import open_collection
from hardneg.stages.search import RUN
from hardneg.stages.work import Work

METRICS = "metrics.json"


def run(work: Work) -> dict[str, Any]:
    """Writes means, per-query values, intervals and paired tests against the baselines (none named: the first row)."""
    from hardneg.evaluation.metrics import evaluate
    from hardneg.evaluation.metrics_json import write_metrics
    from hardneg.evaluation.significance import Randomisation, compare_all

    spec = work.spec
    for label in spec.baselines:
        if label not in spec.runs:
            raise UsageError(f"{work.name}.baselines: no row {label!r}{suggestion(label, spec.runs)}")
    collection = open_collection(work.inputs["dataset"])
    qrels = collection.qrels(spec.split)
    scores = {
        label: evaluate(read_run(source.folder / RUN), qrels, spec.metrics, spec.relevance_level)
        for label, source in work.inputs_of("runs").items()
    }
    baselines = spec.baselines or tuple(spec.runs)[:1]
    comparisons = compare_all(scores, baselines, Randomisation(seed=spec.seed))
    write_metrics(work.folder / METRICS, scores, comparisons)
    return {"queries": len(qrels), "passages": len(collection.corpus), "systems": len(scores)}
