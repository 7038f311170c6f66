"""What one must know beside the figures: queries and documents that a run lacks, judgements that count for nothing."""

from collections.abc import Collection, Iterator, Sequence

from hardneg.evaluation.metrics import Metric, coverage
from hardneg.formats.qrels import Qrels
from hardneg.formats.runs import Run
from hardneg.records.wording import counted, joined


def run_notes(
    label: str, run: Run, query_ids: Collection[str], metrics: Sequence[str], documents: int | None = None
) -> list[str]:
    """A line on judged queries without a ranking, on queries that nobody judged, and on metrics cut below all lists.

    query_ids: the judged ones. documents: how many there are to find; None where that is not known.
    """
    counts = coverage(run, query_ids)
    if not counts.shared:
        return [f"{label}: no query of the run is judged; are these the right judgements?"]
    notes = []
    if counts.unranked:
        missing = "judged query is not in the run and scores 0", "judged queries are not in the run and score 0"
        notes.append(f"{label}: {counted(counts.unranked, *missing)}")
    if counts.unjudged:
        unjudged = "query has no judgement and is left out", "queries have no judgement and are left out"
        notes.append(f"{label}: {counted(counts.unjudged, *unjudged)}")
    longest = max(len(run[query_id].doc_ids) for query_id in run if query_id in query_ids)
    if deeper := cut_below(metrics, longest if documents is None or longest < documents else None):
        are = "is" if len(deeper) == 1 else "are"
        notes.append(f"{label}: no list has more than {counted(longest, 'document')}: {joined(deeper)} {are} cut there")
    return notes


def judgement_notes(qrels: Qrels, metrics: Sequence[str], level: int) -> Iterator[str]:
    """A line on a relevance level that no judgement reaches, or that those of some queries do not reach."""
    binary = [name for name in metrics if name not in graded(metrics)]
    highest = [max(grades.values(), default=0) for grades in qrels.values()]
    lacking = sum(grade < level for grade in highest)
    if not binary or not lacking:
        return
    zero = f"0 by {joined(binary)}"
    if lacking == len(highest):
        yield f"relevance level {level}: no judgement reaches it, the highest is {max(highest)}, so all is {zero}"
    else:
        queries = "query has no document of grade", "queries have no document of grade"
        yield f"{counted(lacking, *queries)} {level} or higher and {'scores' if lacking == 1 else 'score'} {zero}"


def graded(names: Sequence[str]) -> set[str]:
    """The metrics in which grades count, so that the relevance level does not."""
    return {name for name in names if Metric(name.partition("@")[0]).graded}


def cut_below(metrics: Sequence[str], longest: int | None) -> list[str]:
    """The metrics that are cut deeper than the longest list, in order; none where its length is not known."""
    if longest is None:
        return []
    return [name for name in metrics if cutoff(name) > longest]


def cutoff(name: str) -> int:
    """Where a metric is cut, `answer@k` among them; 0: it looks at the whole list."""
    return int(name.partition("@")[2] or 0)
