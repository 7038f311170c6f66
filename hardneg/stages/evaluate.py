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
    from hardneg.evaluation.metrics_json import Measured, write_metrics
    from hardneg.evaluation.significance import Randomisation, compare_all

    spec = work.spec
    named = {"baselines": spec.baselines} | {f"marks.{sign}": rows for sign, rows in spec.marks.items()}
    for place, label in ((place, label) for place, rows in named.items() for label in rows):
        if label not in spec.runs:
            raise UsageError(f"{work.name}.{place}: no row {label!r}{suggestion(label, spec.runs)}")
    collection = open_collection(work.inputs["dataset"])
    qrels = collection.qrels(spec.split)
    scores = {
        label: evaluate(read_run(source.folder / RUN), qrels, spec.metrics, spec.relevance_level)
        for label, source in work.inputs_of("runs").items()
    }
    baselines = tuple(dict.fromkeys(label for rows in named.values() for label in rows)) or tuple(spec.runs)[:1]
    comparisons = compare_all(scores, baselines, Randomisation(seed=spec.seed))
    write_metrics(work.folder / METRICS, Measured(scores, comparisons, spec.marks))
    return {"queries": len(qrels), "passages": len(collection.corpus), "systems": len(scores)}
