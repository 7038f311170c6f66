import os
import shutil
import signal
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import forked
import numpy as np
import pytest
import yaml
from processes import TORCHRUN, codes, launch
from recipes.recipes import artifacts_of, large_collection, small_collection, small_tree, write_recipe
from tiny import tiny_static
from waiting import wait_until

from hardneg.recipes import Options, Plan, Step, Watcher, execute, load_recipe, make_plan, publish, usage
from hardneg.records import DataError
from hardneg.runtime import Silent
from hardneg.store import Content, Store, file_digest


class Notes:
    """Keeps the notes, shows no bars."""

    def __init__(self):
        self.lines = []

    def note(self, text):
        self.lines.append(text)

    def task(self, *arguments, **options):
        return Silent().task(*arguments, **options)


@pytest.fixture(scope="module")
def finished(tmp_path_factory, tiny_model):
    folder = tmp_path_factory.mktemp("recipe")
    path = write_recipe(folder / "small.yaml", small_tree(small_collection(folder / "data"), tiny_model))
    store = Store(folder / "store")
    plan = make_plan(load_recipe(path))
    outcome = execute(plan, store, Options(device="cpu"), Watcher())
    publish(plan, outcome.artifacts, store, folder / "out")
    return folder, path, store, plan, outcome


def again(path, store, settings=(), **options):
    notes = Notes()
    plan = make_plan(load_recipe(path, settings=settings))
    outcome = execute(plan, store, Options(device="cpu", **options), Watcher(progress=notes))
    return outcome, notes.lines


def test_all_steps_run_once(finished):
    _, path, store, plan, outcome = finished
    assert outcome.ran == tuple(plan.steps)
    assert again(path, store)[0].ran == ()


@pytest.mark.parametrize(("told", "lines"), [(60, 0), (0, 0), (61, 1)])
def test_a_dataset_of_another_size_than_the_recipe_tells_is_noted(finished, told, lines):
    notes = again(*finished[1:3], [f"sizes.documents={told}"], until="dataset")[1]
    noted = [line for line in notes if "60 documents, but sizes.documents is 61" in line]
    assert len(noted) == lines


def test_the_run_folder_has_stable_names(finished):
    folder = finished[0]
    out = folder / "out"
    names = {path.relative_to(out).as_posix() for path in out.rglob("*") if path.is_file()}
    runs = {f"runs/{name}-{split}.trec.gz" for name, split in (("start", "test"), ("start", "train"), ("star", "test"))}
    pages = {"metrics.json", "recipe.lock.yaml", "report.html", "report.md", "queries.tsv"}
    assert {"index/index", "index/docid", "model/modules.json", *runs, *pages} <= names
    assert not [name for name in names if name.endswith(("manifest.json", ".new"))]
    lock = yaml.safe_load((out / "recipe.lock.yaml").read_text())
    assert lock["keys"]["star"] == finished[3].steps["star"].key


def test_the_model_card_says_what_it_was_trained_on_and_how_it_scored(finished):
    card = (finished[0] / "out" / "model" / "README.md").read_text()
    assert "60 passages, 36 training queries" in card and "TopK(depth=10" in card
    assert "| STAR |" in card.split("## Scores")[1].split("## Use")[0]
    assert str(finished[0]) not in card


def test_kept_models_stand_in_the_run_folder_and_are_models_to_begin_with(finished, tmp_path):
    _, path, store, _, _ = finished
    plan = make_plan(load_recipe(path, settings=["stages.star.options.keep_every=2"]))
    outcome = execute(plan, store, Options(until="star", device="cpu"), Watcher())
    publish(plan, outcome.artifacts, store, tmp_path / "out")
    kept = tmp_path / "out" / "checkpoints" / "star"
    assert {place.name for place in kept.iterdir()} == {"step-2", "step-4"}
    last = (kept / "step-4" / "model.safetensors").read_bytes()
    assert last == (outcome.artifacts["star"].path / "model" / "model.safetensors").read_bytes()
    found, _ = again(path, store, [f"model.name={kept / 'step-2'}"], until="start-test")
    assert found.ran == ("start-index", "start-test")


def test_force_runs_a_step_and_its_dependents(finished):
    _, path, store, _, _ = finished
    assert again(path, store, force=("scores",))[0].ran == ("scores", "report")


