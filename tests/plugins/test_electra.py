"""The package of the reranker `electra`, as a stranger installs it beside hardneg's wheel, trains it and reranks."""

from collections.abc import Callable
from pathlib import Path

import pytest
from recipe.recipes import small_collection, small_tree, write_recipe
from sentence_transformers import CrossEncoder

TESTS = Path(__file__).parents[2] / "plugins" / "hardneg-electra" / "tests"


@pytest.fixture
def tiny_electra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.syspath_prepend(TESTS)
    from tiny_electra import tiny_electra

    return tiny_electra(tmp_path / "electra")


@pytest.mark.slow
def test_electra_from_installation_to_a_reranked_run(
    tmp_path: Path, tiny_model: Path, tiny_electra: Path, outside: Callable[..., str]
) -> None:
    assert " passed" in outside("-m", "pytest", "-q", "-p", "no:cacheprovider", "--import-mode=importlib", TESTS)
    assert "hardneg-electra" in outside("-m", "hardneg", "plugins", "list", "rerankers")
    tree = small_tree(small_collection(tmp_path / "data"), tiny_model)
    kept = {name: tree["stages"][name] for name in ("start-index", "start-test", "start-train", "static")}
    trained = {
        "stage": "train-reranker",
        "reranker": {"name": "electra", "source": str(tiny_electra), "length": 48},
        "negatives": "static",
        "options": {"max_steps": 3, "batch_size": 3, "accumulate": 2, "negatives_per_query": 1},
    }
    reranked = {"stage": "rerank", "reranker": "electra", "run": "start-test", "depth": 4}
    recipe = write_recipe(tmp_path / "r.yaml", {**tree, "stages": {**kept, "electra": trained, "reranked": reranked}})
    outside("-m", "hardneg", "recipe", "run", recipe, "--output", tmp_path / "out", "--device", "cpu")
    assert (tmp_path / "out" / "runs" / "reranked.trec.gz").is_file()
    assert len(CrossEncoder(str(tmp_path / "out" / "rerankers" / "electra"), device="cpu")) == 3
