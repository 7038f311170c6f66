"""Tests of term weights on disk and as frequencies of a Lucene index."""

import json
from pathlib import Path

import numpy as np
import pytest
from hardneg_sparse.impact import Impact, frequency_texts
from hardneg_sparse.store import SparseRows, SparseStore, SparseWriter, fault
from hypothesis import given, settings, strategies as st
from sparse_lists import LISTS, lists_of, rows_of, write

from hardneg.encoders.open.model_card import IMPACT_SCALE
from hardneg.records import ArtifactError, DataError, UsageError


def test_what_is_written_is_read(tmp_path: Path) -> None:
    store = SparseStore.open(write(tmp_path))
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == ["docid", "offsets.npy", "sparse.json", "terms.npy", "weights.npy"]
    assert (len(store), store.width, list(store.doc_ids)) == (5, 5, [f"d{i}" for i in range(5)])
    assert lists_of(store.read(0, 5)) == lists_of(store.read(0, 9)) == LISTS
    assert lists_of(store.read(1, 4)) == LISTS[1:4]
    assert lists_of(store.read(3, 3)) == lists_of(store.read(7, 9)) == []
    assert lists_of(store.gather(np.array([3, 0, 3, 1]))) == [LISTS[3], LISTS[0], LISTS[3], {}]
    assert store.read(0, 5).terms.dtype == np.int32 and store.read(0, 5).weights.dtype == np.float32
    assert np.load(tmp_path / "offsets.npy").tolist() == [0, 2, 2, 3, 6, 6]
    assert store.terms is None


def test_terms_are_told_by_their_words(tmp_path: Path) -> None:
    words = ["[PAD]", "the", "##s", " ", "\u2028"]
    SparseWriter(tmp_path, 5, 5).write_terms(words)
    assert SparseStore.open(write(tmp_path)).terms == words
    with SparseWriter(tmp_path / "other", 5, 5) as writer:
        with pytest.raises(UsageError, match="4 different terms instead of 5"):
            writer.write_terms(["a", "b", "c", "d", "d"])
        with pytest.raises(DataError, match="is empty or has a line break"):
            writer.write_terms(["a", "b", "c", "d", "\n"])
    (tmp_path / "terms.txt").write_text("a\nb\n")
    with pytest.raises(ArtifactError, match=r"terms.txt: 2 different terms instead of 5"):
        _ = SparseStore.open(tmp_path).terms


@pytest.mark.parametrize(
    ("rows", "told"),
    [
        (SparseRows(np.array([0, 1]), np.array([5], np.int32), np.ones(1, np.float32), 5), "text 0 .*outside 0 to 4"),
        (SparseRows(np.array([0, 0, 2]), np.array([3, 3], np.int32), np.ones(2, np.float32), 5), "text 1 .*ascend"),
        (SparseRows(np.array([0, 1]), np.array([3], np.int32), np.zeros(1, np.float32), 5), "text 0 .*is 0"),
        (SparseRows(np.array([0, 1]), np.array([3], np.int32), np.full(1, np.nan, np.float32), 5), "not finite"),
        (SparseRows(np.array([0, 2]), np.array([3], np.int32), np.ones(1, np.float32), 5), "offsets end at 2"),
        (SparseRows(np.array([0, 1, 0]), np.array([3], np.int32), np.ones(1, np.float32), 5), "offsets do not ascend"),
    ],
)
def test_unsound_weights_are_refused(tmp_path: Path, rows: SparseRows, told: str) -> None:
    with SparseWriter(tmp_path, 5, 5) as writer, pytest.raises(ArtifactError, match=told):
        writer.write(rows)


def test_bad_blocks_are_refused(tmp_path: Path) -> None:
    with SparseWriter(tmp_path, 5, 5) as writer:
        with pytest.raises(UsageError, match="6 terms instead of 5"):
            writer.write(rows_of(LISTS, 6))
        with pytest.raises(UsageError, match="expected 5 rows, got 7"):
            writer.write(rows_of([*LISTS, *LISTS[:2]]))
    with pytest.raises(UsageError, match="cannot be written"):
        SparseWriter(tmp_path, 0, 5)


def test_missing_parts_are_errors(tmp_path: Path) -> None:
    with pytest.raises(ArtifactError, match=r"no term weights .*sparse.json"):
        SparseStore.open(tmp_path)
    with SparseWriter(tmp_path, 5, 5) as writer:
        writer.write(rows_of(LISTS[:3]))
        with pytest.raises(ArtifactError, match="rows from 3"):
            writer.close()
        writer.write(rows_of(LISTS[3:]))
        with pytest.raises(ArtifactError, match="document ids"):
            writer.close()
        with pytest.raises(ArtifactError, match="no term weights"):
            SparseStore.open(tmp_path)
    write(tmp_path)
    (tmp_path / "docid").unlink()
    with pytest.raises(ArtifactError, match="docid: missing"):
        SparseStore.open(tmp_path)


