"""Finished blocks: a file each, whole or not there."""

import json
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from processes import launch

from hardneg.recipes import execution as execute
from hardneg.records import ArtifactError
from hardneg.runtime import Silent, barrier, join, world
from hardneg.stages import Local, StageContext
from hardneg.store import choose, noted
from hardneg.store.blocks import BlockResult, BlockStore


def test_blocks_are_there_for_every_process(tmp_path):
    one, two = BlockStore(tmp_path / "blocks"), BlockStore(tmp_path / "blocks")
    one.begin([2, 2, 1])
    one.write(2, BlockResult({"lines": b"c\n", "scores": np.arange(3)}, {"queries": 2, "seconds": 0.5}))
    two.write(0, BlockResult({"lines": b"a\n"}, {"queries": 1}))
    two.write(0, BlockResult({"lines": b"a\n"}, {"queries": 1}))
    assert one.finished() == two.finished() == {0, 2}
    two.write(1, BlockResult({}))
    assert list(one.texts("lines", 3)) == [b"a\n", b"c\n"]
    assert one.facts(3) == {"queries": 3, "seconds": 0.5}
    assert two.read(2)["scores"].tolist() == [0, 1, 2]


def test_what_is_missing_damaged_or_cut_otherwise_is_told(tmp_path):
    store = BlockStore(tmp_path / "blocks")
    with pytest.raises(ArtifactError, match="missing"):
        store.write(0, BlockResult({}))
    store.begin([2, 1])
    store.begin([2, 1])
    with pytest.raises(ArtifactError, match="2 blocks of at most 2, but this hardneg has 3 of 1"):
        store.begin([1, 1, 1])
    with pytest.raises(ArtifactError, match="block 0 is missing"):
        list(store.texts("lines", 2))
    store.write(0, BlockResult({"lines": b"a"}))
    (path,) = store.folder.glob("*.npz")
    path.write_bytes(path.read_bytes()[:-10])
    with pytest.raises(ArtifactError, match="damaged"):
        store.read(0)
    assert store.finished() == set()


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
    own, other = ("first", "second") if world().rank == 0 else ("second", "first")
    chosen = choose("a thing", own, other)
    barrier()
    alone = "" if world().rank == 0 else choose("what one process alone asks for", own, other)
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

        spec = SimpleNamespace(make=make, in_blocks=False)
        context = StageContext("tried", spec, tmp_path, {}, {}, Silent())  # type: ignore[type-var]
        with pytest.raises(KeyboardInterrupt):
            execute._run_stage(SimpleNamespace(spec=spec), context, Local())  # type: ignore[arg-type]

    seen: list[str] = []
    run("clever", "plain")
    with noted() as told:
        run("plain", "clever")
    assert seen == ["clever", "clever"] and told == {"a thing": "clever"}
    assert choose("a thing", "plain", "clever") == "plain"
