"""How hard and how varied negatives are, counted by hand."""

from pathlib import Path

import numpy as np
from hardneg_advice.hardness import Hardness, hardness

from hardneg.formats.negatives import NegativesFile, read_negatives, write_negatives
from hardneg.records import Negatives, RankedList


def mined(path: Path, *rows: tuple[str, list[str], list[str]]) -> NegativesFile:
    write_negatives(path, [Negatives(*row, np.zeros(len(row[2]), np.float32)) for row in rows])
    return read_negatives(path)


def ranked(*doc_ids: str) -> RankedList:
    return RankedList(doc_ids, np.arange(len(doc_ids), 0, -1, dtype=np.float32))


def test_ranks_leave_positives_out_and_scores_compare_with_the_best_one(tmp_path: Path) -> None:
    """q1's positives are at ranks 1 and 3: d10 is the tenth of the others, d11 the eleventh, and d50 the fiftieth."""
    listed = ["d1", "p", *(f"d{number}" for number in range(2, 301))]
    listed.insert(0, "other")  # relevant to q1, not mined with
    far = ["d1", "d10", "d11", "d50", "d51", "d200", "d201", "gone"]
    rows = [("q1", ["p"], far), ("q2", ["p"], ["d1"]), ("q3", ["p"], []), ("q4", ["p"], ["d1"])]
    lists = [("q1", ranked(*listed)), ("q2", ranked("d1", "p")), ("q3", ranked("d1")), ("elsewhere", ranked("d1"))]
    found = hardness(mined(tmp_path / "n.arrow", *rows), lists, {"q1": ["p", "other"], "q9": ["d50", "d10"]})
    assert found["by_rank"] == [0.3, 0.2, 0.2, 0.3]  # d1 twice and d10; d11, d50; d51, d200; d201, gone, and q4's
    assert found["above"] == 1 / 8  # of q1 seven are listed, none above `other`; q2's is above p
    assert (found["queries"], found["negatives"], found["distinct"], found["elsewhere"]) == (3, 10, 0.8, 0.2)


def test_nothing_to_compare_with(tmp_path: Path) -> None:
    found = hardness(mined(tmp_path / "n.arrow", ("q1", [], ["d1"])), [("q1", ranked("d1"))], {})
    assert found["above"] is None
    table = Hardness(negatives={"n": "x"}, run="r").table({"n": found})
    assert table.rows[0][:4] == ["n", "1", "1.0", "100.0%"] and "–" in table.rows[0]
