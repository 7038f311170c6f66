"""Negatives of queries that a stage has written."""

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from command_line import hardneg
from hardneg_hub.prepare import prepare

from hardneg.store import Store


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
    assert "Negatives of the train queries that stage `kept` made of docs" in upload.card
    rows = pq.read_table(tmp_path / "train-00000-of-00001.parquet").to_pylist()
    assert rows and all(row["query_id"].startswith("crop:") and row["positives"] for row in rows)
