"""A BEIR folder with every fault that a check knows."""

import gzip
import json
import random
from pathlib import Path

FAULTS = {
    ("repeated document ids", "corpus.jsonl.gz", 3),
    ("empty texts", "corpus.jsonl.gz", 4),
    ("invalid ids", "corpus.jsonl.gz", 5),
    ("bytes that are not UTF-8", "corpus.jsonl.gz", 6),
    ("document texts under two ids", "corpus.jsonl.gz", 7),
    ("truncated or damaged files", "corpus.jsonl.gz", 8),
    ("queries in two splits", "test.tsv", 2),
    ("judgements of unknown documents", "test.tsv", 3),
    ("wrong numbers of columns", "test.tsv", 4),
}


def write_broken(folder: Path) -> None:
    """Writes `corpus.jsonl.gz`, cut off in its eighth line, `queries.jsonl` and the qrels of train and test."""
    noise = "".join(random.Random(0).choices("abcdefghijklmnopqrstuvwxyz ", k=20_000))
    rows = [("d1", "river"), ("d2", "bridge"), ("d1", "harbor"), ("d4", " "), ("d 5", "tower"), ("d6", "\udcff")]
    rows += [("d7", "bridge"), ("d8", noise)]
    lines = [f'{{"_id": "{name}", "text": "{text}"}}\n'.encode(errors="surrogateescape") for name, text in rows]
    (folder / "corpus.jsonl.gz").write_bytes(gzip.compress(b"".join(lines))[:-2000])
    queries = [{"_id": "q1", "text": "water"}, {"_id": "q2", "text": "stone"}]
    (folder / "queries.jsonl").write_text("".join(json.dumps(row) + "\n" for row in queries))
    (folder / "qrels").mkdir()
    (folder / "qrels" / "train.tsv").write_text("query-id\tcorpus-id\tscore\nq1\td1\t1\n")
    (folder / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\nq1\td2\t1\nq2\td99\t1\nq2\td1\n")
