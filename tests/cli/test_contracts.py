"""`doctor --model` tells how a model wants to be used."""

import json
from pathlib import Path

import pytest
from command_line import hardneg
from processes import loaded
from tiny import tiny_encoder


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
    told = hardneg("doctor", "--model", str(folder)).stdout
    found = dict(map(str.strip, line.split("  ", 1)) for line in told.splitlines())
    assert (found["files"], found["encoder"], found["query prompt"], found["normalised"]) == (
        str(folder),
        "dense",
        "'find: '",
        "True",
    )
    assert (found["query length"], found["dimension"], found["truncate dim"], found["pooling"]) == (
        "256",
        "32",
        "8",
        "mean",
    )
    assert "document prompt" not in found
    assert json.loads(hardneg("doctor", "--model", str(folder), "--json").stdout)["prompts"]["sts"] == "same: "


def test_neither_imports_torch(tmp_path: Path, folder: Path):
    plan = ["recipe", "plan", str(recipe(tmp_path, str(folder))), "--store", str(tmp_path / "store")]
    for words in (["doctor", "--model", str(folder)], plan):
        program = f"import sys; sys.argv = {['hardneg', *words]}; from hardneg.cli.main import main; main()"
        assert loaded(program, "torch transformers sentence_transformers") == set()
