"""Stages on actors write the same bytes as one process, even after kills and on a deployed cluster."""

import importlib.util
import random
import subprocess
import sys
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any, ClassVar

import pytest
import yaml
from hardneg_ray.engine import Ray
from small_work import collection, cross_encoder, recipe
from typer.testing import CliRunner

from hardneg.cli.main import app
from hardneg.recipes import Options, Plan, Watcher, execute, load_recipe, make_plan
from hardneg.stages import Engine, Local, StageContext, StageSpec
from hardneg.store import Artifact, Store

BLOCKS = {"index": 9, "run": 5, "mined": 5, "ranked": 21}


@dataclass(frozen=True)
class Checked:
    """The engine, with checks that all blocks are missing at first and that their number is as expected."""

    version: ClassVar[int] = 1

    def make(self, context: StageContext[StageSpec]) -> Mapping[str, Any]:
        blocks = context.spec.make(context)
        assert (len(blocks.sizes), blocks.finished()) == (BLOCKS[context.name], set())
        return Ray(actors=2, num_cpus=1).make(context)


def artifacts(plan: Plan, store: Path, engine: Engine) -> dict[str, Artifact]:
    return dict(execute(plan, Store(store), Options(device="cpu", engine=engine), Watcher()).artifacts)


def facts(artifact: Artifact) -> dict[str, object]:
    return {name: fact for name, fact in artifact.facts.items() if "seconds" not in name and name != "usage"}


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The path of the recipe."""
    return recipe(tmp_path_factory.mktemp("work"))


@pytest.fixture(scope="module")
def own(work: Path) -> dict[str, Artifact]:
    """The results of the recipe in one process."""
    return artifacts(make_plan(load_recipe(work)), work.parent / "own", Local())


@pytest.mark.slow
@pytest.mark.usefixtures("cluster")
def test_actors_make_the_bytes_of_one_process(work, own, tmp_path):
    theirs = artifacts(make_plan(load_recipe(work)), tmp_path / "store", Checked())
    assert set(BLOCKS) <= set(own) == set(theirs)
    for stage, artifact in own.items():
        assert theirs[stage].files == artifact.files and artifact.files, stage
        assert facts(theirs[stage]) == facts(artifact), stage


@pytest.mark.slow
@pytest.mark.usefixtures("cluster")
def test_commands_on_files_give_the_same(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    collection(tmp_path / "data", 60, 30)
    lines = [f"q{query} Q0 d{(query * 7 + rank) % 40} {rank} {9 - rank} x" for query in range(30) for rank in range(9)]
    (tmp_path / "run.trec").write_text("\n".join(lines) + "\n")
    reranker = cross_encoder(tmp_path / "reranker")
    mining = ["mine", "--form", "n-tuple", "--count", "2", "--scores"]
    ranking = ["rerank", "--reranker", f"cross-encoder:{reranker}", "--option", "length=32", "--split", "train"]
    for command, name in ((mining, "mined.jsonl"), (ranking, "ranked.trec.gz")):
        for engine in (["local"], ["ray", "--engine-option", "actors=1", "--engine-option", "num_cpus=1"]):
            monkeypatch.setenv("HARDNEG_STORE", f"{tmp_path}/{engine[0]}-store")  # so that neither takes the other's
            given = ["--dataset", "beir:data", "--run", "run.trec", "--device", "cpu", "--engine", *engine]
            done = CliRunner().invoke(app, [*command, *given, "--output", f"{engine[0]}-{name}"])
            assert done.exit_code == 0, done.output
        assert (tmp_path / f"local-{name}").read_bytes() == (tmp_path / f"ray-{name}").read_bytes(), name


def test_several_processes_and_a_cluster_are_refused(monkeypatch):
    with monkeypatch.context() as launched:
        launched.setenv("WORLD_SIZE", "2")
        launched.setenv("RANK", "0")
        launched.setattr("hardneg.cli.recipe.together", nullcontext)  # there is no other process to meet
        done = CliRunner().invoke(app, ["recipe", "run", "star-passage", "--engine", "ray"])
    assert "--engine ray: it starts its own processes" in str(done.exception)
    done = CliRunner().invoke(app, ["recipe", "run", "star-passage", "--engine", "ray", "--engine-option", "actor=2"])
    assert "ray has no such option; did you mean 'actors'" in str(done.exception)


BENCHMARKS = Path(__file__).parents[1] / "benchmarks"
_spec = importlib.util.spec_from_file_location("kill_campaign", BENCHMARKS / "kill_campaign.py")
assert _spec is not None and _spec.loader is not None
campaign = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(campaign)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["actor", "driver", "raylet"])
def test_no_block_is_lost(kind: str, tmp_path: Path) -> None:
    told = campaign.killed_run(tmp_path, kind, random.Random(1))
    campaign.runs_until_done(tmp_path)
    assert told.startswith(kind) and campaign.check(tmp_path) == 60


@pytest.mark.slow
def test_machines_come_and_go() -> None:
    done = subprocess.run([sys.executable, BENCHMARKS / "three_nodes.py"], capture_output=True, text=True)
    assert done.returncode == 0 and "60 blocks, each finished" in done.stdout, done.stdout + done.stderr


DEPLOY = Path(__file__).parents[1] / "deploy"


@pytest.mark.parametrize("name", ["slurm-ray.sbatch", "slurm-torchrun.sbatch"])
def test_the_batch_files_are_sound_shell(name: str) -> None:
    path = DEPLOY / name
    subprocess.run(["bash", "-n", path], check=True)
    lines = path.read_text().splitlines()
    asked = [number for number, line in enumerate(lines) if line.startswith("#SBATCH --")]
    first = next(number for number, line in enumerate(lines) if line and not line.startswith("#"))
    assert len(asked) > 5 and max(asked) < first  # Slurm reads none behind the first command
    for told in ({}, {"HARDNEG_STORE": "/shared"}):
        done = subprocess.run(["bash", path], env={"PATH": "/usr/bin:/bin", **told}, capture_output=True, text=True)
        assert done.returncode and ("HARDNEG_STORE=" if not told else "missing argument RECIPE") in done.stderr


def test_their_commands_have_the_options_that_are_given() -> None:
    job = yaml.safe_load((DEPLOY / "rayjob.yaml").read_text())["spec"]
    assert job["rayClusterSpec"]["rayVersion"] == version("ray")
    told = job["entrypoint"].split()
    assert told[0] == "hardneg"
    done = CliRunner().invoke(app, [*told[1:3], "--help"], env={"COLUMNS": "200"})
    assert all(word in done.output for word in told if word.startswith("--"))
    line = [sys.executable, "-m", "ray.scripts.scripts", "symmetric-run", "--help"]
    helped = subprocess.run(line, capture_output=True)
    assert b"--min-nodes" in helped.stdout and b"--address" in helped.stdout
