"""A run that someone else made, brought into the order of a collection's queries, to be taken as any other."""

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from hardneg.data.collection import StoredCollection
from hardneg.data.corpus import Corpus
from hardneg.data.runs import Run, read_run, strictly_decreasing, write_run
from hardneg.errors import DataError
from hardneg.types import RankedList


def rewrite_run(path: Path, collection: StoredCollection, split: str, target: Path) -> dict[str, int]:
    """Writes the lists of a split's queries in their order; returns what of the run is not in the collection.

    Documents that the corpus lacks are left out; ties keep the run's order.

    Raises:
        DataError: the run has a mistake, or none of its queries is in the split.
    """
    run, facts = read_run(path), Counter[str]()
    write_run(target, _entries(run, collection.queries(split).query_ids, collection.corpus, facts))
    if not facts["queries in the run"]:
        raise DataError(f"{path}: none of its queries is in split {split}; name the split it is of")
    return {name: count for name, count in facts.items() if count}


def _entries(
    run: Run, query_ids: Sequence[str], corpus: Corpus, facts: Counter[str]
) -> Iterator[tuple[str, RankedList]]:
    facts["run queries that are not in the split"] = len(run.keys() - set(query_ids))
    for query_id in query_ids:
        if (ranked := run.get(query_id)) is None:
            facts["queries that are not in the run"] += 1
            continue
        facts["queries in the run"] += 1
        known = corpus.rows(ranked.doc_ids) >= 0
        facts["run documents that are not in the corpus"] += int((~known).sum())
        doc_ids = [doc_id for doc_id, there in zip(ranked.doc_ids, known.tolist(), strict=True) if there]
        yield query_id, RankedList(doc_ids, strictly_decreasing(ranked.scores[known]))
