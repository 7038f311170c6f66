"""What a recipe's filters of negatives drop, and how well they find the positives that its dataset withholds."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from hardneg.analysis.denoising import doc_ids_of, example_json, examples, shares, to_json
from hardneg.analysis.planted import Asked, planted
from hardneg.data.collection import StoredCollection
from hardneg.data.corpus import candidates
from hardneg.data.qrels import positives
from hardneg.data.runs import lists_in_order
from hardneg.layout import DROPPED, NEGATIVES, RUN
from hardneg.stages.analyze_runs import texts_of
from hardneg.stages.context import StageContext
from hardneg.stages.inputs import open_collection


def denoising_found(work: StageContext[Any]) -> dict[str, Any]:
    """Shares by rank of each filter, and examples with texts."""
    collection, found, shown = open_collection(work.inputs["dataset"]), {}, []
    for label, source in work.inputs_of("denoising.negatives").items():
        found[label] = to_json(shares(source.folder / DROPPED))
        cases = examples(source.folder / DROPPED, source.folder / NEGATIVES, work.spec.denoising.examples)
        texts, asked = texts_of(collection.corpus, doc_ids_of(cases)), {case.query_id for case in cases}
        queries = {i: text for split in collection.splits for i, text in collection.queries(split) if i in asked}
        shown += [{"filter": label, **example_json(case, queries, texts)} for case in cases]
    return {"filters": found, "examples": shown}


def planted_found(work: StageContext[Any]) -> dict[str, Any]:
    """Recall, precision and what is kept, by filter and threshold."""
    part = work.spec.planted
    collection = open_collection(work.inputs["dataset"])
    runs = {"": work.inputs["planted.run"], **work.inputs_of("planted.scores")}
    paths = {label: source.folder / RUN for label, source in runs.items()}
    labels = list(part.scores) or [""]
    found = planted(_asked(collection, part.split, paths), labels, part.thresholds, part.depth)
    if not part.scores:
        found["scores"] = {part.run: found["scores"][""]}
    return {"split": part.split, **found}


def _asked(collection: StoredCollection, split: str, paths: Mapping[str, Path]) -> Iterator[Asked]:
    """The queries that have known positives, with their lists; a copy of a hidden positive is hidden too."""
    corpus, query_ids = collection.corpus, collection.queries(split).query_ids
    known, hidden = positives(collection.all_qrels()), positives(collection.withheld())
    streams = [lists_in_order(path, query_ids) for path in paths.values()]
    for query_id, *lists in zip(query_ids, *streams, strict=True):
        if query_id in known:
            copies = corpus.copies(corpus.rows(hidden.get(query_id, [])))
            hits = dict(zip(paths, lists, strict=True))
            yield candidates(corpus, query_id, known[query_id], hits), frozenset(corpus.ids(copies))
