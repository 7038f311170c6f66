"""Indexes, negatives and runs on the hub, opened by the libraries, with cards of written queries."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
import yaml
from command_line import hardneg
from hardneg_hub.prepare import prepare
from hardneg_hub.pushing import Push

from hardneg.formats.negatives import write_negatives
from hardneg.formats.vectors import FlatVectors, FlatWriter
from hardneg.records import LOCK, ArtifactError, DataError, Negatives
from hardneg.store import Store

VECTORS = np.eye(3, 4, dtype=np.float32)


def send(folder: Path, store: Store, scratch: Path, name: str = "org/made", **wanted: Any) -> None:
    upload = prepare(folder, name, store, scratch, **wanted)
    Push.planned(upload, name).send()


def written(files: Mapping[str, bytes], folder: Path) -> Path:
    for place, data in files.items():
        (folder / place).parent.mkdir(parents=True, exist_ok=True)
        (folder / place).write_bytes(data)
    return folder


@pytest.fixture
def scratch(tmp_path: Path) -> Path:
    folder = tmp_path / "scratch"
    folder.mkdir()
    return folder


@pytest.fixture
def index(tmp_path: Path) -> Path:
    folder = tmp_path / "vectors"
    with FlatWriter(folder, 4, 3) as writer:
        writer.write(VECTORS)
        writer.write_doc_ids(["d1", "d2", "d3"])
        writer.close()
    return folder


@pytest.fixture
def negatives(tmp_path: Path) -> Path:
    path = tmp_path / "mined" / "negatives.arrow"
    path.parent.mkdir()
    rows = [Negatives(f"q{number}", ["d1"], ["d2", "d3"], np.array([2.5, 1.0], np.float32)) for number in range(3)]
    write_negatives(path, rows)
    return path


def test_an_index_goes_without_what_is_no_part_of_it(hub, index, store, scratch, tmp_path):
    (index / "notes.txt").write_text("mine")
    send(index, store, scratch, encoder="org/tiny")
    files = hub.files["org/made"]["main"]
    assert set(files) == {"README.md", "docid", "index"}
    card = files["README.md"].decode()
    assert "viewer: false" in card and "- Rows: 3" in card
    assert 'folder = snapshot_download("org/made", repo_type="dataset")\nsearcher = FaissSearcher(folder, None)' in card
    assert "# org/made: the card of org/tiny describes how its queries are encoded" in card and str(index) not in card
    fetched = written(files, tmp_path / "fetched")
    assert len(FlatVectors.open(fetched)) == 3 and (fetched / "index").read_bytes() == (index / "index").read_bytes()


@pytest.mark.parametrize("form", ["file", "folder"])
def test_negatives_are_a_dataset(hub, negatives, store, scratch, tmp_path, form):
    datasets = pytest.importorskip("datasets")
    send(negatives if form == "file" else negatives.parent, store, scratch)
    files = hub.files["org/made"]["main"]
    assert set(files) == {"README.md", "data/train-00000-of-00001.parquet"}
    local = written(files, tmp_path / "fetched")
    found = datasets.load_dataset(str(local), split="train", cache_dir=str(tmp_path / "cache"))
    assert found[1] == {"query_id": "q1", "positives": ["d1"], "negatives": ["d2", "d3"], "scores": [2.5, 1.0]}
    assert len(found) == 3


def test_what_a_table_tells_of_its_writer_stays(hub, store, scratch, tmp_path):
    import pyarrow as pa
    from pyarrow import parquet

    folder = tmp_path / "tables"
    folder.mkdir()
    table = pa.table({"anchor": ["a"], "negative": ["b"]}).replace_schema_metadata({"written by": "/home/anna"})
    for split in ("train", "dev"):
        parquet.write_table(table, folder / f"{split}.parquet")
    send(folder, store, scratch)
    files = hub.files["org/made"]["main"]
    assert {"data/train-00000-of-00001.parquet", "data/dev-00000-of-00001.parquet"} < set(files)
    assert not any(b"/home/anna" in data for data in files.values())


def test_a_runs_negatives_come_from_the_store(run, store, scratch):
    with pytest.raises(ArtifactError, match="has no negatives of 'static'; set store to the run's store"):
        prepare(run, "org/made", store, scratch, "negatives")


def test_a_folder_of_a_run_without_its_lock_is_no_finished_run(run, store, scratch):
    (run / LOCK).unlink()
    for what in (None, "index", "model"):
        with pytest.raises(DataError, match=r"not a finished run, as recipe.lock.yaml is missing; rerun the recipe"):
            prepare(run, "org/made", store, scratch, what)


def test_an_artifact_of_the_store_is_compared_with_its_manifest(run, store, negatives, scratch, tmp_path):
    key = yaml.safe_load((run / "recipe.lock.yaml").read_text())["keys"]["star"]
    for place in (store.root / key, store.root / key / "model"):
        card = prepare(place, "org/made", store, scratch).card
        assert f"- Key: `{key}`" in card and 'SentenceTransformer("org/made")' in card
    other = Store(tmp_path / "other")
    (other.workspace("a" * 32) / "negatives.arrow").write_bytes(negatives.read_bytes())
    miner = {"name": "topk", "options": {"depth": 10}}
    made = other.commit("a" * 32, "negatives", {}, {"stage": "mine", "plugins": {"miner": miner}, "inputs": {}})
    card = prepare(made.path, "org/made", other, scratch).card
    assert '- Miner: `topk` with `{"depth": 10}`' in card
    (made.path / "negatives.arrow").chmod(0o644)
    (made.path / "negatives.arrow").write_bytes(b"0" * negatives.stat().st_size)
    with pytest.raises(ArtifactError, match="has changed since it was written"):
        prepare(made.path / "negatives.arrow", "org/made", other, scratch)


@pytest.mark.slow
def test_the_card_names_the_stage_that_made_them(tmp_path: Path, tiny_model: Path) -> None:
    data = tmp_path / "docs"
    (data / "qrels").mkdir(parents=True)
    texts = [" ".join(f"word{number}x{each} of the page." for each in range(30)) for number in range(12)]
    rows = [json.dumps({"_id": f"d{number}", "text": text}) for number, text in enumerate(texts)]
    (data / "corpus.jsonl").write_text("\n".join(rows))
    (data / "queries.jsonl").write_text('{"_id": "q1", "text": "word0x1"}\n')
    (data / "qrels" / "train.tsv").write_text("q1\td0\t1\n")
    recipe, store, out = tmp_path / "r.yaml", tmp_path / "store", tmp_path / "out"
    recipe.write_text(
        f"dataset: beir:{data}\nmodel: {tiny_model}\nstages:\n"
        "  written: {stage: write-queries, writers: [crop], dev_share: 0.0, test_share: 0.0, split_by: passage}\n"
        "  vectors: {stage: encode, dataset: written}\n"
        "  listed: {stage: search, index: vectors, split: train, depth: 5, dataset: written}\n"
        "  kept: {stage: round-trip, run: listed, depth: 5, dataset: written}\n"
        "  mined: {stage: mine, runs: {dense: kept}, miner: topk, dataset: kept}\n"
    )
    hardneg("recipe run", recipe, "--output", out, "--device", "cpu", "--store", store)
    upload = prepare(out, "org/name", Store(store), tmp_path, "negatives")
    assert "Negatives of the train queries of docs (written by stage `kept`)" in upload.card
    rows = pq.read_table(tmp_path / "train-00000-of-00001.parquet").to_pylist()
    assert rows and all(row["query_id"].startswith("crop:") and row["positives"] for row in rows)
