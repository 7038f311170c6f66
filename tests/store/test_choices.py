"""A choice is timed once, remembered, shared by processes, and kept to by what has begun."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
from processes import launch

from hardneg.recipe import execute
from hardneg.runtime.distributed import barrier, join, world
from hardneg.runtime.progress import Silent
from hardneg.store import speed_trials
from hardneg.store.speed_trials import choose, forget, noted, remembered
from hardneg.testing.engines import Squares
from hardneg.verbs.shared.context import StageContext
from hardneg.verbs.shared.local_engine import Local


@pytest.fixture(autouse=True)
def own_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(speed_trials, "_known", {})


def seconds(monkeypatch: pytest.MonkeyPatch, **by_way: float) -> list[str]:
    """Has each way take so long; returns the names of those that are run, as it goes."""
    ran: list[str] = []

    def taken(run: Callable[[], object]) -> float:
        ran.append(str(run()))
        return by_way[ran[-1]]

    monkeypatch.setattr(speed_trials, "_seconds", taken)
    return ran


WAYS: dict[str, speed_trials.Way] = {"plain": lambda: lambda: "plain", "clever": lambda: lambda: "clever"}


def another_process() -> None:
    speed_trials._known.clear()


@pytest.mark.parametrize(("clever", "expected"), [(0.5, "clever"), (0.94, "clever"), (0.96, "plain"), (2.0, "plain")])
def test_the_first_way_stays_unless_another_is_clearly_faster(clever, expected, monkeypatch):
    seconds(monkeypatch, plain=1.0, clever=clever)
    assert choose("a thing", "here", WAYS) == expected


def test_the_fastest_of_interleaved_rounds_counts(monkeypatch):
    """The first of each only warms up; a round that other work slows down decides nothing."""
    script = iter([0.1, 9.0, 1.0, 50.0, 7.0, 50.0, 1.0, 0.5, 1.0, 0.5, 8.0, 8.0])
    monkeypatch.setattr(speed_trials, "_SECONDS", 0.0)
    monkeypatch.setattr(speed_trials, "_seconds", lambda run: next(script))
    assert choose("a thing", "here", WAYS) == "clever"
    assert remembered()[0].milliseconds == {"plain": 1000.0, "clever": 500.0}


def test_it_is_remembered_by_subject_and_machine(monkeypatch):
    ran = seconds(monkeypatch, plain=1.0, clever=0.5)
    choose("a thing", "here", WAYS)
    times = len(ran)
    another_process()
    seconds(monkeypatch, plain=0.1, clever=0.5)
    assert choose("a thing", "here", WAYS) == "clever"
    assert len(ran) == times
    assert choose("a thing", "there", WAYS) == choose("another", "here", WAYS) == "plain"
    timed = [(trial.subject, trial.machine) for trial in remembered()]
    assert timed == [("a thing", "here"), ("a thing", "there"), ("another", "here")]
    assert forget() == 3
    assert choose("a thing", "here", WAYS) == "plain"


def test_a_way_that_was_not_timed_makes_a_new_trial(monkeypatch):
    seconds(monkeypatch, plain=1.0, clever=0.5, newer=0.2)
    assert choose("a thing", "here", WAYS) == "clever"
    another_process()
    more = {**WAYS, "newer": lambda: lambda: "newer"}
    assert choose("a thing", "here", more) == "newer"
    another_process()
    ran = seconds(monkeypatch, plain=1.0, clever=0.5, newer=0.2)
    assert choose("a thing", "here", WAYS) == "clever" and ran
    another_process()
    assert choose("a thing", "here", {"clever": WAYS["clever"]}) == "clever"


def test_who_remembers_first_decides(monkeypatch):
    seconds(monkeypatch, plain=1.0, clever=0.5)

    def meanwhile() -> Callable[[], object]:
        if not remembered():
            another_process()
            seconds(monkeypatch, plain=0.1, clever=0.5)
            assert choose("a thing", "here", WAYS) == "plain"
            seconds(monkeypatch, plain=1.0, clever=0.5)
        return lambda: "clever"

    another_process()
    assert choose("a thing", "here", {**WAYS, "clever": meanwhile}) == "plain"
    assert [trial.chosen for trial in remembered()] == ["plain"]


@pytest.mark.parametrize(
    "content", ["", "{", "[1]", "{}", '{"subject": 1, "machine": 2, "chosen": 3, "milliseconds": 4}']
)
def test_a_damaged_memory_is_made_anew(content, monkeypatch):
    seconds(monkeypatch, plain=1.0, clever=0.5)
    choose("a thing", "here", WAYS)
    (path,) = (speed_trials.cache_folder() / "trials").iterdir()
    path.write_text(content)
    another_process()
    assert remembered() == []
    assert choose("a thing", "here", WAYS) == "clever"
    assert json.loads(path.read_text())["chosen"] == "clever"


def test_a_memory_that_cannot_be_written_costs_a_trial_a_process(tmp_path, monkeypatch):
    (tmp_path / "cache").write_text("no folder")
    ran = seconds(monkeypatch, plain=1.0, clever=0.5)
    assert choose("a thing", "here", WAYS) == choose("a thing", "here", WAYS) == "clever"
    once = len(ran)
    another_process()
    choose("a thing", "here", WAYS)
    assert len(ran) == 2 * once
    assert remembered() == []


def test_a_way_that_fails_is_not_taken_and_nothing_is_remembered():
    def fails() -> None:
        raise RuntimeError("no such unit")

    assert choose("a thing", "here", {"plain": lambda: lambda: None, "clever": lambda: fails}) == "plain"
    assert choose("another", "here", {"plain": lambda: fails, "clever": lambda: lambda: None}) == "clever"
    assert choose("a third", "here", {"plain": lambda: fails, "clever": lambda: fails}) == "plain"
    assert remembered() == []


def test_choices_are_noted_and_kept_to(monkeypatch):
    seconds(monkeypatch, plain=1.0, clever=0.5)
    with noted() as outer:
        with noted({"a thing": "plain", "old": "unknown"}) as inner:
            assert choose("a thing", "here", WAYS) == "plain"
            assert choose("another", "here", WAYS) == "clever"
            assert choose("old", "here", WAYS) == "clever"
        assert choose("a thing", "here", WAYS) == "clever"
    choose("a fourth", "here", WAYS)
    assert inner == {"a thing": "plain", "another": "clever", "old": "clever"}
    assert outer == {"a thing": "clever", "another": "clever", "old": "clever"}


def test_several_processes_take_the_same_way(tmp_path):
    started = launch([__file__, tmp_path], 2)
    assert [process.wait(timeout=240) for process in started] == [0, 0]
    found = [json.loads((tmp_path / f"{rank}.json").read_text()) for rank in range(2)]
    assert found[0]["chosen"] == found[1]["chosen"]
    assert sorted(one["timed"] for one in found) == [False, True]
    assert found[1]["alone"] == "second"


def main(folder: str) -> None:
    """Each process finds its own way the fastest, and has a memory of its own."""
    from hardneg.store import speed_trials

    join(on_cpu=True)
    own, other = ("first", "second") if world().first else ("second", "first")
    ran: list[str] = []
    ways: dict[str, speed_trials.Way] = {name: lambda name=name: lambda: name for name in ("first", "second")}  # type: ignore[misc]
    speed_trials._seconds = lambda run: (ran.append(str(run())), {own: 1.0, other: 2.0}[ran[-1]])[1]  # type: ignore[func-returns-value]
    chosen, timed = choose("a thing", f"machine {own}", ways), bool(ran)
    barrier()
    alone = "" if world().first else choose("what one process alone asks for", f"machine {own}", ways)
    (Path(folder) / f"{world().rank}.json").write_text(json.dumps({"chosen": chosen, "timed": timed, "alone": alone}))
    barrier()


if __name__ == "__main__":
    main(*sys.argv[1:])


def test_a_stage_that_goes_on_keeps_to_what_it_began_with(tmp_path, monkeypatch):
    """Also where its trials are forgotten, or this machine would choose otherwise: blocks are not of two kinds."""

    def making(seen: list[str]) -> StageContext[Squares]:
        def make(spec: Squares, context: object) -> dict[str, object]:
            seen.append(choose("a thing", "here", WAYS))
            raise KeyboardInterrupt

        monkeypatch.setattr(Squares, "make", make)
        return StageContext("tried", Squares(), tmp_path, {}, {}, Silent())

    seen: list[str] = []
    step = SimpleNamespace(spec=Squares(), in_blocks=False)
    seconds(monkeypatch, plain=1.0, clever=0.5)
    with pytest.raises(KeyboardInterrupt):
        execute._run_stage(step, making(seen), Local())  # type: ignore[arg-type]
    forget()
    ran = seconds(monkeypatch, plain=0.5, clever=1.0)
    with noted() as told, pytest.raises(KeyboardInterrupt):
        execute._run_stage(step, making(seen), Local())  # type: ignore[arg-type]
    assert seen == ["clever", "clever"] and ran == [] and told == {"a thing": "clever"}
    assert choose("a thing", "here", WAYS) == "plain"
