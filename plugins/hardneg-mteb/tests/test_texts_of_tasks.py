"""Tests of the texts that a model gets from a task, with titles, instructions and prompts, and of reranking tasks."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hardneg_mteb.model import mteb_model
from hardneg_mteb.system import TaskSystem, TaskTexts, task_texts
from made_tasks import MadeTask, animals, evaluated, made_task
from sentence_transformers import SentenceTransformer
from tiny import tiny_encoder, tiny_static

from hardneg.encoders.spec import PromptName

ROWS = [{"id": "a", "text": " one two "}, {"id": "b", "text": "three"}]


@pytest.fixture(scope="module")
def static(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_static(tmp_path_factory.mktemp("static") / "model")


def both(folder: Path, task: Any, tmp_path: Path, **given: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the ranked lists of one model from hardneg's search and from mteb's own."""
    ours = mteb_model(folder, store=tmp_path / "store", device="cpu", **given)
    theirs = SentenceTransformer(str(folder), device="cpu")
    return evaluated(ours, task, tmp_path / "ours")[1], evaluated(theirs, task, tmp_path / "theirs")[1]


def assert_equal(found: Mapping[str, Any], wanted: Mapping[str, Any]) -> None:
    assert found.keys() == wanted.keys()
    for query_id, lists in wanted.items():
        assert found[query_id] == pytest.approx(lists, abs=1e-5)


def read(task: MadeTask, part: str, kind: Any) -> list[str]:
    return list(task_texts(task.dataset["default"]["test"][part], task.metadata, kind))


def test_titles_stand_before_texts() -> None:
    corpus = [{**row, "title": title} for row, title in zip(ROWS, ("Title", ""), strict=True)]
    assert read(made_task(corpus, ROWS, {}), "corpus", "document") == ["Title  one two", "three"]


def test_instructions_stand_after_queries() -> None:
    queries = [{**row, "instruction": told} for row, told in zip(ROWS, ("now", "then"), strict=True)]
    assert read(made_task(ROWS, queries, {}), "queries", "query") == [" one two  now", "three then"]


def test_a_conversation_is_one_text() -> None:
    turns = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "yes"}]
    assert read(made_task(ROWS, [{"id": "q", "text": turns}], {}), "queries", "query") == ["user: hi; assistant: yes"]


def test_equal_texts_have_equal_keys() -> None:
    assert TaskTexts(["ab", "c"]).fingerprint() == TaskTexts(["ab", "c"]).fingerprint()
    assert TaskTexts(["ab", "c"]).fingerprint() != TaskTexts(["a", "bc"]).fingerprint()


def test_a_task_of_reranking_ranks_what_it_lists(static: Path, tmp_path: Path) -> None:
    listed = {f"q{n}": [f"d{m}" for m in range(n, n + 30, 3)] for n in range(12)}
    listed["q3"] = listed["q3"][:1]
    task = animals(type="Reranking", top_ranked=listed, main_score="map_at_1000")
    found, wanted = both(static, task, tmp_path)
    assert_equal(found, wanted)
    assert set(found["q3"]) == {"d3"}


def test_ids_may_be_any_texts(static: Path, tmp_path: Path) -> None:
    corpus = [{"id": f"document {n}", "text": word} for n, word in enumerate(["ant", "bee", "cat"])]
    task = made_task(corpus, [{"id": "a query", "text": "bee"}], {"a query": {"document 1": 1}})
    assert_equal(*both(static, task, tmp_path))


@pytest.fixture(scope="module")
def prompted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model with prompts for queries, for retrieval tasks, and for one retrieval task."""
    folder = tiny_encoder(tmp_path_factory.mktemp("prompted") / "model")
    prompts = {"query": "ask: ", "document": "", "Retrieval-query": "find: ", "SciFact-query": "fact: "}
    path = folder / "config_sentence_transformers.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"prompts": prompts}))
    return folder


@pytest.mark.parametrize("kind", ["Retrieval", "Reranking"])
def test_a_models_prompts_are_taken_as_mteb_does(kind: str, prompted: Path, tmp_path: Path) -> None:
    listed = {f"q{n}": [f"d{m}" for m in range(20)] for n in range(12)} if kind == "Reranking" else None
    assert_equal(*both(prompted, animals(type=kind, top_ranked=listed), tmp_path))


@pytest.mark.parametrize(("told", "wanted"), [({"name": "SciFact"}, "SciFact-query"), ({}, "Retrieval-query")])
def test_the_nearest_prompt_is_taken(told: Mapping[str, str], wanted: str, prompted: Path) -> None:
    task = animals(**told)
    assert TaskSystem(str(prompted)).recipe(task.metadata, TaskTexts([])).model.query_prompt == PromptName(wanted)


def test_a_template_gets_the_instruction_of_the_task(prompted: Path) -> None:
    system = TaskSystem(str(prompted), settings=('model.query_prompt="Instruct: {task}\\nQuery: "',))
    for told, wanted in ({}, "Retrieve text based on user query."), ({"prompt": {"query": "Find it"}}, "Find it"):
        model = system.recipe(animals(**told).metadata, TaskTexts([])).model
        assert (model.query_prompt, model.task) == ("Instruct: {task}\nQuery: ", wanted)
