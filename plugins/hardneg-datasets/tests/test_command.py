"""`hardneg data check`: what is wrong, in lines and as JSON."""

import json

import pytest
from broken import FAULTS, write_broken
from command_line import call, hardneg
from recipes.recipes import small_collection


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


def test_mistakes_in_documents_have_their_lines(tmp_path):
    (tmp_path / "bad.txt").write_bytes(b"fine\n\xff\xfe bad")
    (tmp_path / "rows.jsonl").write_text('{"title": "no text"}\n{"text": "fine"}\n')
    checked = call("data check", f"documents:{tmp_path}").stdout
    assert "bad.txt:2: not UTF-8" in checked and "rows.jsonl:1: no 'text' in this object" in checked