@pytest.mark.slow
def test_the_same_recipe_elsewhere_gives_the_same_bytes(finished, tmp_path):
    _, path, _store, _plan, outcome = finished
    other, _ = again(path, Store(tmp_path / "store"), until="star-test")
    for name in ("static", "star", "star-test"):
        first, second = outcome.artifacts[name].path, other.artifacts[name].path
        every = (file for file in first.rglob("*") if file.is_file())
        files = [file.relative_to(first) for file in every if file.name != "manifest.json"]
        assert files
        for file in files:
            assert (first / file).read_bytes() == (second / file).read_bytes(), (name, file)


def test_a_damaged_artifact_is_made_again_with_a_note(finished):
    _, path, store, _plan, outcome = finished
    run = outcome.artifacts["star-test"].path / "run.trec.gz"
    content = run.read_bytes()
    run.unlink()
    run.write_bytes(content[:-3])
    repeated, notes = again(path, store)
    assert repeated.ran == ("star-test",)
    assert any("damaged" in note and "recreating" in note for note in notes)
    assert run.read_bytes() == content


def test_the_seconds_of_a_training_that_went_on_are_those_of_all_its_runs(finished, monkeypatch):
    from hardneg.training import loop

    _, path, store, _, _ = finished
    settings, update = ["stages.star.options.seed=9", "stages.star.options.checkpoint_every=1"], loop.update

    def stops(learner, batches, step, rate):
        if step == 2:
            raise KeyboardInterrupt
        return update(learner, batches, step, rate)

    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(loop, "update", stops)
        again(path, store, settings, until="star")
    facts = again(path, store, settings, until="star")[0].artifacts["star"].facts
    assert facts["seconds"] > facts["earlier seconds"] > 0
    assert "earlier seconds" not in finished[4].artifacts["star"].facts


@pytest.mark.slow
def test_a_stage_does_not_find_the_last_ones_model_in_memory(finished, tmp_path, monkeypatch):
    import weakref

    from hardneg.stages import work as searching

    path = finished[1]
    alive, opened = [], []
    load = searching.open_prompted

    def remembering(*arguments):
        alive.append([module() is not None for module in opened])
        encoder = load(*arguments)
        opened.append(weakref.ref(encoder.module))
        return encoder

    monkeypatch.setattr(searching, "open_prompted", remembering)
    execute(make_plan(load_recipe(path)), Store(tmp_path / "store"), Options(device="cpu"), Watcher())
    assert len(alive) > 1 and not any(any(one) for one in alive)


def test_manifests_tell_the_precision_that_auto_was(finished, tmp_path, monkeypatch):
    _, _, _, plan, outcome = finished
    assert not [name for name, made in outcome.artifacts.items() if "choices" in made.facts]
    monkeypatch.setattr("hardneg.encoders.towers.LARGE", 1)
    monkeypatch.setattr("hardneg.encoders.towers.has_bf16_units", lambda _: True)
    made = artifacts_of(plan, tmp_path, until="start-index")
    choices = made["start-index"].facts["choices"]
    assert [subject.split(" ")[0] for subject in choices] == ["inference"]
    assert set(choices.values()) == {"bf16"}
    assert "choices" not in made["dataset"].facts
    assert made["start-index"].key == outcome.artifacts["start-index"].key


def test_the_peak_of_a_block_is_its_own_and_is_told_when_it_ends():
    with usage(1) as large:
        held = np.ones(30_000_000)
        assert not large
    del held
    with usage(2) as small:
        pass
    assert large["peak_memory"] - small["peak_memory"] > 200_000_000
    assert (small["processes"], small["device"]) == (2, "cpu") and "peak_gpu_memory" not in small


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


@pytest.mark.parametrize(
    ("step", "name"),
    [("dataset", "data/qrels/train.tsv"), ("start-index", "model/model.safetensors"), ("mined", "more.tsv")],
)
def test_what_changes_while_its_step_works_is_kept_under_no_key(made, tmp_path, step, name) -> None:
    plan, store = made()
    before = (tmp_path / name).read_bytes()

    def begins(begun: Step) -> None:
        if begun.name == step == "start-index":
            shutil.copy(tiny_static(tmp_path / "retrained", seed=1) / "model.safetensors", tmp_path / name)
        elif begun.name == step:
            (tmp_path / name).write_bytes(before + b"q0\td2\t1\n")

    with pytest.raises(DataError, match=rf"{name} changed during the run; run again$"):
        execute(plan, store, Options(until=step, device="cpu"), Watcher(begins=begins))
    assert not list(store.root.glob(f"{plan.steps[step].key}*"))
    with pytest.raises(DataError, match="changed during the run"):  # as it is found before the step works, too
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
    with pytest.raises(DataError, match="f changed during"):
        content.check()


