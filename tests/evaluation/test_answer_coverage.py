"""Answer coverage by hand."""

from pathlib import Path

import numpy as np
import pytest

from hardneg.evaluation.metrics import answer_coverage, answer_cutoffs, parse_metrics
from hardneg.formats.answer_matching import PassageAnswers
from hardneg.formats.corpus import Corpus, write_corpus
from hardneg.formats.runs import Run
from hardneg.records import Document, RankedList, UsageError
from hardneg.runtime import Silent

TEXTS = {"a": "the river Rhine", "b": "in 1901", "c": "nothing", "d": "the Danube, a river"}


@pytest.fixture
def answers(tmp_path: Path) -> PassageAnswers:
    write_corpus((Document(doc_id, text) for doc_id, text in TEXTS.items()), tmp_path, Silent())
    known = {"q1": ("1901",), "q2": ("Rhine", "Danube"), "q3": ("river",), "q4": ("sea",)}
    return PassageAnswers(Corpus.open(tmp_path), known)


def run(**lists: str) -> Run:
    doc_ids = [list(ids) for ids in lists.values()]
    return {q: RankedList(ids, -np.arange(len(ids), dtype=np.float32)) for q, ids in zip(lists, doc_ids, strict=True)}


def test_the_first_passage_with_an_answer_decides(answers: PassageAnswers) -> None:
    found = answer_coverage(run(q2="cbd", q1="dcb", q4="abcd"), answers, ["q1", "q2", "q3", "q4"], [3, 1, 2])
    assert found == {
        "answer@3": {"q1": 1.0, "q2": 1.0, "q3": 0.0, "q4": 0.0},
        "answer@1": {"q1": 0.0, "q2": 0.0, "q3": 0.0, "q4": 0.0},
        "answer@2": {"q1": 0.0, "q2": 0.0, "q3": 0.0, "q4": 0.0},
    }
    found = answer_coverage(run(q1="bd", q3="cad"), answers, ["q1", "q3"], [1, 2, 100])
    assert found == {
        "answer@1": {"q1": 1.0, "q3": 0.0},
        "answer@2": {"q1": 1.0, "q3": 1.0},
        "answer@100": {"q1": 1.0, "q3": 1.0},
    }


def test_a_run_that_has_none_of_the_questions(answers: PassageAnswers) -> None:
    assert answer_coverage(run(other="ab"), answers, ["q1"], [5]) == {"answer@5": {"q1": 0.0}}
    assert answer_coverage(run(q1="zzz"[:1]), answers, ["q1"], [5]) == {"answer@5": {"q1": 0.0}}


def test_names() -> None:
    assert answer_cutoffs(["answer@20", "mrr@10", "answer", "answer@0", "answer@5"]) == {"answer@20": 20, "answer@5": 5}
    with pytest.raises(UsageError, match="'answer': it needs a cutoff and the answers of a dataset"):
        parse_metrics(["answer"])
