"""What a recipe's runs say: tails of scores, overlaps, holes, wins against another run."""

from collections.abc import Mapping, Sequence
from typing import Any

from hardneg.analysis.holes import HoleOptions, holes
from hardneg.analysis.overlaps import Lists, negatives_overlap, run_overlaps
from hardneg.analysis.score_tails import single_queries, tails_of
from hardneg.analysis.wins import to_json, wins_of
from hardneg.data.corpus import Corpus
from hardneg.data.negatives import read_negatives
from hardneg.data.qrels import positives
from hardneg.data.runs import Run, read_run, stream_run
from hardneg.errors import DataError
from hardneg.layout import NEGATIVES, RUN
from hardneg.stages.context import StageContext
from hardneg.stages.inputs import open_collection


def scores_found(work: StageContext[Any]) -> dict[str, list[dict[str, Any]]]:
    """The tails of each run that `scores` names."""
    runs = _runs(work, "scores")
    single = single_queries(runs, work.spec.score_queries, work.spec.seed)
    found = {label: tails_of(run, single=single) for label, run in runs.items()}
    for label, tails in found.items():
        if not tails:
            raise DataError(f"{work.name}.scores.{label}: no query has 10 documents with different scores")
    return found


def overlap_found(work: StageContext[Any]) -> dict[str, Any]:
    """Those of runs, and those of trainings."""
    part = work.spec.overlap
    lists = {label: _lists(run) for label, run in _runs(work, "overlap.runs").items()}
    met = work.inputs_of("overlap.met")
    relevant = positives(open_collection(work.inputs["dataset"]).all_qrels()) if met else {}
    trained = []
    for label, source in work.inputs_of("overlap.negatives").items():
        negatives = read_negatives(source.folder / NEGATIVES)
        found = ((query_id, ranked.doc_ids) for query_id, ranked in stream_run(met[label].folder / RUN))
        shared = negatives_overlap(negatives, found, relevant, part.depth)
        trained.append({"training": label, **shared.to_json()})
    return {"depth": part.depth, "runs": run_overlaps(lists, part.depth, part.against), "negatives": trained}


def holes_found(work: StageContext[Any]) -> dict[str, Any]:
    """The holes of each run, by the judgements of the split."""
    spec, part = work.spec, work.spec.holes
    options = HoleOptions(part.depth, part.against, part.overlap_depth, part.metrics, spec.relevance_level)
    return holes(_runs(work, "holes.runs"), open_collection(work.inputs["dataset"]).qrels(spec.split), options)


def wins_found(work: StageContext[Any]) -> dict[str, Any]:
    """Query by query, with texts."""
    spec, part = work.spec, work.spec.wins
    collection = open_collection(work.inputs["dataset"])
    queries = collection.queries(spec.split)
    ours, theirs = (read_run(work.inputs[f"wins.{side}"].folder / RUN) for side in ("run", "against"))
    found = wins_of((ours, theirs), collection.qrels(spec.split), part.metric, spec.relevance_level)
    texts = dict(zip(queries.query_ids, queries.texts, strict=True))
    told = to_json(found, texts, lambda doc_ids: texts_of(collection.corpus, doc_ids))
    return {**part.model_dump(mode="json"), **told}


def texts_of(corpus: Corpus, doc_ids: Sequence[str]) -> Mapping[str, str]:
    """The contents of the documents that the corpus has, by id."""
    rows = corpus.rows(doc_ids)
    found = corpus.documents_at(rows[rows >= 0])
    return {document.doc_id: document.contents for document in found}


def _runs(work: StageContext[Any], field: str) -> dict[str, Run]:
    return {label: read_run(source.folder / RUN) for label, source in work.inputs_of(field).items()}


def _lists(run: Run) -> Lists:
    return {query_id: ranked.doc_ids for query_id, ranked in run.items()}
