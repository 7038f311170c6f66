"""Checks of texts: shared queries, texts cut, prompts; the tiny model has a token for each letter."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from handmade import HandmadeRun, collect, handmade, made
from hardneg_advice.diagnose import cut_texts, shared_queries, training_sets, unused_prompts


def with_model(run: HandmadeRun, tiny_model: Path, **values: Any) -> HandmadeRun:
    """The same with the model that stage `star` made, and its own values."""
    shutil.copytree(tiny_model, made(run, "star") / "model")
    spec = {"similarity": "cosine", "query_prompt": "", "document_prompt": "", "query_length": 4, "document_length": 6}
    (made(run, "star") / "model" / "hardneg.json").write_text(json.dumps({**spec, **values}))
    return run


@pytest.mark.parametrize(("test", "count", "state"), [("Old\t RIVER ", 1, "suspect"), ("old rivers", 0, "fine")])
def test_queries_that_differ_from_a_training_query_in_case_and_white_space_alone_are_counted(
    tmp_path: Path, tiny_model: Path, test: str, count: int, state: str
) -> None:
    run = handmade(tmp_path, tiny_model)
    collect(run, ["a"], {"train": ["old river", "new bridge"], "dev": ["a garden"], "test": [test, "a falcon"]})
    result = shared_queries(run, "dataset")
    assert result.state == state and result.figures == {"dev": 0, "test": count}
    assert f"{count} of 2 of test" in result.sentence


def test_a_collection_without_training_queries_shares_none(tmp_path: Path, tiny_model: Path) -> None:
    run = handmade(tmp_path, tiny_model)
    collect(run, ["a"], {"test": ["a garden"]})
    assert shared_queries(run, "dataset").state == "unknown"


def test_the_queries_of_a_training_on_another_collection_are_compared_with_those_of_the_dataset(
    tmp_path: Path, tiny_model: Path
) -> None:
    written = {"stage": "write-queries", "writers": "heading"}
    options = {"negatives_per_query": 0, "max_steps": 2}
    star = {"stage": "train", "dataset": "written", "loss": "star", "options": options}
    run = with_model(handmade(tmp_path, tiny_model, written=written, star=star), tiny_model)
    collect(run, ["a"], {"test": ["old river", "a garden"]})
    collect(run, ["a", "b"], {"train": ["Old river", "a b c d"], "test": ["a garden"]}, "written")
    assert training_sets(run) == ["written"]
    assert shared_queries(run, "written").figures == {"test": 1}
    assert [cut_texts(run, side).figures["texts"] for side in ("query", "document")] == [2, 2]
    scores = {"stage": "evaluate", "runs": {"A": "run"}, "metrics": ["mrr@10"], "dataset": "written"}
    (tmp_path / "own").mkdir()
    index = {"stage": "encode", "model": "start", "dataset": "written"}
    stages = {"index": index, "run": {"stage": "search", "index": "index", "dataset": "written"}, "scores": scores}
    run = with_model(handmade(tmp_path / "own", tiny_model, written=written, star=star, **stages), tiny_model)
    collect(run, ["a"], {"train": ["A river"], "dev": ["the  RIVER"], "test": ["a RIVER"]}, "written")
    assert shared_queries(run, "written").figures == {"dev": 0, "test": 1}  # of what is measured by


def test_a_split_without_queries_is_not_counted(tmp_path: Path, tiny_model: Path) -> None:
    run = with_model(handmade(tmp_path, tiny_model), tiny_model)
    collect(run, ["a"], {"train": [], "test": ["a"]})
    assert cut_texts(run, "query").state == "unknown"


@pytest.mark.parametrize(("length", "share", "state"), [(6, 2 / 3, "suspect"), (7, 1 / 3, "fine"), (8, 0.0, "fine")])
def test_documents_are_cut_that_have_more_tokens_than_are_read(
    tmp_path: Path, tiny_model: Path, length: int, share: float, state: str
) -> None:
    """Four, seven and eight tokens with the two special ones."""
    run = with_model(handmade(tmp_path, tiny_model), tiny_model, document_length=length)
    collect(run, ["a b", "a b c d e", "a b c d e f"], {"train": ["a"]})
    result = cut_texts(run, "document")
    assert result.state == state and result.figures["median"] == 7.0
    assert result.figures["share"] == pytest.approx(share)


def test_a_prompt_counts_among_the_tokens_of_a_query(tmp_path: Path, tiny_model: Path) -> None:
    run = with_model(handmade(tmp_path, tiny_model), tiny_model, query_prompt="x y ")
    collect(run, ["a"], {"train": ["a b"]})
    result = cut_texts(run, "query")
    assert result.state == "suspect" and result.figures == {"share": 1.0, "texts": 1, "length": 4, "median": 6.0}


def test_documents_in_segments_are_not_cut(tmp_path: Path, tiny_model: Path) -> None:
    segments = {"length": 8, "stride": 4, "count": 3}
    run = handmade(tmp_path, tiny_model, **{"start-index": {"stage": "encode", "segments": segments}})
    assert cut_texts(run, "document").state == "fine"


def prompted(folder: Path, tiny_model: Path) -> Path:
    shutil.copytree(tiny_model, folder)
    path = folder / "config_sentence_transformers.json"
    known = json.loads(path.read_text()) if path.exists() else {}
    path.write_text(json.dumps({**known, "prompts": {"query": "find: ", "document": ""}}))
    return folder


@pytest.mark.parametrize(
    ("settings", "trained", "state"),
    [({}, "find: ", "fine"), ({"query_prompt": ""}, "", "suspect"), ({}, "seek: ", "suspect")],
)
def test_prompts_that_are_declared_and_not_used_or_changed_are_reported(
    tmp_path: Path, tiny_model: Path, settings: dict[str, str], trained: str, state: str
) -> None:
    model = prompted(tmp_path / "prompted", tiny_model)
    run = with_model(handmade(tmp_path, model, settings), tiny_model, query_prompt=trained)
    result = unused_prompts(run, "")
    assert result.state == state, result.sentence
    words = "'find: ' for queries" if state == "fine" else "query" if settings else "'seek: '"
    assert words in result.sentence


def test_a_model_without_prompts_is_fine(tmp_path: Path, tiny_model: Path) -> None:
    result = unused_prompts(with_model(handmade(tmp_path, tiny_model), tiny_model), "")
    assert result.state == "fine" and "declares no prompts" in result.sentence


def test_each_collection_of_a_training_is_compared_with_its_own_splits(tmp_path: Path, tiny_model: Path) -> None:
    mined = {"stage": "mine", "miner": "random"}
    other = {"stage": "dataset", "loader": "hf:mteb/scifact"}
    both = {"stage": "train", "loss": "star", "datasets": {"a": "static", "b": "more"}, "options": {"max_steps": 2}}
    run = handmade(tmp_path, tiny_model, other=other, more={**mined, "dataset": "other"}, star=both)
    collect(run, ["a"], {"train": ["old river"], "test": ["a garden", "a falcon"]})
    collect(run, ["a"], {"train": ["new bridge", "a garden"], "test": ["new  bridge"]}, "other")
    assert training_sets(run) == ["dataset", "other"]
    assert shared_queries(run, "dataset").figures == {"test": 0}
    assert shared_queries(run, "other").figures == {"test": 1}