@pytest.mark.parametrize("name", ["offsets.npy", "terms.npy", "weights.npy", "sparse.json"])
def test_damaged_files_are_errors(tmp_path: Path, name: str) -> None:
    path = write(tmp_path) / name
    whole = path.read_bytes()
    for part in (b"", whole[:-1], whole + b"0", whole[: len(whole) // 2], b"no array"):
        path.write_bytes(part)
        with pytest.raises(ArtifactError, match=name):
            SparseStore.open(tmp_path)
    path.unlink()
    with pytest.raises(ArtifactError, match=name):
        SparseStore.open(tmp_path)


def test_damaged_numbers_are_told_when_they_are_read(tmp_path: Path) -> None:
    store = write(tmp_path / "store")
    for name, numbers, told in (
        ("offsets.npy", np.array([0, 2, 9, 3, 6, 6]), "offsets do not ascend"),
        ("offsets.npy", np.array([0, -2, 2, 3, 6, 6]), "offsets do not ascend"),
        ("terms.npy", np.array([0, 4, 2, 0, 1, 7], np.int32), "outside 0 to 4"),
        ("weights.npy", np.array([1, 1, 1, 1, np.inf, 1], np.float32), "not finite"),
    ):
        before = (store / name).read_bytes()
        np.save(store / name, numbers)
        opened = SparseStore.open(store)
        with pytest.raises(ArtifactError, match=told):
            opened.read(0, 5)
        with pytest.raises(ArtifactError, match=told):
            opened.gather(np.arange(5))
        (store / name).write_bytes(before)
    shape = json.dumps({"rows": 4, "terms": 5})
    (store / "sparse.json").write_text(shape)
    with pytest.raises(ArtifactError, match="do not belong together"):
        SparseStore.open(store)


def test_a_finished_folder_is_not_overwritten_and_one_that_is_not_leaves_nothing(tmp_path: Path) -> None:
    with SparseWriter(tmp_path, 6, 5) as writer:
        writer.write(rows_of(LISTS, 6))
    assert not list(tmp_path.iterdir())
    write(tmp_path)
    with pytest.raises(ArtifactError, match="already complete"):
        SparseWriter(tmp_path, 5, 5)


_WEIGHTS = st.floats(-9, 9, width=32).filter(bool)
_TEXTS = st.lists(st.dictionaries(st.integers(0, 6), _WEIGHTS, max_size=5), max_size=9)


@settings(max_examples=12)
@given(lists=_TEXTS, block=st.integers(1, 4))
def test_any_texts_in_any_blocks(tmp_path_factory: pytest.TempPathFactory, lists: list, block: int) -> None:
    store = SparseStore.open(write(tmp_path_factory.mktemp("store"), lists, block, 7))
    assert lists_of(store.read(0, len(lists))) == lists
    some = np.arange(len(lists))[::-2]
    assert lists_of(store.gather(some)) == [lists[row] for row in some]
    assert not fault(store.gather(some))


def test_each_document_is_a_text_of_terms_and_frequencies() -> None:
    offsets, words = np.array([0, 2, 2, 3, 5]), np.array([f"{term}\ue001" for term in "abcac"], object)
    texts = frequency_texts(offsets, words, np.array([3, 120, 0, 0, 7]))
    assert texts == ["\ue000a\ue0013\ue000b\ue001120", "\ue000", "\ue000", "\ue000c\ue0017"]
    assert frequency_texts(np.array([0]), words[:0], np.array([], np.int64)) == []


def test_weights_are_scaled_and_rounded() -> None:
    rows = rows_of([{0: 1.004, 1: 0.004}, {}, {2: 2.5}])
    assert Impact().impacts(rows, "").tolist() == [100, 0, 250] and Impact().scale == IMPACT_SCALE
    assert Impact(scale=1).impacts(rows, "").tolist() == [1, 0, 2]


def test_what_lucene_cannot_count_is_refused() -> None:
    with pytest.raises(UsageError, match=r"from row 7 on, weights are below 0.*use index `sparse`"):
        Impact().impacts(rows_of([{0: 1.0}, {1: -1.0}]), "from row 7 on, ")
    with pytest.raises(UsageError, match=r"too large for scale 100"):
        Impact().impacts(rows_of([{0: 1.0}, {1: 2e7, 2: 2e7}]), "")
    for scale in (0, -1, 1e6, float("nan")):
        with pytest.raises(UsageError, match="scale is"):
            Impact(scale=scale)
