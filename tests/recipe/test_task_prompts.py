"""Prompts by dataset: chosen by its name when a recipe is read."""

from pathlib import Path
from typing import Any

import pytest
from recipe.recipes import small_collection

from hardneg.encoders.spec import PromptName
from hardneg.recipe.load import load_recipe
from hardneg.recipe.task_prompts import dataset_names, with_prompts_of
from hardneg.records.errors import RecipeError

TASKS = {"nq": "answer the question", "default": "find it"}


@pytest.mark.parametrize(
    ("dataset", "names"),
    [
        ("pydocs", ["pydocs"]),
        ("beir:data/nq", ["nq", "beir"]),
        ("hf:mteb/nq@refs/convert", ["nq", "hf"]),
        ({"name": "tevatron", "source": "a/train.jsonl"}, ["train.jsonl", "train", "tevatron"]),
        (None, []),
    ],
)
def test_what_a_dataset_is_called(dataset: Any, names: list[str]) -> None:
    assert dataset_names(dataset) == names


@pytest.mark.parametrize(("dataset", "task"), [("beir:data/nq", "answer the question"), ("pydocs", "find it")])
def test_the_task_of_the_dataset_is_taken(dataset: str, task: str) -> None:
    tree = {"dataset": dataset, "model": {"name": "m", "task": {"by_dataset": TASKS}, "query_prompt": "{task}: "}}
    problems: list[str] = []
    found = with_prompts_of(tree, problems)
    assert found["model"] == {"name": "m", "task": task, "query_prompt": "{task}: "} and not problems
    assert tree["model"]["task"] == {"by_dataset": TASKS}  # type: ignore[index]


def test_a_recipe_of_several_datasets(tmp_path: Path) -> None:
    data = small_collection(tmp_path / "small")
    recipe = tmp_path / "r.yaml"
    text = f"""
dataset: beir:{data}
model:
  name: packaged:all-MiniLM-L6-v2
  query_prompt: {{by_dataset: {{small: {{name: query}}, other: "q: "}}}}
stages:
  index: {{stage: encode, model: start}}
"""
    recipe.write_text(text)
    assert load_recipe(recipe).model.query_prompt == PromptName("query")
    recipe.write_text(text.replace("small: {name", "smal: {name"))
    with pytest.raises(
        RecipeError, match=r"model.query_prompt.by_dataset: none for this dataset, 'small' or 'beir'.*; add one"
    ):
        load_recipe(recipe)
    recipe.write_text(text.replace("by_dataset: {", "by_dataset: x, a: {"))
    with pytest.raises(RecipeError, match=r"must map names of datasets to prompts"):
        load_recipe(recipe)


def test_prompts_that_are_none_are_told_in_one_line(tmp_path: Path) -> None:
    recipe = tmp_path / "r.yaml"
    model = "{name: m, query_prompt: {Query: }, document_prompt: {name: 3}}"
    recipe.write_text(
        f"dataset: beir:{small_collection(tmp_path / 'small')}\nmodel: {model}\nstages: {{i: {{stage: encode}}}}\n"
    )
    with pytest.raises(RecipeError) as raised:
        load_recipe(recipe)
    lines = [line for line in str(raised.value).splitlines() if "query_prompt" in line]
    assert len(lines) == 1 and "PromptName" not in lines[0]
    assert "query_prompt: must be a text, in quotes where it has a colon" in lines[0] and "{'name': 3}" in lines[0]
