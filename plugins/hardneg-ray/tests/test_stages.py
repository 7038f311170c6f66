"""What four actors make of encode, search, mine and rerank: the bytes that one process makes."""

from pathlib import Path

import pytest
import yaml
from hardneg_ray.engine import Ray
from small_work import collection, cross_encoder, recipe
from typer.testing import CliRunner

from hardneg.cli.main import app
from hardneg.recipe.execute import Options, Watcher, execute
from hardneg.recipe.load import load_recipe
from hardneg.recipe.plan import Plan, make_plan
from hardneg.store.artifacts import MANIFEST, Artifact, Store
from hardneg.verbs.shared.engine import Engine
from hardneg.verbs.shared.local_engine import Local

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


@pytest.mark.slow
@pytest.mark.usefixtures("cluster")
@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("far", [False, True])
def test_shards_have_the_bytes_of_one_process(tmp_path: Path, shared: bool, far: bool) -> None:
    tree = yaml.safe_load(recipe(tmp_path).read_text())
    found = {}
    for name, engine in (("own", Local()), ("ray", Ray(actors=4, num_cpus=1, shared=shared))):
        place = {"place": f"file://{tmp_path}/far-{name}"} if far else {}
        tree["stages"] = {"index": {"stage": "encode", "shards": 2, **place}}
        (tmp_path / "shards.yaml").write_text(yaml.safe_dump(tree))
        plan = make_plan(load_recipe(tmp_path / "shards.yaml"))
        artifact = made(plan, tmp_path / f"{name}-store", engine)["index"]
        folder = tmp_path / f"far-{name}" if far else artifact.path
        files = (path for path in sorted(folder.rglob("*")) if path.is_file() and path.name != MANIFEST)
        found[name] = {path.relative_to(folder): path.read_bytes() for path in files}
        assert facts(artifact)["passages"] == 9000
    assert found["own"] == found["ray"]
    assert sum(path.name == "index" for path in found["ray"]) == 2


@pytest.mark.slow
@pytest.mark.usefixtures("cluster")
def test_commands_on_files_give_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HARDNEG_STORE", str(tmp_path / "store"))
    monkeypatch.chdir(tmp_path)
    collection(tmp_path / "data", 60, 30)
    lines = [f"q{query} Q0 d{(query * 7 + rank) % 40} {rank} {9 - rank} x" for query in range(30) for rank in range(9)]
    (tmp_path / "run.trec").write_text("\n".join(lines) + "\n")
    reranker = cross_encoder(tmp_path / "reranker")
    mining = ["mine", "--form", "n-tuple", "--count", "2", "--scores"]
    ranking = ["rerank", "--reranker", f"cross-encoder:{reranker}", "--option", "length=32", "--split", "train"]
    for command, name in ((mining, "mined.jsonl"), (ranking, "ranked.trec.gz")):
        for engine in (["local"], ["ray", "--engine-option", "actors=1", "--engine-option", "num_cpus=1"]):
            given = ["--dataset", "beir:data", "--run", "run.trec", "--device", "cpu", "--engine", *engine]
            done = CliRunner().invoke(app, [*command, *given, "--output", f"{engine[0]}-{name}"])
            assert done.exit_code == 0, done.output
        assert (tmp_path / f"local-{name}").read_bytes() == (tmp_path / f"ray-{name}").read_bytes(), name


def test_several_processes_and_a_cluster_are_refused() -> None:
    done = CliRunner().invoke(app, ["recipe", "run", "star-passage", "--engine", "ray", "--num-processes", "2"])
    assert "--engine ray: it starts its own processes" in str(done.exception)
    done = CliRunner().invoke(app, ["recipe", "run", "star-passage", "--engine", "ray", "--engine-option", "actor=2"])
    assert "ray has no such option; did you mean 'actors'" in str(done.exception)
