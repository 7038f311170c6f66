"""What `--json` prints is JSON and nothing else."""

import json

from command_line import hardneg
from recipes.recipes import small_collection

from hardneg.recipes import named_recipes
from hardneg.registry import list_plugins
from hardneg.store import Store


def printed(*arguments):
    return json.loads(hardneg(*arguments, "--json").stdout)


def test_recipes():
    found = printed("recipe", "list")
    assert [row["name"] for row in found] == named_recipes()
    star = next(row for row in found if row["name"] == "star-passage")
    assert star["about"].startswith("STAR") and star["path"].endswith("star-passage.yaml")


def test_plugins():
    assert {row["name"] for row in printed("plugins", "list", "loss")} == {one.name for one in list_plugins("losses")}


def test_artifacts_whole_and_damaged(tmp_path):
    small_collection(tmp_path / "data")
    store = tmp_path / "store"
    assert printed("artifacts", "list", "--store", store) == []
    printed("data", "show", f"beir:{tmp_path / 'data'}", "--store", store)
    (row,) = printed("artifacts", "list", "--store", store)
    (artifact,) = Store(store).artifacts()
    assert row.keys() == {"key", "kind", "name", "bytes", "path"}
    assert (row["key"], row["kind"], row["path"]) == (artifact.key, artifact.artifact_type, str(artifact.path))
    assert row["bytes"] == sum(path.stat().st_size for path in artifact.path.rglob("*") if path.is_file())
    (artifact.path / "manifest.json").write_text("{")
    (row,) = printed("artifacts", "list", "--store", store)
    assert row.keys() == {"damaged"} and artifact.key in row["damaged"]
