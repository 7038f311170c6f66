"""`hardneg data`: what can be read, what is there."""

import json

from command_line import hardneg
from recipes.recipes import small_collection


def test_list_names_every_loader():
    rows = {row["name"]: row["reads"] for row in json.loads(hardneg("data", "list", "--json").stdout)}
    assert rows["beir"] == "A folder in BEIR's form" and all(rows.values())
    assert "pydocs" in hardneg("data", "list").stdout


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
