"""Segments of long documents, against windows and rows counted by hand."""

import numpy as np
import pytest
from hypothesis import given, strategies as st

from hardneg.formats import segments
from hardneg.formats.segments import Segments, document_rows, first_rows, segment_ids, windows
from hardneg.records import ArtifactError


def cut(lengths: list[int], size: int, stride: int, count: int) -> tuple[list[list[tuple[int, int]]], list[bool]]:
    some = np.array(lengths, np.int64)
    found = windows(some, np.full_like(some, size), np.full_like(some, stride), count)
    listed: list[list[tuple[int, int]]] = [[] for _ in lengths]
    for start, stop, document in zip(found.starts, found.stops, found.document, strict=True):
        listed[document].append((int(start), int(stop)))
    assert found.counts.tolist() == [len(part) for part in listed]
    return listed, found.cut_off.tolist()


def test_windows_without_overlap():
    """Empty, shorter than one window, exactly one, one more token, exactly two."""
    listed, cut_off = cut([0, 3, 4, 5, 8], 4, 4, 9)
    assert listed == [[(0, 0)], [(0, 3)], [(0, 4)], [(0, 4), (4, 5)], [(0, 4), (4, 8)]]
    assert not any(cut_off)


def test_each_document_may_have_a_size_of_its_own():
    found = windows(np.array([5, 5]), np.array([5, 4]), np.array([5, 3]), 9)
    assert found.starts.tolist() == [0, 0, 3] and found.stops.tolist() == [5, 4, 5]


def test_mistakes_are_named():
    assert Segments().problems() == []
    assert Segments(length=128, stride=64, count=8).problems() == []
    found = Segments(length=2, stride=3, count=0).problems()
    assert len(found) == 3 and "1 to 2" in found[1]
    assert len(Segments(length=10**18, count=10**18).problems()) == 2
    assert "stride is 0" in Segments(stride=0).problems()[0]


def test_ids_and_rows_go_there_and_back(tmp_path, monkeypatch):
    ids = list(segment_ids(["D1", "a#7", "x#0", "last"], [2, 1, 12, 1]))
    assert ids[:5] == ["D1#0", "D1#1", "a#7#0", "x#0#0", "x#0#1"] and ids[-2:] == ["x#0#11", "last#0"]
    (tmp_path / "docid").write_text("\n".join(ids) + "\n")
    for chunk in (4, 7, 50, 1 << 20):
        monkeypatch.setattr(segments, "_CHUNK", chunk)
        assert first_rows(tmp_path / "docid").tolist() == [0, 2, 3, 15, 16]


@pytest.mark.parametrize(
    ("ids", "line"),
    [(["a#1"], 1), (["a#0", "a#2"], 2), (["a#0", "b"], 2), (["a#0", "b#"], 2), (["a#0", "b#x"], 2), (["a", "b#0"], 1)],
)
def test_a_gap_is_named_by_its_line(tmp_path, ids, line):
    (tmp_path / "docid").write_text("\n".join(ids) + "\n")
    with pytest.raises(ArtifactError, match=f"docid:{line}: "):
        first_rows(tmp_path / "docid")


@pytest.mark.parametrize(
    ("ids", "doc_ids", "first"),
    [
        (["D1#0", "D1#1"], ["D1"], [0, 2]),
        (["D1#0", "D1#1"], ["D1#0", "D1#1"], None),
        (["D1#0#0", "D1#1#0", "D1#1#1"], ["D1#0", "D1#1"], [0, 1, 3]),
        (["D1", "D2"], ["D1", "D2"], None),
        ([], [], None),
    ],
)
def test_the_corpus_tells_an_index_of_segments(tmp_path, ids, doc_ids, first):
    assert document_rows(tmp_path, doc_ids) is None
    (tmp_path / "docid").write_text("".join(f"{name}\n" for name in ids))
    found = document_rows(tmp_path, doc_ids)
    assert (None if found is None else found.tolist()) == first


def test_an_index_of_another_corpus_is_told(tmp_path):
    (tmp_path / "docid").write_text("a#0\na#1\n")
    with pytest.raises(ArtifactError, match="segments of 1 document, but the corpus has 2"):
        document_rows(tmp_path, ["a", "b"])


@given(st.lists(st.integers(0, 60), max_size=8), st.integers(1, 9), st.integers(1, 9), st.integers(1, 6))
def test_every_token_is_in_a_segment_unless_it_is_cut_off(lengths, size, stride, count):
    stride = min(stride, size)
    listed, cut_off = cut(lengths, size, stride, count)
    for length, spans, more in zip(lengths, listed, cut_off, strict=True):
        assert 1 <= len(spans) <= count and all(stop - start <= size for start, stop in spans)
        assert [start for start, _ in spans] == [stride * place for place in range(len(spans))]
        read = set().union(*(range(start, stop) for start, stop in spans))
        assert read == set(range(max(stop for _, stop in spans)))
        assert more == (len(read) < length) and (more or len(read) == length)
        assert len(spans) == 1 or spans[-2][1] < spans[-1][1]