SAME = ("start-index", "start-train", "static")
STEPS = ["--set", "stages.star.options.max_steps=120", "--set", "stages.star.options.checkpoint_every=10"]


@pytest.fixture(scope="module")
def recipe(tmp_path_factory: pytest.TempPathFactory, tiny_model: Path) -> Path:
    folder = tmp_path_factory.mktemp("processes")
    return write_recipe(folder / "small.yaml", small_tree(large_collection(folder / "data"), tiny_model))


def start(recipe: Path, store: str, *more: str, number: int = 1, launcher: Sequence[str] = ()) -> list[forked.Program]:
    names = [*STEPS, "--store", store, "--output", f"{store}-out", "--device", "cpu"]
    command = [*launcher, "-m", "hardneg", "recipe", "run", str(recipe), *names, *more]
    return launch(command, number, cwd=recipe.parent, stderr=subprocess.PIPE, text=True)


def finish(processes: Sequence[subprocess.Popen[str]]) -> tuple[list[int], str]:
    errors = "".join(process.communicate()[1] for process in processes)
    return codes(processes), errors


def worker(launcher: int, rank: int) -> int:
    """The process that the launcher gave this number."""
    for child in Path(f"/proc/{launcher}/task/{launcher}/children").read_text().split():
        if f"RANK={rank}\0" in Path(f"/proc/{child}/environ").read_text().replace("LOCAL_RANK", "").replace(
            "GROUP_RANK", ""
        ):
            return int(child)
    raise AssertionError(f"no process has rank {rank}")


def killed_while_it_trains(recipe: Path) -> tuple[list[int], str]:
    (running,) = start(recipe, "two", launcher=[*TORCHRUN, "2"])
    wait_until(lambda: list(recipe.parent.glob("two/*.partial/checkpoints/step-*")), running)
    os.kill(worker(running.pid, 1), signal.SIGKILL)
    return finish([running])


@pytest.fixture(scope="module")
def ran(recipe: Path) -> dict[str, Any]:
    """One process; two of which one is killed; two that go on."""
    one = start(recipe, "one", "--until", "static")
    killed = killed_while_it_trains(recipe)
    return {"one": finish(one), "killed": killed, "two": finish(start(recipe, "two", number=2))}


@pytest.mark.slow
def test_a_killed_process_ends_all(ran: dict[str, Any]) -> None:
    (code,), errors = ran["killed"]
    assert code != 0 and "Signal 9 (SIGKILL)" in errors


@pytest.mark.slow
def test_the_same_command_goes_on_and_finishes(ran: dict[str, Any], recipe: Path) -> None:
    ended, errors = ran["two"]
    assert ended == [0, 0], errors
    assert errors.count("2 processes") == 1
    assert "static: in the store" in errors and "star: train" in errors
    assert "5 of 10 steps ran" in errors
    assert (recipe.parent / "two-out" / "metrics.json").exists()


@pytest.mark.slow
def test_the_bytes_are_those_of_one_process(ran: dict[str, Any], recipe: Path) -> None:
    assert ran["one"][0] == [0], ran["one"][1]
    steps = make_plan(load_recipe(recipe)).steps
    for name in SAME:
        one, two = (Store(recipe.parent / store).find(steps[name].key) for store in ("one", "two"))
        assert one is not None and two is not None
        files = sorted(path.name for path in one.path.iterdir() if path.name != "manifest.json")
        assert files == sorted(path.name for path in two.path.iterdir() if path.name != "manifest.json") != []
        for file in files:
            assert (one.path / file).read_bytes() == (two.path / file).read_bytes(), (name, file)


@pytest.mark.slow
def test_an_error_of_all_processes_is_told_once(ran: dict[str, Any], recipe: Path) -> None:
    bad = ["--set", "stages.star.options.weight_decay=1e38", "--until", "star"]
    ended, errors = finish(start(recipe, "two", *bad, number=2))
    assert all(ended)
    assert sum(line.startswith("hardneg:") and "lower the learning rate" in line for line in errors.splitlines()) == 1
