import gzip

import numpy as np
import pytest

from hardneg.data.run_stream import stream_run
from hardneg.data.runs import write_run
from hardneg.errors import DataError


def test_a_run_comes_back_query_by_query(tmp_path):
    path = tmp_path / "run.trec.gz"
    entries = [("q2", ["a", "b"], np.float32([2, 1])), ("q1", ["c"], np.float32([0.5]))]
    write_run(path, entries, "tag")
    found = list(stream_run(path))
    assert [(query_id, doc_ids, scores.tolist()) for query_id, doc_ids, scores in found] == [
        ("q2", ["a", "b"], [2.0, 1.0]),
        ("q1", ["c"], [0.5]),
    ]


def test_a_truncated_run_is_told(tmp_path):
    path = tmp_path / "run.trec.gz"
    write_run(path, [(f"q{i}", ["a", "b"], np.float32([2, 1])) for i in range(500)], "tag")
    content = path.read_bytes()
    for damaged in (content[:-20], content[:30] + b"\xff\x00" + content[30:]):
        path.write_bytes(damaged)
        with pytest.raises(DataError, match="cut off"):
            list(stream_run(path))


@pytest.mark.parametrize(
    ("line", "message"), [("q1 Q0 a 1 0.5\n", ":1: 5 columns"), ("q Q0 a 1 x t\n", "not a number")]
)
def test_a_wrong_line_is_told(tmp_path, line, message):
    path = tmp_path / "run.trec.gz"
    path.write_bytes(gzip.compress(line.encode()))
    with pytest.raises(DataError, match=message):
        list(stream_run(path))
