"""`hardneg mteb`: models on tasks, resumed; mteb measures them."""

import json
from pathlib import Path
from typing import Any

import mteb
import pytest
from command_line import call
from hardneg_mteb.model import TaskSearcher
from made_tasks import animals
from tiny import tiny_static


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two models and a store."""
    root = tmp_path_factory.mktemp("mteb")
    tiny_static(root / "one")
    tiny_static(root / "two", seed=1)
    return root


@pytest.fixture(autouse=True)
def known(monkeypatch: pytest.MonkeyPatch) -> None:
    """`MadeTask` is known to mteb."""
    get_task = mteb.get_task
    monkeypatch.setattr(mteb, "get_task", lambda name: animals() if name == "MadeTask" else get_task(name))


def evaluated(made: Path, output: Path, *words: object, task: str = "MadeTask", code: int = 0) -> str:
    done = call("mteb", task, "--model", made / "one", "--output", output, "--store", made / "store", *words)
    assert getattr(done.exception, "exit_code", done.exit_code) == code, f"{done.output}{done.exception!r}"
    return done.output + (str(done.exception) if code else "")


def test_models_have_mtebs_scores_and_what_is_done_is_not_done_again(made, tmp_path, monkeypatch):
    told = evaluated(made, tmp_path / "out", "--model", str(made / "two"))
    results = [next((tmp_path / "out" / "results").glob(f"local__{each}/*/MadeTask.json")) for each in ("one", "two")]
    main = [json.loads(path.read_text())["scores"]["test"][0]["ndcg_at_10"] for path in results]
    rows = [line.split() for line in told.splitlines() if "ndcg_at_10" in line]
    assert [float(row[-1]) for row in rows] == pytest.approx(main, abs=1e-5)
    assert len([*(tmp_path / "out" / "predictions").glob("*/*/MadeTask_predictions.json")]) == 2
    monkeypatch.setattr(TaskSearcher, "index", None)
    again = evaluated(made, tmp_path / "out", "--model", str(made / "two"))
    assert [line.split() for line in again.splitlines() if "ndcg_at_10" in line] == rows


@pytest.mark.parametrize("broken", ["predictions/local__one/*/*_predictions.json", "results/local__one/*/Made*.json"])
def test_a_file_that_was_cut_off_is_made_again(broken, made, tmp_path):
    first = evaluated(made, tmp_path / "out")
    for path in (tmp_path / "out").glob(broken):
        path.write_bytes(path.read_bytes()[:-9])
    (tmp_path / "out" / "results").rename(tmp_path / "out" / "gone") if "predictions" in broken else None
    assert evaluated(made, tmp_path / "out").splitlines()[-1] == first.splitlines()[-1]
    for path in (tmp_path / "out").glob(broken):
        json.loads(path.read_bytes())


def test_mistakes_have_one_line(made, tmp_path, monkeypatch):
    out = tmp_path / "out"
    assert "no such folder" in evaluated(made, out, "--model", str(tmp_path / "none"), code=6)
    told = evaluated(made, out, task="SciFakt", code=2)
    assert "mteb has no task 'SciFakt'" in told and "SciFact" in told
    told = evaluated(made, out, task="Banking77Classification", code=2)
    assert "task Banking77Classification: is Classification about text: name one of retrieval or reranking" in told
    assert "--option goes with --backend" in evaluated(made, out, "--option", "m=8", code=2)
    with monkeypatch.context() as patched:
        (lost := animals()).data_loaded = False
        patched.setattr(lost, "load_data", _fails)
        patched.setattr(mteb, "get_task", lambda name: lost)
        assert "task MadeTask: cannot be evaluated (ConnectionError: no hub)" in evaluated(made, out, code=4)


def _fails(*_: Any, **__: Any) -> None:
    raise ConnectionError("no hub\nat all")
