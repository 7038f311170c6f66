import numpy as np
import pytest
from hardneg_papers.analyses.projection import Projection, project
from pydantic import ValidationError

from hardneg.analysis.base import System
from hardneg.formats.negatives import write_negatives
from hardneg.records import Hits, Negatives, RankedList, UsageError
from tests.analysis.in_memory import Memory


def around(query, positives, negatives):
    return np.concatenate([np.atleast_2d(part) for part in (query, positives, negatives)]).astype(np.float32)


def test_a_fixed_document_stays_where_it_is_and_the_query_moves_to_its_positive():
    draw = np.random.default_rng(0)
    negatives = draw.normal(0, 0.1, (20, 5)) + np.array([3, 0, 0, 0, 0])
    positives = draw.normal(0, 0.1, (2, 5)) - np.array([3, 0, 0, 0, 0])
    panels = [around(query + 0.01, positives, negatives) for query in (negatives[0], positives[0])]
    before, after = project(panels, 1)
    assert (before[1:] == after[1:]).all() and before.shape == after.shape == (23, 2)
    far, near = (np.linalg.norm(side[0] - side[1:3].mean(0)) for side in (before, after))
    assert near < far


def test_the_seed_decides_and_few_points_are_taken_as_they_are():
    draw = np.random.default_rng(0)
    sides = [around(draw.normal(size=4), draw.normal(size=(1, 4)), draw.normal(size=(6, 4))) for _ in range(2)]
    first, second = project(sides, seed=3), project(sides, seed=3)
    assert (first[1] == second[1]).all()
    tiny = around([1, 2, 3], [[4, 5, 6]], np.empty((0, 3)))
    assert project([tiny, tiny], 0)[0].tolist() == [[1, 2], [4, 5]]
    with pytest.raises(UsageError, match="dimension 3 and 4;"):
        project([tiny, sides[0]], 0)


PLACES = {"r": (1, 0), "a": (0, 2), "b": (3, 3), "c": (4, 0)}
DOCUMENTS = {name: np.array(place, np.float32) for name, place in PLACES.items()}
QUERIES = {"q1": "one", "q2": "two", "q3": "three", "q4": "four", "q5": "five"}
QRELS = {"q1": {"r": 1}, "q2": {"c": 1}, "q3": {"a": 1, "x": 0}}


class Searcher:
    def search(self, queries, depth):
        scores = queries @ np.stack(list(DOCUMENTS.values())).T
        rows = np.argsort(-scores, axis=1)[:, :depth]
        return Hits(rows, np.take_along_axis(scores, rows, 1))

    def vectors(self, rows):
        return np.stack(list(DOCUMENTS.values()))[rows]


class Plane(Memory):
    """An encoder with vectors of two numbers, which encodes every query as (2, 1)."""

    def system(self, index, model):
        names = list(DOCUMENTS)

        def rows(doc_ids):
            return np.array([names.index(each) if each in names else -1 for each in doc_ids], np.int64)

        return System(Searcher(), names, rows, lambda texts: np.tile(np.float32([2, 1]), (len(texts), 1)))

    def queries(self, split):
        return QUERIES


def ranked(**lists):
    return {name: RankedList(ids, np.arange(len(ids), 0, -1, dtype=np.float32)) for name, ids in lists.items()}


RUNS = {
    "dense": ranked(q1=["r", "a", "b"], q2=["a", "b", "c"], q3=["a"]),
    "sparse": ranked(q1=["b", "r"], q2=["c"], q3=["a"]),
}


def measured(options, qrels=QRELS):
    analysis = Projection.model_validate({"indexes": {"ANCE": "i"}, **options})
    return analysis, analysis.measure(Plane(analysis, RUNS, qrels))


