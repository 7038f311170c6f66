"""`doctor --model` and `recipe plan` tell how a model wants to be used, and what a recipe says otherwise."""

import json
from pathlib import Path

import pytest
from command_line import call, hardneg
from processes import loaded
from tiny import tiny_encoder, tiny_static

from hardneg.records.errors import ModelError


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tiny_encoder(tmp_path / "model")
    config = {"prompts": {"query": "find: ", "sts": "same: "}, "default_prompt_name": "sts", "truncate_dim": 8}
    (folder / "config_sentence_transformers.json").write_text(json.dumps(config))
    return folder


def recipe(tmp_path: Path, model: str) -> Path:
    (tmp_path / "data" / "qrels").mkdir(parents=True)
    (tmp_path / "data" / "corpus.jsonl").write_text('{"_id": "d", "text": "a list"}\n')
    (tmp_path / "data" / "queries.jsonl").write_text('{"_id": "q", "text": "list"}\n')
    (tmp_path / "data" / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\nq\td\t1\n")
    path = tmp_path / "small.yaml"
    path.write_text(f"dataset: beir:{tmp_path / 'data'}\nmodel: {model}\nstages: {{index: {{stage: encode}}}}\n")
    return path


def test_the_whole_contract_in_lines(folder: Path):
    lines = dict(line.split("  ", 1) for line in hardneg("doctor", "--model", str(folder)).stdout.splitlines())
    found = {word: value.strip() for word, value in lines.items()}
    names = {"files": str(folder), "encoder": "dense", "query prompt": "'find: '", "document prompt": "none"}
    vectors = {"similarity": "cosine", "normalised": "yes", "pooling": "mean", "dtype": "float32"}
    assert found == {
        **names,
        **vectors,
        "prompt sts": "'same: ', kept and not used",
        "lengths": "256 tokens of a query, 256 of a document",
        "dimensions": "32, cut to 8",
    }
    assert json.loads(hardneg("doctor", "--model", str(folder), "--json").stdout)["prompts"]["sts"] == "same: "


def test_a_dimension_that_no_file_declares(folder: Path):
    config = json.loads((folder / "config.json").read_text())
    del config["hidden_size"]
    (folder / "config.json").write_text(json.dumps(config))
    for path in folder.glob("*_Pooling/config.json"):
        path.write_text(json.dumps({"pooling_mode": "mean"}))
    assert "not declared, cut to 8" in hardneg("doctor", "--model", str(folder)).stdout


def test_a_static_model_reads_all_tokens(tmp_path: Path):
    told = hardneg("doctor", "--model", str(tiny_static(tmp_path / "static"))).stdout
    assert "encoder          static\n" in told and "all tokens of a query, all of a document" in told
    plan = recipe(tmp_path, f"{{name: {tmp_path / 'static'}, document_length: 64}}")
    told = hardneg("recipe", "plan", str(plan), "--store", str(tmp_path / "store")).stdout
    assert f"model {tmp_path / 'static'}: document_length 64, its own is all\n" in told


def test_a_model_that_is_not_here(tmp_path: Path):
    done = call("doctor", "--model", tmp_path / "none")
    assert isinstance(done.exception, ModelError) and "no such folder" in str(done.exception)


def test_a_plan_tells_what_the_recipe_says_otherwise(tmp_path: Path, folder: Path):
    model = f'{{name: {folder}, query_prompt: "", query_length: 256, document_length: 64, pooling: cls}}'
    plan = hardneg("recipe", "plan", str(recipe(tmp_path, model)), "--store", str(tmp_path / "store")).stdout
    told = [line for line in plan.splitlines() if line.startswith("model ")]
    assert told == [
        f"model {folder}: query_prompt '', its own is 'find: '",
        f"model {folder}: document_length 64, its own is 256",
        f"model {folder}: pooling cls, its own is mean",
    ]


def test_a_plan_with_a_model_of_the_hub_tells_what_will_be_read(tmp_path: Path):
    model = "{name: some/model, revision: 0123456789abcdef0123456789abcdef01234567, similarity: dot, query_prompt: ''}"
    plan = hardneg("recipe", "plan", str(recipe(tmp_path, model)), "--store", str(tmp_path / "store")).stdout
    left = "document_prompt, query_length, document_length"
    assert f"model some/model: not on this machine; {left} are read from its files when it is" in plan


def test_neither_imports_torch(tmp_path: Path, folder: Path):
    plan = ["recipe", "plan", str(recipe(tmp_path, str(folder))), "--store", str(tmp_path / "store")]
    for words in (["doctor", "--model", str(folder)], plan):
        program = f"import sys; sys.argv = {['hardneg', *words]}; from hardneg.cli.main import main; main()"
        assert loaded(program, "torch transformers sentence_transformers") == set()
