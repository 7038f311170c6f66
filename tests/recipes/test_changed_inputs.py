"""Files, models and datasets that change between the plan of a run and the end of the step that reads them."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from recipes.recipes import small_collection, small_tree, write_recipe
from tiny import tiny_static

import hardneg as hn
from hardneg.datasets.documents import Documents
from hardneg.recipes import Options, Plan, Step, Watcher, execute, load_recipe, make_plan
from hardneg.records import DataError
from hardneg.store import Content, Store, file_digest


@pytest.fixture
def made(tmp_path: Path) -> Callable[..., tuple[Plan, Store]]:
    tree = small_tree(small_collection(tmp_path / "data"), tiny_static(tmp_path / "model"))
    tree["stages"]["mined"] = {
        "stage": "mine",
        "runs": {"dense": "start-train"},
        "split": "train",
        "miner": {"name": "topk", "depth": 5},
        "also_qrels": [str(tmp_path / "more.tsv")],
    }
    (tmp_path / "more.tsv").write_text("query-id\tcorpus-id\tscore\nq0\td1\t1\n")
    plan = make_plan(load_recipe(write_recipe(tmp_path / "small.yaml", tree)))
    return lambda: (plan, Store(tmp_path / "store"))


def retrain(path: Path) -> None:
    shutil.copy(tiny_static(path.parents[1] / "retrained", seed=1) / path.name, path)


def add_to(path: Path) -> None:
    with path.open("a") as file:
        file.write("q0\td2\t1\n")


@pytest.mark.parametrize(
    ("step", "name", "change"),
    [
        ("dataset", "data/qrels/train.tsv", add_to),
        ("start-index", "model/model.safetensors", retrain),
        ("mined", "more.tsv", add_to),
    ],
)
def test_what_changes_while_its_step_works_is_kept_under_no_key(made, tmp_path, step, name, change) -> None:
    plan, store = made()
    before = (tmp_path / name).read_bytes()

    def begins(begun: Step) -> None:
        if begun.name == step:
            change(tmp_path / name)

    with pytest.raises(DataError, match=rf"{name} changed while the run worked; run again$"):
        execute(plan, store, Options(until=step, device="cpu"), Watcher(begins=begins))
    assert not list(store.root.glob(f"{plan.steps[step].key}*"))
    with pytest.raises(DataError, match="changed while the run worked"):  # as it is found before the step works, too
        execute(plan, store, Options(until=step, device="cpu"), Watcher())
    (tmp_path / name).write_bytes(before)
    assert execute(plan, store, Options(until=step, device="cpu"), Watcher()).ran == (step,)


def test_a_file_that_is_only_touched_or_put_back_has_not_changed(tmp_path) -> None:
    file = tmp_path / "f"
    file.write_text("a")
    content = Content.of(lambda: file_digest(file))
    shutil.copy(file, tmp_path / "g")
    (tmp_path / "g").replace(file)
    content.check()
    file.unlink()
    with pytest.raises(DataError, match="f changed while"):
        content.check()


def test_a_file_that_is_added_to_a_folder_changes_it(tmp_path) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "a.txt").write_text("The river is old.")
    content = Content.of(Documents(str(tmp_path)).fingerprint)
    (tmp_path / "deep" / "b.png").touch()
    content.check()
    (tmp_path / "deep" / "b.txt").write_text("The bridge is new.")
    with pytest.raises(DataError, match="deep changed while"):
        content.check()


def test_verbs_without_a_recipe(tmp_path, monkeypatch) -> None:
    runs = [tmp_path / "a.trec", tmp_path / "b.trec"]
    for run in runs:
        run.write_text("q0 Q0 d1 1 2.0 x\n")
    from hardneg.formats import runs as formats

    read = formats.read_run

    def changed_run(path: Path) -> object:
        add_to(runs[0])
        return read(runs[1])

    monkeypatch.setattr(formats, "read_run", changed_run)
    with pytest.raises(DataError, match=r"a\.trec changed while"):
        hn.fuse(runs, store=tmp_path / "store")
