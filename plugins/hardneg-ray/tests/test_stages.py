"""What four actors make of encode, search, mine and rerank: the bytes that one process makes."""

from pathlib import Path

import pytest
from hardneg_ray.engine import Ray
from small_work import recipe

from hardneg.artifacts import Artifact, Store
from hardneg.engines.local import Local
from hardneg.protocols import Engine
from hardneg.recipe.execute import Options, Watcher, execute
from hardneg.recipe.load import load_recipe
from hardneg.recipe.plan import Plan, make_plan

BLOCKS = {"index": 3, "run": 2, "mined": 5, "ranked": 6}


def made(plan: Plan, store: Path, engine: Engine) -> dict[str, Artifact]:
    return dict(execute(plan, Store(store), Options(device="cpu", engine=engine), Watcher()).artifacts)


def facts(artifact: Artifact) -> dict[str, object]:
    return {name: told for name, told in artifact.facts.items() if "seconds" not in name and name != "usage"}


@pytest.mark.slow
@pytest.mark.usefixtures("cluster")
def test_four_actors_make_the_bytes_of_one_process(tmp_path: Path) -> None:
    plan = make_plan(load_recipe(recipe(tmp_path)))
    own = made(plan, tmp_path / "own", Local())
    for name, shared in (("seen", True), ("travelled", False)):
        theirs = made(plan, tmp_path / name, Ray(actors=4, num_cpus=1, shared=shared))
        for stage, artifact in own.items():
            assert theirs[stage].files == artifact.files and artifact.files, stage
            assert facts(theirs[stage]) == facts(artifact), stage
