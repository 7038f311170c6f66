"""Tiny repositories in the layouts that real ones have on the hub."""

import io
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from hub_server import Hub

Rows = Sequence[Mapping[str, Any]]
MTEB_MSMARCO = "c5a29a104738b98a9e76336939199e264163d4a0"
MTEB_FIQA = "27a168819829fe9bcd655c2df245fb19452e8e06"
_CARD = """---
configs:
- config_name: default
  data_files:
{splits}
- config_name: corpus
  data_files:
  - split: corpus
    path: corpus.jsonl
- config_name: queries
  data_files:
  - split: queries
    path: queries.jsonl
---
"""


def jsonl(rows: Iterable[Mapping[str, Any]]) -> bytes:
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


def parquet(rows: Rows) -> bytes:
    buffer = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(list(rows)), buffer)
    return buffer.getvalue()


def mteb(corpus: Rows, queries: Rows, qrels: Mapping[str, Rows]) -> dict[str, bytes]:
    """MTEB's layout: a card that names configurations, JSON Lines."""
    lines = "\n".join(f"  - split: {split}\n    path: qrels/{split}.jsonl" for split in qrels)
    judged = {f"qrels/{split}.jsonl": jsonl(rows) for split, rows in qrels.items()}
    card = _CARD.format(splits=lines).encode()
    return {"README.md": card, "corpus.jsonl": jsonl(corpus), "queries.jsonl": jsonl(queries), **judged}


def beir_folder(folder: Path) -> tuple[Rows, Rows, dict[str, Rows]]:
    """The corpus, queries and qrels of a folder in BEIR's form, as rows of the hub's tables."""
    corpus = [json.loads(line) for line in (folder / "corpus.jsonl").read_text().splitlines()]
    queries = [json.loads(line) for line in (folder / "queries.jsonl").read_text().splitlines()]
    qrels: dict[str, Rows] = {}
    for path in sorted((folder / "qrels").glob("*.tsv")):
        cells = [line.split("\t") for line in path.read_text().splitlines()[1:]]
        qrels[path.stem] = [{"query-id": a, "corpus-id": b, "score": float(c)} for a, b, c in cells]
    return corpus, queries, qrels


def add_mteb(hub: Hub, folder: Path) -> None:
    """A folder in BEIR's form as `mteb/msmarco` and `mteb/fiqa`, at the commits that the recipes name."""
    for name, commit in (("mteb/msmarco", MTEB_MSMARCO), ("mteb/fiqa", MTEB_FIQA)):
        hub.dataset(name, mteb(*beir_folder(folder)), commits={"main": commit})


def dpr_folder(folder: Path, beir: Path) -> None:
    """A folder in BEIR's form as DPR's published files: passages, judged questions, questions with answers."""
    corpus, queries, qrels = beir_folder(beir)
    texts = {row["_id"]: row["text"] for row in corpus}
    asked = {row["_id"]: row["text"] for row in queries}
    folder.mkdir(parents=True)
    lines = ["id\ttext\ttitle", *(f"{row['_id']}\t{row['text']}\tt" for row in corpus)]
    (folder / "psgs_w100.tsv").write_text("\n".join(lines) + "\n")
    for split in ("train", "dev"):
        rows = [
            {"question": asked[row["query-id"]], "answers": [texts[row["corpus-id"]].split()[2]]}
            | {"positive_ctxs": [{"passage_id": row["corpus-id"]}]}
            for row in qrels[split]
        ]
        (folder / f"biencoder-nq-{split}.json").write_text(json.dumps(rows))
    answered = [f"{asked[row['query-id']]}\t{[texts[row['corpus-id']].split()[2]]!r}" for row in qrels["test"]]
    (folder / "nq-test.qa.csv").write_text("\n".join(answered) + "\n")