def test_documents_of_several_groups_keep_their_rows_and_scores(tmp_path):
    path = tmp_path / "n.arrow"
    write_negatives(path, [Negatives("q2", ["c"], ["a", "b", "r"], np.zeros(3, np.float32))])
    asked = {"runs": {"DR Neg": "dense"}, "mined": {"BM25 Neg": str(path)}, "negatives": 2}
    analysis, (found,) = measured(asked)
    assert found["query_id"] == "q2", "the first that the negatives have"
    assert found["documents"] == {"relevant": ["c"], "DR Neg": ["a", "b"], "BM25 Neg": ["a", "b"]}
    points = found["points"]["ANCE"]
    assert points["documents"]["DR Neg"] == points["documents"]["BM25 Neg"] and len(points["query"]) == 2
    # (2, 1) with c = (4, 0); with a = (0, 2) and b = (3, 3)
    assert points["scores"] == {"relevant": 8.0, "DR Neg": (2 + 9) / 2, "BM25 Neg": 5.5}
    (row,) = analysis.table([found]).rows
    assert row[:2] == ["q2 two", "ANCE"] and row[4:] == ["1 at 8.000", "2 at 5.500", "2 at 5.500"]
    analysis.draw([found], [tmp_path / "p.svg"])
    text = (tmp_path / "p.svg").read_text()
    assert all(f">{word}<" in text for word in ("DR Neg", "BM25 Neg", "relevant", "query", "two"))


def test_queries_that_are_won_and_lost_are_found_by_the_metric(tmp_path):
    asked = {"runs": {"ANCE": "dense", "BM25": "sparse"}, "wins": 1, "metric": "mrr@10", "negatives": 1}
    analysis, found = measured(asked)
    assert [(each["query_id"], each["note"]) for each in found] == [
        ("q1", "won, mrr@10 1.000 against 0.500"),
        ("q2", "lost, mrr@10 0.333 against 1.000"),
    ]
    assert found[0]["documents"] == {"relevant": ["r"], "ANCE": ["r"], "BM25": ["b"]}
    assert "q2 (lost, mrr@10 0.333 against 1.000)" in analysis.explain(found)
    analysis.draw(found, [tmp_path / "p.svg"])
    assert ">won, mrr@10 1.000 against 0.500<" in (tmp_path / "p.svg").read_text()
    with pytest.raises(UsageError, match="wins: the runs have equal mrr@10"):
        measured({**asked, "runs": {"a": "dense", "b": "dense"}})


def test_without_other_groups_the_best_that_are_not_relevant_stand_for_negatives():
    _, (found,) = measured({"indexes": {"before": "i", "after": "j"}, "query": "q1", "negatives": 2})
    # (2, 1) with b, c, a: 9, 8, 2; r is relevant
    assert found["documents"] == {"relevant": ["r"], "negatives": ["b", "c"]}
    assert list(found["points"]) == ["before", "after"]


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"query": ["q9", "q4"]}, "'q9' is unknown; query 'q4' has no positive; choose another"),
        ({"query": "q3", "runs": {"far": "far"}}, "missing 1 of the documents, such as z"),
        ({"query": "q5"}, "the first index has no positive of query 'q5'"),
    ],
)
def test_what_cannot_be_shown_is_told(options, told):
    analysis = Projection.model_validate({"indexes": {"a": "i"}, "runs": {"d": "dense"}, **options})
    runs, qrels = {**RUNS, "far": ranked(q3=["z"])}, {**QRELS, "q4": {"a": 0}, "q5": {"z": 1}}
    with pytest.raises(UsageError, match=told):
        analysis.measure(Plane(analysis, runs, qrels))


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"indexes": {"a": "i"}}, "two entries, before and after, unless runs or mined"),
        ({"indexes": {"a": "i"}, "runs": {"relevant": "r"}}, "relevant: used for two groups"),
        ({"indexes": {"a": "i"}, "runs": {"r": "r"}, "wins": 2}, "wins needs two runs"),
        ({"indexes": {"a": "i"}, "runs": {"r": "r"}, "models": {"b": "m"}}, "no index is labelled b"),
    ],
)
def test_options_that_do_not_fit_are_refused(options, told):
    with pytest.raises(ValidationError, match=told):
        Projection.model_validate(options)
