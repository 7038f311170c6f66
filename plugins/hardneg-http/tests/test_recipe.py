"""Tests of a served model in a recipe: it encodes, searches, mines and is evaluated, but cannot be trained."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from embedding_server import Served, serving, vector

from hardneg.formats.negatives import read_negatives
from hardneg.formats.vectors import FlatVectors
from hardneg.recipes import Options, Watcher, execute, load_recipe, make_plan, needs
from hardneg.store import Store


@pytest.fixture
def served() -> Iterator[Served]:
    with serving() as server:
        yield server


def tree_of(folder: Path, served: Served) -> dict[str, Any]:
    """Return a recipe tree with ten documents, each relevant to the query with the same number."""
    (folder / "data" / "qrels").mkdir(parents=True)
    for name, text in (("corpus", "the text of"), ("queries", "which is")):
        prefix = name[0].replace("c", "d")
        rows = [json.dumps({"_id": f"{prefix}{row}", "text": f"{text} {row}"}) for row in range(10)]
        (folder / "data" / f"{name}.jsonl").write_text("\n".join(rows) + "\n")
    for split in ("train", "test"):
        lines = "".join(f"q{row}\td{row}\t1\n" for row in range(10) if (row < 6) == (split == "train"))
        (folder / "data" / "qrels" / f"{split}.tsv").write_text("query-id\tcorpus-id\tscore\n" + lines)
    encoder = {"name": "http", "url": served.url, "key": "A_KEY", "batch": 3}
    search = {"stage": "search", "index": "index", "depth": 10}
    stages = {
        "index": {"stage": "encode"},
        "train-run": {**search, "split": "train"},
        "test-run": search,
        "mined": {"stage": "mine", "runs": {"dense": "train-run"}, "miner": {"name": "topk", "depth": 4}},
        "scores": {"stage": "evaluate", "runs": {"served": "test-run"}, "metrics": ["mrr@10"]},
    }
    model = {"name": "m", "encoder": encoder, "query_prompt": "query: "}
    return {"dataset": f"beir:{folder / 'data'}", "model": model, "stages": stages}


def written(folder: Path, tree: dict[str, Any]) -> Path:
    path = folder / "r.yaml"
    path.write_text(yaml.safe_dump(tree, sort_keys=False))
    return path


def test_from_encoding_to_measures(tmp_path: Path, served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("A_KEY", "s3cret")
    plan = make_plan(load_recipe(written(tmp_path, tree_of(tmp_path, served))))
    (told,) = (need for need in needs(plan) if need.category == "model")
    assert told.note == f"served at {served.url}" and served.requests == []
    artifacts = execute(plan, Store(tmp_path / "store"), Options(device="cpu"), Watcher()).artifacts
    vectors = np.stack([vector(f"the text of {row}") for row in range(10)])
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    found = FlatVectors.open(artifacts["index"].path)
    np.testing.assert_allclose(found.read(0, 10), vectors, atol=1e-6)
    for item in read_negatives(artifacts["mined"].path / "negatives.arrow"):
        row = int(item.query_id[1:])
        best = np.argsort(-(vectors @ vector(f"query: which is {row}")))[:5]
        assert list(item.negatives) == [f"d{place}" for place in best if place != row][:4]
    assert len(set(served.texts)) == 21 and set(served.keys) == {"Bearer s3cret"}
    for path in (tmp_path / "store").rglob("*"):
        assert not path.is_file() or b"s3cret" not in path.read_bytes()
