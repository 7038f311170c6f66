from pathlib import Path
from types import MappingProxyType

import numpy as np
from hardneg_example.lengths import Lengths

from hardneg.analysis.base import Analysis, Files
from hardneg.formats.runs import write_run
from hardneg.records import RankedList
from hardneg.testing import AnalysisTests

CORPUS = """\
{"_id": "d1", "text": "one two three"}
{"_id": "d2", "title": "a", "text": "b"}
{"_id": "d3", "text": "x"}
"""


def files(asked: Analysis, folder: Path, qrels: str = "q1 0 d2 1\nq2 0 d1 0\nq2 0 d2 1\n") -> Files:
    scores = np.array([3, 2, 1], np.float32)
    lists = {"q1": RankedList(["d1", "d2", "d9"], scores), "q2": RankedList(["d1"], scores[:1])}
    write_run(folder / "a.trec", lists.items())
    (folder / "corpus.jsonl").write_text(CORPUS)
    (folder / "qrels.txt").write_text(qrels)
    named = {path: str(folder / name) for path, name, _ in asked.references()}
    return Files(named, judged=folder / "qrels.txt" if qrels else None, corpus=folder / "corpus.jsonl")


class TestLengths(AnalysisTests):
    analysis = Lengths
    mapping = MappingProxyType({"runs": {"a": "a.trec"}})

    def inputs(self, asked: Analysis, folder: Path) -> Files:
        return files(asked, folder)


def test_what_it_measures(tmp_path: Path) -> None:
    """The list of q1 has a document of three words, one of two words including the title, and an unknown one."""
    asked = Lengths(runs={"a": "a.trec"})
    found = asked.measure(files(asked, tmp_path))
    assert found["runs"]["a"] == {"words": (3 + 2 + 3) / 3, "documents": 3, "unknown": 1}
    assert found["relevant"] == {"words": 2.0, "documents": 2, "unknown": 0}
    assert asked.table(found).rows == [["a", "2.7", "3", "1"], ["(relevant)", "2.0", "2", "0"]]


def test_without_judgements_the_runs_stand_alone(tmp_path: Path) -> None:
    asked = Lengths(runs={"a": "a.trec"}, depth=1)
    found = asked.measure(files(asked, tmp_path, qrels=""))
    assert found == {"depth": 1, "runs": {"a": {"words": 3.0, "documents": 2, "unknown": 0}}, "relevant": None}
    assert len(asked.table(found).rows) == 1
