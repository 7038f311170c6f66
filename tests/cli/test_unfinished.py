"""Making room in the store while a command runs, and after it was stopped."""

from pathlib import Path
from typing import Any

import pytest
from command_line import call as run
from recipes.recipes import small_collection, small_tree, write_recipe

import hardneg.training.loop
from hardneg.store import Store

STEPS = "--train-option max_steps=2 --train-option batch_size=4 --option miner.depth=5 --depth 10"
COMMANDS = {
    "train": f"train --dataset beir:data --model model {STEPS} --output out --device cpu",
    "recipe run": "recipe run small.yaml --until star --output out --device cpu",
}


@pytest.fixture
def place(session: Path, tiny_model: Path) -> Path:
    (session / "model").symlink_to(tiny_model)
    write_recipe(session / "small.yaml", small_tree(small_collection(session / "data"), Path("model")))
    return session


@pytest.mark.parametrize("name", COMMANDS)
def test_nothing_that_a_command_has_made_is_garbage(name: str, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    update, seen = hardneg.training.loop.update, []

    def cleaned(*arguments: Any, **options: Any) -> Any:
        if not seen:
            seen.append(run("artifacts", "gc", "--delete", "--forget-unfinished").output)
            raise SystemExit(130)
        return update(*arguments, **options)

    monkeypatch.setattr(hardneg.training.loop, "update", cleaned)
    command = COMMANDS[name]
    assert run(command).exit_code == 130
    assert f"running: hardneg {name} to {place / 'out'}, started" in seen[0] and "0 folders" in seen[0]
    made = {path.name for path in Store(place / "store").root.iterdir()}
    assert sum(name.endswith(".partial") for name in made) == 1
    told = run("artifacts", "gc", "--delete").output
    assert f"unfinished: hardneg {name} to {place / 'out'}, started" in told and "0 folders" in told
    done = run(command)
    assert done.exit_code == 0, done.output
    assert done.stderr.count("in the store") == 4
    assert "unfinished" not in (told := run("artifacts", "gc").output) and "0 folders" in told
    assert run(command).exit_code == 0


def test_stopped_runs_are_forgotten_when_that_is_asked_for(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(*_: Any, **__: Any) -> None:
        raise SystemExit(130)

    monkeypatch.setattr(hardneg.training.loop, "update", stop)
    assert run(COMMANDS["train"]).exit_code == 130
    told = run("artifacts", "gc", "--forget-unfinished").output
    assert "its artifacts go with --delete" in told and "5 folders" in told
    told = run("artifacts", "gc", "--forget-unfinished", "--delete").output
    assert "its artifacts are removed" in told and "5 folders" in told
    assert run("artifacts", "gc").output.startswith("0 folders")
