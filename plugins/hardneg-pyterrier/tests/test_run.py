"""A stored run gives its lists, in its order, and composes."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hardneg_pyterrier import Run


@pytest.fixture
def path(tmp_path: Path) -> Path:
    (tmp_path / "a.trec").write_text("1 Q0 d1 1 3.5 a\n1 Q0 d2 2 2.5 a\n1 Q0 d3 3 1.5 a\n2 Q0 d9 1 7 a\n")
    return tmp_path / "a.trec"


@pytest.fixture
def asked() -> pd.DataFrame:
    return pd.DataFrame([["2", "b", "x"], ["other", "c", "y"], ["1", "a", "z"]], columns=["qid", "query", "topic"])


def test_lists_stand_in_the_order_of_the_queries(path: Path, asked: pd.DataFrame):
    found = Run(path)(asked)
    assert found.to_numpy().tolist() == [
        ["2", "b", "x", "d9", 7.0, 0],
        ["1", "a", "z", "d1", 3.5, 0],
        ["1", "a", "z", "d2", 2.5, 1],
        ["1", "a", "z", "d3", 1.5, 2],
    ]
    assert found.columns.tolist() == ["qid", "query", "topic", "docno", "score", "rank"]


def test_depth_and_queries_without_a_list(path: Path, asked: pd.DataFrame):
    assert Run(path, depth=1)(asked)["docno"].tolist() == ["d9", "d1"]
    for nothing in (asked[asked["qid"] == "other"], asked.head(0)):
        assert list(Run(path)(nothing).columns) == ["qid", "query", "topic", "docno", "score", "rank"]
        assert not len(Run(path)(nothing))


def test_runs_compose(path: Path, asked: pd.DataFrame):
    queries = asked[["qid", "query"]]
    assert (Run(path) % 1)(queries)["docno"].tolist() == ["d9", "d1"]
    twice = (Run(path) + Run(path))(queries)
    np.testing.assert_allclose(sorted(twice["score"]), [3.0, 5.0, 7.0, 14.0])
