"""`hardneg data`: what can be read, what is there, what is wrong."""

import json
import subprocess
import sys

import pytest
from broken import FAULTS, write_broken
from recipe.recipes import small_collection
from typer.testing import CliRunner

from hardneg.cli.main import app


def hardneg(*arguments):
    result = CliRunner().invoke(app, list(map(str, arguments)), env={"COLUMNS": "200"})
    if result.exception and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.exit_code, result.stdout


def test_list_names_every_loader_and_imports_nothing_heavy():
    code = "import sys; from hardneg.cli.main import app; app(['data', 'list', '--json'], standalone_mode=False);"
    code += (
        "print([n for n in ('torch', 'transformers', 'datasets', 'scipy', 'ranx', 'ir_datasets') if n in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], text=True, capture_output=True, check=True)
    rows, _, heavy = done.stdout.rpartition("]\n[")
    assert heavy.strip() == "]"
    rows = {row["name"]: row["reads"] for row in json.loads(rows + "]")}
    assert rows["beir"] == "A folder in BEIR's form" and all(rows.values())
    assert "msmarco" in hardneg("data", "list")[1]


def test_show(tmp_path):
    small_collection(tmp_path / "data")
    queries = (tmp_path / "data" / "queries.jsonl").read_text().splitlines()
    first = json.loads(queries[0]) | {"answers": ["a river"]}
    (tmp_path / "data" / "queries.jsonl").write_text("\n".join([json.dumps(first), *queries[1:]]) + "\n")
    code, out = hardneg("data", "show", f"beir:{tmp_path}/data", "--limit", 1, "--store", tmp_path / "store")
    assert code == 0
    assert "documents: 60; words: mean " in out and f"query {first['_id']} (" in out and "= a river" in out
    code, out = hardneg("data", "show", f"beir:{tmp_path}/data", "--json", "--store", tmp_path / "store")
    assert json.loads(out)["documents"] == 60 and len(json.loads(out)["first"]["documents"]) == 2


def test_check_tells_all_faults_and_counts_what_it_does_not_print(tmp_path):
    write_broken(tmp_path)
    (tmp_path / "notes.txt").touch()
    (tmp_path / "qrels" / "dev.csv").touch()
    code, out = hardneg("data", "check", f"beir:{tmp_path}")
    assert code == 4
    for _, name, line in FAULTS:
        assert f"{name}:{line}: " in out
    assert out.splitlines()[-6:] == [
        "read: 5 documents",
        "  train: 1 query, 1 judgement (1 relevant, 0 zero)",
        "  test: 2 queries, 2 judgements (2 relevant, 0 zero)",
        "files read: corpus.jsonl.gz, queries.jsonl, qrels/train.tsv, qrels/test.tsv",
        "files not read: notes.txt, qrels/dev.csv",
        "8 errors, 1 warning",
    ]
    code, out = hardneg("data", "check", f"beir:{tmp_path}", "--limit", "0")
    assert "error: empty texts: 1\n  and 1 more; --limit 1 prints all\n" in out
    code, out = hardneg("data", "check", f"beir:{tmp_path}", "--json")
    assert code == 4 and json.loads(out)["errors"] == 8
    read = json.loads(out)["read"]
    assert read["splits"]["test"] == {"queries": 2, "relevant": 2, "zero": 0, "negative": 0}
    assert (read["documents"], read["files not read"]) == (5, ["notes.txt", "qrels/dev.csv"])


@pytest.mark.parametrize("arguments", [[], ["--json"]])
def test_a_good_dataset_ends_well(tmp_path, arguments):
    small_collection(tmp_path)
    code, out = hardneg("data", "check", f"beir:{tmp_path}", *arguments)
    assert code == 0 and ("0 errors" in out or json.loads(out)["errors"] == 0)
