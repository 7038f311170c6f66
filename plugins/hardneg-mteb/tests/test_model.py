"""Tests of the model for mteb on small tasks, with a dense model and with BM25."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sentence_transformers
from hardneg_mteb.model import TaskSearcher, listed_rows, mteb_model
from hardneg_mteb.system import task_texts
from made_tasks import animals, evaluated
from tiny import BY_FAMILY, tiny_encoder, tiny_multi_vector, tiny_sparse_encoder, tiny_static

import hardneg
from hardneg.indexes.lucene import Bm25
from hardneg.records import DataError, ModelError, RecipeError, UsageError
from hardneg.runtime import Silent

KINDS: dict[str, tuple[Callable[[Path], Path], Any]] = {
    "dense": (tiny_encoder, sentence_transformers.SentenceTransformer),
    "static": (tiny_static, sentence_transformers.SentenceTransformer),
    "sparse": (tiny_sparse_encoder, sentence_transformers.SparseEncoder),
    "multi-vector": (tiny_multi_vector, sentence_transformers.MultiVectorEncoder),
}
KINDS = {kind: each for kind, each in KINDS.items() if kind not in ("multi-vector", "sparse") or kind in BY_FAMILY}


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    root = tmp_path_factory.mktemp("models")
    return {kind: make(root / kind) for kind, (make, _) in KINDS.items()}


def indexed(kind: str, folders: dict[str, Path], store: Path, task: Any, **given: Any) -> TaskSearcher:
    """Return a model that has indexed the corpus of a task."""
    ours = mteb_model(folders[kind], store=store, device="cpu", **given)
    ours.index(task.dataset["default"]["test"]["corpus"], task_metadata=task.metadata)
    return ours


def ran(searcher: TaskSearcher) -> tuple[str, ...]:
    """Return the steps that were run instead of being taken from the store."""
    ran: tuple[str, ...] = searcher._outcome.ran
    return ran


def lists_of(searcher: TaskSearcher, task: Any, **given: Any) -> dict[str, dict[str, float]]:
    queries = task.dataset["default"]["test"]["queries"]
    return searcher.search(queries, task_metadata=task.metadata, **{"top_k": 1000, **given})


@pytest.mark.parametrize("kind", KINDS)
def test_scores_are_those_of_sentence_transformers(kind: str, folders: dict[str, Path], tmp_path: Path) -> None:
    ours = mteb_model(folders[kind], store=tmp_path / "store", device="cpu")
    theirs = KINDS[kind][1](str(folders[kind]), device="cpu")
    (found, lists), (wanted, their_lists) = (
        evaluated(model, animals(), tmp_path / name) for name, model in (("ours", ours), ("theirs", theirs))
    )
    assert lists.keys() == their_lists.keys()
    for query_id, scores in their_lists.items():
        assert lists[query_id] == pytest.approx(scores, rel=1e-5, abs=1e-6)
    assert found == pytest.approx(wanted, abs=1e-4, nan_ok=True)


def test_vectors_are_in_the_store_for_the_next_task(folders: dict[str, Path], tmp_path: Path) -> None:
    assert ran(indexed("static", folders, tmp_path, animals())) == ("dataset", "vectors")
    assert ran(indexed("static", folders, tmp_path, animals(name="AnotherTask"))) == ()


def test_the_public_name_is_a_search_protocol(folders: dict[str, Path], tmp_path: Path) -> None:
    from mteb.models import EncoderProtocol, SearchProtocol

    made = hardneg.mteb_model(folders["dense"], store=tmp_path)
    assert isinstance(made, SearchProtocol)
    assert not isinstance(made, EncoderProtocol)


@pytest.mark.parametrize(
    ("kind", "form"),
    [(kind, {"multi-vector": "late-interaction"}.get(kind, kind)) for kind in KINDS if kind != "static"],
)
def test_results_are_filed_by_content(kind: str, form: str, folders: dict[str, Path], tmp_path: Path) -> None:
    meta = mteb_model(folders[kind], store=tmp_path).mteb_model_meta
    assert meta.name == f"local/{kind}"
    assert meta.model_type == [form]
    assert meta.experiment_name is None
    assert len(meta.revision) == 32
    other = tiny_encoder(tmp_path / kind, seed=1)
    assert mteb_model(other, store=tmp_path).mteb_model_meta.revision != meta.revision


def test_what_is_set_makes_an_experiment(folders: dict[str, Path], tmp_path: Path) -> None:
    set_so = mteb_model(folders["dense"], index={"name": "hnsw", "m": 8}, settings=["model.query_length=9"])
    told = {"index": "hnsw", "m": 8, "model.query_length": "9"}
    assert set_so.mteb_model_meta.experiment_kwargs == told
    assert set_so.mteb_model_meta.revision == mteb_model(folders["dense"]).mteb_model_meta.revision


def test_an_index_of_the_vectors_is_searched(folders: dict[str, Path], tmp_path: Path) -> None:
    graph = indexed("static", folders, tmp_path, animals(), index="hnsw")
    exact = indexed("static", folders, tmp_path, animals())
    assert (ran(graph), ran(exact)) == (("dataset", "vectors", "index"), ())
    first = [[*lists] for each in (graph, exact) for lists in lists_of(each, animals(), top_k=1).values()]
    assert first[:12] == first[12:]


def test_top_k_cuts_the_lists(folders: dict[str, Path], tmp_path: Path) -> None:
    found = lists_of(indexed("static", folders, tmp_path, animals()), animals(), top_k=7)
    assert [len(lists) for lists in found.values()] == [7] * 12
    assert all(np.diff(list(lists.values())).max() <= 0 for lists in found.values())


def test_mistakes_have_one_line(folders: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ModelError, match="no such folder"):
        mteb_model(tmp_path / "nothing")
    with pytest.raises(RecipeError, match="did you mean 'hnsw'"):
        mteb_model(folders["dense"], index="hsnw")
    for value in (None, object(), 3, ""):
        with pytest.raises(ModelError, match="mteb_model: model must be a folder, a hub id or an index of texts, not"):
            mteb_model(value)
    for value in (3, ["hnsw"], {"m": 8}, {"name": 3}):
        with pytest.raises(UsageError, match="index must be a name, or a dict with a name and options, not"):
            mteb_model(folders["dense"], index=value)
    with pytest.raises(UsageError, match="bm25 is already an index; remove index"):
        mteb_model("bm25", index="hnsw")
    with pytest.raises(UsageError, match="call index first"):
        mteb_model(folders["dense"]).search(None, task_metadata=None, top_k=1)


def test_predictions_make_a_task_of_reranking(folders: dict[str, Path], tmp_path: Path) -> None:
    ours = mteb_model(folders["static"], store=tmp_path / "store")
    lists = evaluated(ours, animals(), tmp_path / "first")[1]
    task = animals().convert_to_reranking(tmp_path / "first", top_k=5)
    again = evaluated(ours, task, tmp_path / "second")[1]
    for query_id, found in again.items():
        best = sorted(lists[query_id], key=lambda doc_id: lists[query_id][doc_id], reverse=True)[:5]
        assert found == {doc_id: pytest.approx(lists[query_id][doc_id], abs=1e-6) for doc_id in best}


pytestmark = pytest.mark.usefixtures("started_java")


def test_lists_are_those_of_the_index(tmp_path):
    task, data = animals(), animals().dataset["default"]["test"]
    ours = mteb_model("bm25", settings=["stages.index.backend.k1=1.7"], store=tmp_path / "store")
    assert (ours.mteb_model_meta.name, ours.mteb_model_meta.model_type) == ("hardneg/bm25", ["sparse"])
    lists = evaluated(ours, task, tmp_path)[1]
    corpus = task_texts(data["corpus"], task.metadata, "document")
    Bm25().build(((f"d{row}", text) for row, text in enumerate(corpus)), tmp_path / "index", Silent())
    rows = {f"d{row}": row for row in range(len(corpus))}
    searcher = Bm25(1.7).open(tmp_path / "index", lambda doc_ids: np.array([rows[each] for each in doc_ids], np.int64))
    hits = searcher.search(list(data["queries"]["text"]), 60)
    for query, (found, scores) in enumerate(zip(hits.rows, hits.scores, strict=True)):
        wanted = {f"d{row}": score for row, score in zip(found, scores, strict=True) if row >= 0}
        assert lists[f"q{query}"] == pytest.approx(wanted, abs=1e-4)


def test_listed_documents_are_not_ranked(tmp_path):
    task = animals(type="Reranking", top_ranked={"q0": ["d0"]})
    ours, data = mteb_model("bm25", store=tmp_path), task.dataset["default"]["test"]
    ours.index(data["corpus"], task_metadata=task.metadata)
    with pytest.raises(UsageError, match="cannot rerank documents; use a model"):
        ours.search(data["queries"], task_metadata=task.metadata, top_k=5, top_ranked={})


def test_a_listed_document_must_be_in_the_corpus():
    assert listed_rows(["q", "r"], {"q": ["b", "a", "b"]}, {"a": 0, "b": 1}).tolist() == [[1, 0], [-1, -1]]
    with pytest.raises(DataError, match="document 'c'"):
        listed_rows(["q"], {"q": ["c"]}, {"a": 0})
