"""`hardneg data`: what can be read, what is there, what is wrong."""

import json

import pytest
from broken import FAULTS, write_broken
from command_line import call, hardneg
from recipe.recipes import small_collection


def test_list_names_every_loader():
    rows = {row["name"]: row["reads"] for row in json.loads(hardneg("data", "list", "--json").stdout)}
    assert rows["beir"] == "A folder in BEIR's form" and all(rows.values())
    assert "msmarco" in hardneg("data", "list").stdout


def test_show(tmp_path):
    small_collection(tmp_path / "data")
    queries = (tmp_path / "data" / "queries.jsonl").read_text().splitlines()
    first = json.loads(queries[0]) | {"answers": ["a river"]}
    (tmp_path / "data" / "queries.jsonl").write_text("\n".join([json.dumps(first), *queries[1:]]) + "\n")
    words = ["data", "show", f"beir:{tmp_path}/data", "--store", tmp_path / "store"]
    out = hardneg(*words, "--limit", 1).stdout
    assert "documents: 60; words: mean " in out and f"query {first['_id']} (" in out and "= a river" in out
    shown = json.loads(hardneg(*words, "--json").stdout)
    assert shown["documents"] == 60 and len(shown["first"]["documents"]) == 2


def test_check_tells_all_faults_and_counts_what_it_does_not_print(tmp_path):
    write_broken(tmp_path)
    (tmp_path / "notes.txt").touch()
    (tmp_path / "qrels" / "dev.csv").touch()
    told = call("data", "check", f"beir:{tmp_path}")
    assert told.exit_code == 4
    assert all(f"{name}:{line}: " in told.stdout for _, name, line in FAULTS)
    assert told.stdout.splitlines()[-6:] == [
        "read: 5 documents",
        "  train: 1 query, 1 judgement (1 relevant, 0 zero)",
        "  test: 2 queries, 2 judgements (2 relevant, 0 zero)",
        "files read: corpus.jsonl.gz, queries.jsonl, qrels/train.tsv, qrels/test.tsv",
        "files not read: notes.txt, qrels/dev.csv",
        "8 errors, 1 warning",
    ]
    out = call("data", "check", f"beir:{tmp_path}", "--limit", "0").stdout
    assert "error: empty texts: 1\n  and 1 more; --limit 1 prints all\n" in out
    told = call("data", "check", f"beir:{tmp_path}", "--json")
    assert told.exit_code == 4 and json.loads(told.stdout)["errors"] == 8
    read = json.loads(told.stdout)["read"]
    assert read["splits"]["test"] == {"queries": 2, "relevant": 2, "zero": 0, "negative": 0}
    assert (read["documents"], read["files not read"]) == (5, ["notes.txt", "qrels/dev.csv"])


@pytest.mark.parametrize("arguments", [[], ["--json"]])
def test_a_good_dataset_ends_well(tmp_path, arguments):
    small_collection(tmp_path)
    out = hardneg("data", "check", f"beir:{tmp_path}", *arguments).stdout
    assert "0 errors" in out or json.loads(out)["errors"] == 0
