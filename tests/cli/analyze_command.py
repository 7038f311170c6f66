"""`hardneg analyze`, called."""

import json

import command_line
import numpy as np

from hardneg.formats.negatives import write_negatives
from hardneg.formats.runs import write_run
from hardneg.records import Negatives, RankedList


def call(*words):
    return command_line.call("analyze", *words)


def printed(*words):
    return json.loads(command_line.hardneg("analyze", *words, "--json").stdout)


SPARSE = {"q1": ["a", "b", "c"], "q2": ["d", "a", "b"]}
DENSE = {"q1": ["b", "x", "a"], "q2": ["d", "y", "z"]}


def run_files(folder):
    """Runs, negatives and what they are of, in a folder; returns it."""
    for name, lists in (("bm25", SPARSE), ("dense", DENSE)):
        entries = [(query_id, RankedList(ids, np.array([9, 3, 1], np.float32))) for query_id, ids in lists.items()]
        write_run(folder / f"{name}.trec", entries)
    (folder / "qrels.txt").write_text("q1 0 b 2\nq1 0 a 0\nq2 0 d 1\n")
    (folder / "queries.jsonl").write_text('{"_id": "q1", "text": "what is b"}\n{"_id": "q2", "text": "d"}\n')
    rows = ['{"_id": "b", "title": "B", "text": "the letter"}', '{"_id": "z", "text": "last"}']
    (folder / "corpus.jsonl").write_text("\n".join(rows) + "\n")
    mined = [Negatives("q1", ["b"], ["a", "c"], np.zeros(2, np.float32))]
    write_negatives(folder / "negatives.arrow", mined)
    return folder
