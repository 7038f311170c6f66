import numpy as np
import pytest
from cli.analyze_command import call, printed

from hardneg.formats.runs import write_run
from hardneg.records import RankedList


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    for name, ids in (("bm25", "abcd"), ("bm25-reranked", "dcab"), ("dense", "dbca")):
        write_run(folder / f"{name}.trec", [("q", RankedList(list(ids), np.array([9, 3, 1, 0], np.float32)))])
    (folder / "qrels.txt").write_text("q 0 a 2\nq 0 d 3\nq 0 c 1\n")
    return folder


def test_depths(files, tmp_path):
    asked = ["recall-at-depth", "--qrels", files / "qrels.txt"]
    asked += ["--run", files / "bm25.trec", "--run", files / "dense.trec"]
    asked += ["--depth", 2, "--depth", 4, "--relevance-level", 2]
    found = printed(*asked, "--plot", tmp_path / "d.svg")
    assert (tmp_path / "d.svg").read_text().count("<svg") == 1
    assert found["depths"] == [2, 4] and found["runs"]["bm25.trec"]["recall"] == [0.5, 1.0]
    assert "recall@2" in call(*asked).stdout
