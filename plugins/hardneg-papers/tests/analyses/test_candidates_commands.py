import numpy as np
import pytest
from cli.analyze_command import call, printed

from hardneg.formats.runs import write_run
from hardneg.records.types import RankedList


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    for name, ids in (("bm25", "abcd"), ("bm25-reranked", "dcab"), ("dense", "dbca")):
        write_run(folder / f"{name}.trec", [("q", RankedList(list(ids), np.array([9, 3, 1, 0], np.float32)))])
    (folder / "qrels.txt").write_text("q 0 a 2\nq 0 d 3\nq 0 c 1\n")
    return folder


def test_candidates(files, tmp_path):
    asked = ["candidates", "--qrels", files / "qrels.txt", "--run", files / "bm25.trec"]
    asked += ["--reranked", files / "bm25-reranked.trec", "--metric", "mrr@10", "--relevance-level", 3]
    found = printed(*asked, "--depth", 2, "--depth", 4, "--plot", tmp_path / "c.png")
    assert [row["quality"] for row in found["runs"]["bm25.trec"]] == [0.0, 1.0]
    assert "1,000" in call(*asked).stdout
    assert "2 --reranked for 1 --run" in str(call(*asked, "--reranked", files / "dense.trec").exception)
