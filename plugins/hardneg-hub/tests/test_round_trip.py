"""A finished recipe is pushed by the command, and opened by its name by the libraries that users open it with."""

import json
import os
import sys
from pathlib import Path

import forked
import pytest
from fake_hub import FakeHub, asking
from hub_server import TOKEN, hub_server
from recipes.recipes import small_collection, small_tree, write_recipe
from typer.testing import CliRunner

from hardneg.cli.main import app

pytestmark = pytest.mark.slow
pytest.importorskip("datasets")
OPENED = """
import json, sys
from pathlib import Path
from datasets import load_dataset
from huggingface_hub import HfApi, ModelCard, snapshot_download
from sentence_transformers import SentenceTransformer
from hardneg.formats.vectors import FlatVectors
from hardneg.encoders.encoder import Encoder
from hardneg.encoders.spec import ModelSpec

texts = ["old river", "the quiet engine was seen again"]
there = SentenceTransformer("org/model", device="cpu").encode_document(texts)
here = SentenceTransformer(sys.argv[1], device="cpu").encode_document(texts)
mined = load_dataset("org/negatives", split="train")
index = Path(snapshot_download("org/index", repo_type="dataset"))
[result] = ModelCard.load("org/model").data.eval_results[:1]
print(json.dumps({
    "vectors": bool((there == here).all()),
    "negatives": [mined.num_rows, mined.column_names],
    "index": len(FlatVectors.open(index)),
    "score": [result.metric_type, result.metric_value, result.dataset_split],
}))
"""


def run(*words: str, environment: dict[str, str]) -> str:
    done = forked.run([sys.executable, *words], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory, tiny_model: Path) -> tuple[FakeHub, Path, dict[str, object]]:
    folder = tmp_path_factory.mktemp("round-trip")
    tree = small_tree(small_collection(folder / "data"), tiny_model)
    del tree["presets"]["longer"]
    recipe, out = write_recipe(folder / "r.yaml", tree), folder / "run"
    store = str(folder / "cache" / "store")
    offline = {**os.environ, "HF_HUB_OFFLINE": "1", "HARDNEG_STORE": store}
    run("-m", "hardneg", "recipe", "run", str(recipe), "--output", str(out), environment=offline)
    with pytest.MonkeyPatch.context() as patched, hub_server() as server:
        made = asking(patched)
        for name, what in {"model": (), "index": ("index",), "negatives": ("negatives",)}.items():
            words = ["push", str(out), "--repo", f"org/{name}", "--store", store, *(["--what", *what] if what else [])]
            ended = CliRunner().invoke(app, words)
            assert ended.exit_code == 0, ended.output
            (server.dataset if what else server.model)(f"org/{name}", made.files[f"org/{name}"]["main"])
        found = run("-c", OPENED, str(out / "model"), environment=server.environment(folder / "cache"))
    return made, folder, json.loads(found.splitlines()[-1])


def test_everything_is_opened_by_its_name(told: tuple[FakeHub, Path, dict[str, object]]) -> None:
    _, folder, found = told
    scores = json.loads((folder / "run" / "metrics.json").read_text())["metrics"]["STAR"]
    assert found == {
        "vectors": True,
        "negatives": [36, ["query_id", "positives", "negatives", "scores"]],
        "index": 60,
        "score": ["mrr_at_10", round(scores["mrr@10"], 5), "test"],
    }


def test_no_pushed_byte_tells_of_this_machine(told: tuple[FakeHub, Path, dict[str, object]]) -> None:
    hub, folder, _ = told
    files = [data for branches in hub.files.values() for data in branches["main"].values()]
    assert len(files) > 15
    for private in (str(folder), TOKEN):
        assert not any(private.encode() in data for data in files)
