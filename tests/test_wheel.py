import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.mark.slow
def test_the_wheel_carries_the_recipes_and_works_outside_the_checkout(tmp_path):
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"]
    subprocess.run([*pip, "wheel", "--no-deps", "--wheel-dir", tmp_path / "dist", ROOT], check=True)
    (wheel,) = (tmp_path / "dist").glob("hardneg-*.whl")
    subprocess.run([*pip, "install", "--no-deps", "--target", tmp_path / "site", wheel], check=True)

    def hardneg(*arguments):
        return subprocess.run(
            [sys.executable, "-m", "hardneg", *arguments],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=True,
            env={**os.environ, "PYTHONPATH": str(tmp_path / "site"), "HARDNEG_STORE": str(tmp_path / "store")},
        ).stdout

    where = subprocess.run(
        [sys.executable, "-c", "import hardneg; print(hardneg.__file__)"], cwd=tmp_path, capture_output=True, text=True,
        check=True, env={**os.environ, "PYTHONPATH": str(tmp_path / "site")},
    ).stdout  # fmt: skip
    assert where.startswith(str(tmp_path))
    assert (Path(where.strip()).parent / "py.typed").is_file()
    assert "star-passage" in hardneg("recipe", "list")
    assert hardneg("recipe", "show", "star-passage") == (ROOT / "recipes" / "star-passage.yaml").read_text()
    assert "static-negatives" in hardneg("recipe", "plan", "star-passage")
    assert "topk" in hardneg("plugins", "list")
    (tmp_path / "qrels.txt").write_text("q1 0 a 1\n")
    (tmp_path / "run.trec").write_text("q1 Q0 a 1 1.0 x\n")
    told = hardneg("report", "--qrels", "qrels.txt", "--run", "run.trec", "--metrics", "mrr@10", "--output", "out")
    assert told.split() == ["out/report.md", "out/report.html", "out/queries.tsv"]
