"""Stage `evaluate`: runs scored on one split, and compared pairwise."""

from typing import TYPE_CHECKING, Any

from hardneg.data.collection import StoredCollection
from hardneg.data.runs import read_run
from hardneg.errors import UsageError
from hardneg.layout import METRICS, RUN
from hardneg.registry import suggestion
from hardneg.stages.context import StageContext
from hardneg.stages.opening import open_collection

if TYPE_CHECKING:
    from hardneg.evaluation.metrics import Scores


def run(work: StageContext[Any]) -> dict[str, Any]:
    """Writes means, per-query values, intervals and paired tests against the baselines (none named: the first row)."""
    from hardneg.evaluation.metrics_json import Measured, write_metrics
    from hardneg.evaluation.significance import Randomisation, compare_all

    spec = work.spec
    named = {"baselines": spec.baselines} | {f"marks.{sign}": rows for sign, rows in spec.marks.items()}
    for place, label in ((place, label) for place, rows in named.items() for label in rows):
        if label not in spec.runs:
            raise UsageError(f"{work.name}.{place}: no row {label!r}{suggestion(label, spec.runs)}")
    collection = open_collection(work.inputs["dataset"])
    scores, left_out = _scores(work, collection)
    baselines = tuple(dict.fromkeys(label for rows in named.values() for label in rows)) or tuple(spec.runs)[:1]
    comparisons = compare_all(scores, baselines, Randomisation(seed=spec.seed))
    write_metrics(work.folder / METRICS, Measured(scores, comparisons, spec.marks))
    queries = max(len(values) for row in scores.values() for values in row.values())
    return {"queries": queries, "passages": len(collection.corpus), "systems": len(scores), **left_out}


def _scores(work: StageContext[Any], collection: StoredCollection) -> tuple[dict[str, "Scores"], dict[str, int]]:
    """Each row's scores, the metrics in the order asked for; and how many questions and answers were left out."""
    from hardneg.data.answer_matching import PassageAnswers
    from hardneg.evaluation.answer_coverage import answer_coverage, answer_cutoffs
    from hardneg.evaluation.metrics import evaluate

    spec, cutoffs = work.spec, answer_cutoffs(work.spec.metrics)
    judged = [name for name in spec.metrics if name not in cutoffs]
    qrels = collection.qrels(spec.split) if judged else {}
    answers = (
        PassageAnswers.of(collection, spec.split, spec.answer_match)
        if cutoffs
        else PassageAnswers(collection.corpus, {})
    )
    asked = answers.query_ids
    scores: dict[str, Scores] = {}
    for label, source in work.inputs_of("runs").items():
        run = read_run(source.folder / RUN)
        found = evaluate(run, qrels, judged, spec.relevance_level) if judged else {}
        found |= answer_coverage(run, answers, asked, list(cutoffs.values())) if cutoffs else {}
        scores[label] = {name: found[name] for name in spec.metrics}
    without = len(collection.queries(spec.split)) - len(asked) if cutoffs else 0
    return scores, {**answers.left_out, **({"questions without answers": without} if without else {})}
