"""Pseudo-labels: which document becomes the positive, which ones negatives, and who gets neither."""

from collections import Counter

import numpy as np
import pytest

from hardneg.formats.corpus import Corpus, write_corpus
from hardneg.formats.runs import stream_run, write_run
from hardneg.records.types import Document, RankedList
from hardneg.runtime.progress import Silent
from hardneg.stages.mine import NO_NEGATIVE, NO_POSITIVE, pseudo_labels, sure_positive
from tests.run_lists import ranked


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    """Documents 1 to 60 and 3124; 60 is a copy of 1."""
    folder = tmp_path_factory.mktemp("corpus")
    names = [*range(1, 61), 3124]
    write_corpus([Document(str(i), f"text {1 if i == 60 else i}") for i in names], folder, Silent())
    return Corpus.open(folder)


def lists(order: list[str], scores: dict[str, float]) -> dict[str, RankedList]:
    """A list in the given order, and the run of a scorer, best first."""
    best_first = sorted(scores, key=lambda doc_id: (-scores[doc_id], doc_id))
    listed = ranked({doc_id: 1 - 0.01 * place for place, doc_id in enumerate(order)})
    return {"run": listed, "scores": ranked({doc_id: scores[doc_id] for doc_id in best_first})}


def test_the_best_document_and_the_first_sure_negatives(corpus):
    order = ["5", "4", "3", "2", "7", "6", "8", "9"]
    scores = dict(zip(order, [0.05, 0.95, 0.1, 0.099, 0.97, 0.0, 0.02, 0.03], strict=True))
    [item] = pseudo_labels([("q", lists(order, scores))], corpus, Counter(), count=3)
    assert (item.positives, item.negatives) == (["7"], ["5", "2", "6"])
    assert item.scores.tolist() == pytest.approx([1.0, 0.97, 0.95])


def test_thresholds_are_strict(corpus):
    left_out: Counter[str] = Counter()
    just = {"1": float(np.float32(0.9)), "2": 0.0}
    none = {"1": 0.95, "2": float(np.float32(0.1))}
    limits = {"above": float(np.float32(0.9)), "below": float(np.float32(0.1))}
    queries = [("a", lists(["1", "2"], just)), ("b", lists(["1", "2"], none)), ("c", lists([], {}))]
    assert not list(pseudo_labels(queries, corpus, left_out, **limits))
    assert left_out == {NO_POSITIVE: 2, NO_NEGATIVE: 1}


def test_only_the_top_is_looked_at(corpus):
    order = [str(i) for i in range(1, 8)]
    scores = dict(zip(order, [0.5, 0.92, 0.01, 0.5, 0.99, 0.0, 0.0], strict=True))
    [item] = pseudo_labels([("q", lists(order, scores))], corpus, Counter(), depth=4)
    assert (item.positives, item.negatives) == (["2"], ["3"])


def test_of_equal_ones_the_best_ranked_is_the_positive(corpus, tmp_path):
    """A written run tells equal scores apart by the smallest steps, in the order of the ids."""
    path = tmp_path / "run.trec.gz"
    scores = {"1": 0.98, "2": 0.98, "3": 0.98, "4": 0.9799, "5": 0.01}
    write_run(path, [("q", ranked(scores))])
    [(_, found)] = stream_run(path)
    assert found.doc_ids == ["1", "2", "3", "4", "5"] and len(set(found.scores.tolist())) == 5
    hits = {"run": lists(["4", "3", "2", "5", "1"], scores)["run"], "scores": found}
    assert sure_positive(hits, 0.9, 5) == "3"


def test_a_document_without_a_score_is_nothing(corpus):
    hits = lists(["9", "1", "8", "2"], {"1": 0.95, "2": 0.05})
    [item] = pseudo_labels([("q", hits)], corpus, Counter())
    assert (item.positives, item.negatives, item.dropped) == (["1"], ["2"], {"unscored": 2, "positive": 1})


def test_ids_are_compared_whole_and_copies_of_the_positive_are_no_negatives(corpus):
    order = ["12", "3124", "60", "1"]
    sure = lists(order, {"12": 0.05, "3124": 0.99, "60": 0.5, "1": 0.4})
    [item] = pseudo_labels([("q", sure)], corpus, Counter())
    assert (item.positives, item.negatives) == (["3124"], ["12"])
    sure = lists(order, {"12": 0.05, "3124": 0.5, "60": 0.01, "1": 0.99})
    [item] = pseudo_labels([("q", sure)], corpus, Counter())
    assert (item.positives, item.negatives) == (["1"], ["12"])
