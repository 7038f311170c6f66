"""A choice is shared by processes, and kept to by a stage that has begun."""

import json
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from processes import launch

from hardneg.recipes import execute
from hardneg.runtime.distributed import barrier, join, world
from hardneg.runtime.progress import Silent
from hardneg.stages.base import Local, StageContext
from hardneg.store.choices import choose, noted


def test_choices_are_noted_and_kept_to():
    with noted() as outer:
        with noted({"a thing": "plain", "old": "unknown"}) as inner:
            assert choose("a thing", "clever", "plain") == "plain"
            assert choose("another", "clever", "plain") == "clever"
            assert choose("old", "clever", "plain") == "clever"
        assert choose("a thing", "clever", "plain") == "clever"
    choose("a fourth", "clever")
    assert inner == {"a thing": "plain", "another": "clever", "old": "clever"}
    assert outer == {"a thing": "clever", "another": "clever", "old": "clever"}


@pytest.mark.parametrize("left", ["", "{", "[1]"])
def test_a_damaged_file_of_choices_counts_as_none(tmp_path, left):
    file = tmp_path / "choices.json"
    file.write_text(left)
    with noted(file=file):
        assert choose("a thing", "clever", "plain") == "clever"
    with noted(file=file):
        assert choose("a thing", "plain", "clever") == "clever"


def test_several_processes_take_the_same_way(tmp_path):
    started = launch([__file__, tmp_path], 2)
    assert [process.wait(timeout=240) for process in started] == [0, 0]
    found = [json.loads((tmp_path / f"{rank}.json").read_text()) for rank in range(2)]
    assert found[0]["chosen"] == found[1]["chosen"]
    assert found[1]["alone"] == "second"


def main(folder: str) -> None:
    """Each process has another best way."""
    join(on_cpu=True)
    own, other = ("first", "second") if world().first else ("second", "first")
    chosen = choose("a thing", own, other)
    barrier()
    alone = "" if world().first else choose("what one process alone asks for", own, other)
    (Path(folder) / f"{world().rank}.json").write_text(json.dumps({"chosen": chosen, "alone": alone}))
    barrier()


if __name__ == "__main__":
    main(*sys.argv[1:])


def test_a_stage_that_goes_on_keeps_to_what_it_began_with(tmp_path):
    """Also on a machine that would choose otherwise: blocks are not of two kinds."""

    def run(best: str, other: str) -> None:
        def make(context: object) -> dict[str, object]:
            seen.append(choose("a thing", best, other))
            raise KeyboardInterrupt

        spec = SimpleNamespace(make=make)
        context = StageContext("tried", spec, tmp_path, {}, {}, Silent())  # type: ignore[type-var]
        with pytest.raises(KeyboardInterrupt):
            execute._run_stage(SimpleNamespace(spec=spec, in_blocks=False), context, Local())  # type: ignore[arg-type]

    seen: list[str] = []
    run("clever", "plain")
    with noted() as told:
        run("plain", "clever")
    assert seen == ["clever", "clever"] and told == {"a thing": "clever"}
    assert choose("a thing", "plain", "clever") == "plain"
