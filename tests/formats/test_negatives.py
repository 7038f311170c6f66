"""The file of negatives and that of what miners left out: what goes in comes out, and a broken write leaves nothing."""

import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from hardneg.formats.negatives import drop_batches, drops_at, read_negatives, recorded, with_positives, write_negatives
from hardneg.records import ArtifactError, DataError, Drops, Negatives


def item(query_id: str, negatives: list[str], scores: list[float]) -> Negatives:
    return Negatives(query_id, ["p1", "p2"], negatives, np.array(scores, np.float32), {"positive": 1})


ROWS = [item("q1", ["d1", "d2", "d3"], [2.5, 1.5, np.nan]), item("q2", [], []), item("q3", ["ü"], [-1])]


def test_rows_come_back_as_they_were(tmp_path: Path) -> None:
    path = tmp_path / "negatives.arrow"
    assert write_negatives(path, iter(ROWS)) == 3
    found = read_negatives(path)
    assert len(found) == 3
    assert found.query_ids == ["q1", "q2", "q3"]
    assert found.counts.tolist() == [3, 0, 1]
    for read, written in zip(found, ROWS, strict=True):
        assert read.query_id == written.query_id
        assert list(read.positives) == ["p1", "p2"]
        assert list(read.negatives) == written.negatives
        assert read.scores.dtype == np.float32
        np.testing.assert_array_equal(read.scores, written.scores)
    assert found[-1].query_id == "q3"
    assert [row.query_id for row in found[1:]] == ["q2", "q3"]
    with pytest.raises(IndexError):
        found[3]
    assert [path.name for path in tmp_path.iterdir()] == ["negatives.arrow"]


def test_single_negatives_are_read_across_batches(tmp_path: Path) -> None:
    path = tmp_path / "negatives.arrow"
    rows = (item(f"q{n}", [f"d{n}", f"e{n}", f"f{n}"], [3, 2, 1]) for n in range(3000))
    assert write_negatives(path, rows) == 3000
    found = read_negatives(path)
    for row in (0, 1023, 1024, 2999):
        assert found.pick(row, np.array([2, 0])) == [f"f{row}", f"d{row}"]
        assert found[row].query_id == f"q{row}"
    assert found.pick(5, np.empty(0, np.int64)) == []


def test_what_is_read_whole_needs_the_file_no_more(tmp_path: Path) -> None:
    path = tmp_path / "negatives.arrow"
    write_negatives(path, iter(ROWS))
    found = read_negatives(path, whole=True)
    assert str(path) not in Path("/proc/self/maps").read_text()
    os.truncate(path, 0)
    assert found.pick(0, np.array([2, 0])) == ["d3", "d1"] and found[2].negatives == ["ü"]
    with pytest.raises(ArtifactError, match="cannot be read"):
        read_negatives(path, whole=True)


def test_a_failing_stream_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "negatives.arrow"
    write_negatives(path, ROWS[:1])

    def broken() -> Iterator[Negatives]:
        yield ROWS[1]
        raise RuntimeError("the power is out")

    with pytest.raises(RuntimeError):
        write_negatives(path, broken())
    assert read_negatives(path).query_ids == ["q1"]


def test_mistakes_are_named(tmp_path: Path) -> None:
    path = tmp_path / "negatives.arrow"
    with pytest.raises(DataError, match="query 'q1' occurs twice"):
        write_negatives(path, [ROWS[0], ROWS[0]])
    with pytest.raises(DataError, match="query 'q9' has 1 scores for 2 negatives"):
        write_negatives(path, [item("q9", ["d1", "d2"], [1])])
    with pytest.raises(ArtifactError, match=r"no\.arrow"):
        read_negatives(tmp_path / "no.arrow")
    path.write_bytes(b"ARROW1 and no more")
    with pytest.raises(ArtifactError, match=r"negatives\.arrow"):
        read_negatives(path)


def test_positives_that_a_file_tells_come_behind_the_known_ones(tmp_path: Path) -> None:
    none = np.empty(0, np.float32)
    told = {"q1": ["d2", "d1", "d3"], "q2": ["d4"], "q3": []}
    write_negatives(tmp_path / "n", [Negatives(name, doc_ids, [], none) for name, doc_ids in told.items()])
    known = {"q1": ["d1", "d9"], "q4": ["d5"]}
    found = with_positives(known, tmp_path / "n")
    assert found == {"q1": ["d1", "d9", "d2", "d3"], "q2": ["d4"], "q3": [], "q4": ["d5"]}
    assert known["q1"] == ["d1", "d9"]


def told(query_id: str, *doc_ids: str) -> Negatives:
    ranks = np.arange(2, len(doc_ids) + 2, dtype=np.int32)
    scores = np.linspace(0.5, 1, len(doc_ids), dtype=np.float32)
    drops = Drops(9, doc_ids, ranks, ["score"] * len(doc_ids), scores, np.array([1], np.int32))
    return Negatives(query_id, [], ["d1"], np.ones(1, np.float32), {}, drops)


def test_what_goes_by_is_written_and_read_back(tmp_path):
    path = tmp_path / "dropped.arrow"
    items = [told(f"q{number}", *(["a", "b"][: number % 3])) for number in range(2500)]
    assert list(recorded(iter(items), path)) == items
    batches = drop_batches(path)
    assert [batch.num_rows for batch in batches] == [1024, 1024, 452]
    query_id, drops = drops_at(batches[1], 1)
    assert query_id == "q1025" and drops.candidates == 9
    assert (drops.doc_ids, drops.reasons) == (["a", "b"], ["score", "score"])
    assert drops.ranks.tolist() == [2, 3] and drops.scores.tolist() == [0.5, 1] and drops.chosen.tolist() == [1]
    assert drops_at(batches[0], 0)[1].doc_ids == []


def test_a_miner_that_tells_nothing_leaves_no_file(tmp_path):
    path = tmp_path / "dropped.arrow"
    plain = Negatives("q", [], [], np.empty(0, np.float32))
    assert list(recorded([plain, plain], path)) == [plain, plain]
    assert list(recorded([], path)) == []
    assert not path.exists()
    with pytest.raises(ArtifactError, match="mine with a miner that reports what it drops, such as denoised"):
        drop_batches(path)


def test_a_file_that_is_not_finished_is_not_there(tmp_path):
    stream = recorded(iter([told("q1"), told("q2")]), tmp_path / "dropped.arrow")
    next(stream)
    stream.close()
    assert list(tmp_path.iterdir()) == []
