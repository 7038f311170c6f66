"""What must be known beside the figures, by hand."""

import pytest

from hardneg.evaluation.metrics import cut_below, cutoff, judgement_notes, run_notes
from tests.run_lists import falling

QRELS = {"q1": {"a": 2, "b": 1}, "q2": {"a": 1}, "q3": {"c": 0}}


@pytest.mark.parametrize(
    ("lists", "documents", "notes"),
    [
        ({"q1": "ab", "q2": "ab", "q3": "ab"}, None, ["r: no list has more than 2 documents: recall@3 is cut there"]),
        ({"q1": "ab", "q2": "ab", "q3": "ab"}, 2, []),
        ({"q1": "ab", "q2": "abc", "q3": "a"}, None, []),
        ({"q1": "abc"}, None, ["r: 2 judged queries are not in the run and score 0"]),
        ({"q1": "abc", "q2": "a", "q3": "a", "q9": "abcd"}, None, ["r: 1 query has no judgement and is left out"]),
        ({"q9": "abcd"}, None, ["r: no query of the run is judged; are these the right judgements?"]),
    ],
)
def test_of_a_run(lists: dict[str, str], documents: int | None, notes: list[str]) -> None:
    run = falling({query_id: list(doc_ids) for query_id, doc_ids in lists.items()})
    assert run_notes("r", run, QRELS, ["mrr@2", "recall@3", "map"], documents) == notes


def test_of_a_level_that_judgements_do_not_reach() -> None:
    asked = ["mrr@10", "ndcg@10", "recall@100"]
    told = "1 query has no document of grade 1 or higher and scores 0 by mrr@10 and recall@100"
    assert [*judgement_notes(QRELS, asked, 1)] == [told]
    assert [*judgement_notes(QRELS, asked, 2)] == [
        "2 queries have no document of grade 2 or higher and score 0 by mrr@10 and recall@100"
    ]
    assert [*judgement_notes(QRELS, asked, 3)] == [
        "relevance level 3: no judgement reaches it, the highest is 2, so all is 0 by mrr@10 and recall@100"
    ]
    assert [*judgement_notes(QRELS, ["ndcg@10"], 3)] == []


def test_where_metrics_are_cut() -> None:
    assert cut_below(["recall@1000", "answer@100", "mrr@10", "map"], 99) == ["recall@1000", "answer@100"]
    assert cut_below(["recall@1000"], None) == []
    assert (cutoff("map"), cutoff("answer@20")) == (0, 20)
