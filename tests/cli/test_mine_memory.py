"""`hardneg mine` takes no more memory for ten times as many documents, with each kind of encoder."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tiny import BY_FAMILY

FEW, MANY, QUERIES = 2_000, 20_000, 50
MOST = 120 << 20
"""Bytes between the two: a block of documents, what was mapped of the store, and noise."""


def collection(folder: Path, documents: int) -> Path:
    """Documents of eight words."""
    (folder / "qrels").mkdir(parents=True)
    with (folder / "corpus.jsonl").open("w") as file:
        for row in range(documents):
            words = " ".join(chr(97 + (row * step + step) % 26) + str(row % (step + 7)) for step in range(8))
            file.write(json.dumps({"_id": f"d{row}", "title": "", "text": words}) + "\n")
    queries = [{"_id": f"q{row}", "text": f"b{row} c{row % 9}"} for row in range(QUERIES)]
    (folder / "queries.jsonl").write_text("\n".join(map(json.dumps, queries)))
    judged = "".join(f"q{row}\td{row}\t1\n" for row in range(QUERIES))
    (folder / "qrels" / "train.tsv").write_text("query-id\tcorpus-id\tscore\n" + judged)
    return folder


def peak(model: Path, data: Path, folder: Path) -> int:
    """Bytes of memory that the command took at most."""
    output = folder / "negatives.jsonl"
    words = ["mine", "--dataset", f"beir:{data}", "--model", model, "--depth", "20", "--output", output]
    words += ["--device", "cpu", "--store", folder / "store"]
    process = subprocess.Popen([sys.executable, "-m", "hardneg", *map(str, words)], stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0
    assert len(output.read_text().splitlines()) == QUERIES
    return usage.ru_maxrss * 1024


@pytest.mark.slow
@pytest.mark.parametrize("kind", BY_FAMILY)
def test_memory_does_not_grow_with_the_corpus(tmp_path: Path, kind: str) -> None:
    model = BY_FAMILY[kind](tmp_path / "model")
    found = []
    for documents in (FEW, MANY):
        place = tmp_path / str(documents)
        found.append(peak(model, collection(place / "data", documents), place))
    print(kind, *(f"{size / 1e6:.0f} MB" for size in found))
    assert found[1] - found[0] < MOST, found
