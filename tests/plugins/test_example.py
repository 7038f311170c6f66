"""The example package, as a stranger installs it beside hardneg's wheel in an environment of its own."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from recipe.recipes import small_collection, small_tree, write_recipe

EXAMPLE = Path(__file__).parents[2] / "plugins" / "hardneg-example"
TESTS = EXAMPLE / "tests"


@pytest.mark.slow
def test_an_outside_package_from_installation_to_recipe(
    tmp_path: Path, tiny_model: Path, outside: Callable[..., str]
) -> None:
    assert " passed" in outside("-m", "pytest", "-q", "-p", "no:cacheprovider", "--import-mode=importlib", TESTS)
    assert "semi-hard" in outside("-m", "hardneg", "plugins", "list", "miners")
    assert "margin: float = 0.2" in outside("-m", "hardneg", "plugins", "show", "miners", "semi-hard")
    tree = small_tree(small_collection(tmp_path / "data"), tiny_model)
    tree["stages"]["static"]["miner"] = {"name": "semi-hard", "count": 5, "margin": 2.0}
    recipe = write_recipe(tmp_path / "small.yaml", tree)
    outside(
        "-m", "hardneg", "recipe", "run", recipe, "--until", "static", "--output", tmp_path / "out", "--device", "cpu"
    )
    assert "negatives" in outside("-m", "hardneg", "artifacts", "list")


@pytest.mark.slow
def test_an_outside_verb_and_an_outside_analysis_from_the_list_to_the_report(
    tmp_path: Path, tiny_model: Path, outside: Callable[..., str]
) -> None:
    """By their entry points alone: listed, planned, checked, run, published, reported; and the analysis's command."""
    for kind, name in (("stages", "pool"), ("analyses", "lengths")):
        assert f"  {name} " in outside("-m", "hardneg", "plugins", "list", kind)
        assert "depth: int = 10" in outside("-m", "hardneg", "plugins", "show", kind, name)
    collection = small_collection(tmp_path / "data")
    lengths = {"query_length": 16, "document_length": 24}
    given = {"dataset": f"beir:{collection}", "model.name": tiny_model, **{f"model.{k}": v for k, v in lengths.items()}}
    asked = [
        EXAMPLE / "recipes" / "judging.yaml",
        *(w for key, value in given.items() for w in ("--set", f"{key}={value}")),
    ]
    assert "to-judge     pool " in outside("-m", "hardneg", "recipe", "plan", *asked)
    outside("-m", "hardneg", "recipe", "check", *asked)
    out = tmp_path / "out"
    outside("-m", "hardneg", "recipe", "run", *asked, "--output", out, "--device", "cpu")
    head, *lines = (out / "pools" / "to-judge.tsv").read_text().splitlines()
    assert head.startswith("query_id\tdoc_id") and len(lines) > 14
    found = json.loads((out / "analyses" / "found" / "lengths.json").read_text())
    report = (out / "report.md").read_text()
    assert "## Lengths: length of documents" in report and "## To be judged" in report
    assert f"| BM25 | {found['runs']['BM25']['words']:.1f} |" in report
    assert f"| BM25 and the model | 14 | {len(lines)} |" in report
    assert 'alt="Lengths: length of documents" src="data:' in (out / "report.html").read_text()
    command = ["analyze", "lengths", "--corpus", collection / "corpus.jsonl", "--run", f"BM25={out}/runs/bm25.trec.gz"]
    assert json.loads(outside("-m", "hardneg", *command, "--json"))["runs"] == {"BM25": found["runs"]["BM25"]}
