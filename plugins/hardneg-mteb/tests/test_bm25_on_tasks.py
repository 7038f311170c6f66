"""BM25 as a system of mteb's tasks: the index that hardneg's other commands search."""

import numpy as np
import pytest
from hardneg_mteb.model import listed_rows, mteb_model
from hardneg_mteb.system import task_texts
from made_tasks import animals, evaluated

from hardneg.indexes.lucene import Bm25
from hardneg.records import DataError, UsageError
from hardneg.runtime import Silent

pytestmark = pytest.mark.usefixtures("started_java")


def test_lists_are_those_of_the_index(tmp_path):
    task = animals()
    ours = mteb_model("bm25", store=tmp_path / "store")
    assert (ours.mteb_model_meta.name, ours.mteb_model_meta.model_type) == ("hardneg/bm25", ["sparse"])
    lists = evaluated(ours, task, tmp_path)[1]
    data = animals().dataset["default"]["test"]
    corpus = task_texts(data["corpus"], task.metadata, "document")
    Bm25().build(((f"d{row}", text) for row, text in enumerate(corpus)), tmp_path / "index", Silent())
    rows = {f"d{row}": row for row in range(len(corpus))}
    searcher = Bm25().open(tmp_path / "index", lambda doc_ids: np.array([rows[each] for each in doc_ids], np.int64))
    hits = searcher.search(list(data["queries"]["text"]), 60)
    for query, (found, scores) in enumerate(zip(hits.rows, hits.scores, strict=True)):
        wanted = {f"d{row}": score for row, score in zip(found, scores, strict=True) if row >= 0}
        assert lists[f"q{query}"] == pytest.approx(wanted, abs=1e-4)


def test_listed_documents_are_not_ranked(tmp_path):
    task = animals(type="Reranking", top_ranked={"q0": ["d0"]})
    ours, data = mteb_model("bm25", store=tmp_path), task.dataset["default"]["test"]
    ours.index(data["corpus"], task_metadata=task.metadata)
    with pytest.raises(UsageError, match="ranks no listed documents: name a model"):
        ours.search(data["queries"], task_metadata=task.metadata, top_k=5, top_ranked={})


def test_a_listed_document_must_be_in_the_corpus():
    assert listed_rows(["q", "r"], {"q": ["b", "a", "b"]}, {"a": 0, "b": 1}).tolist() == [[1, 0], [-1, -1]]
    with pytest.raises(DataError, match="document 'c'"):
        listed_rows(["q"], {"q": ["c"]}, {"a": 0})
