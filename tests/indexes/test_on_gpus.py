"""Indexes on GPUs: what is copied there, in which form, and when; here the copies are other indexes of this CPU.

So this says that the forms that GPUs take give the results of the indexes themselves, and that all goes through them;
not what a GPU's own arithmetic gives.
"""

import logging
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from hardneg.indexes.backends import product as product_lookup
from hardneg.indexes.backends.compressed import CompressedSearcher, Fp16, Hnsw, IvfFlat, IvfPq
from hardneg.indexes.backends.product import CodeLookup, OpqPq, Pq
from hardneg.indexes.kernels.exact.exact import ExactOptions
from hardneg.indexes.kernels.faiss.compression import gpus
from hardneg.records.errors import UsageError
from hardneg.runtime.progress import Silent
from hardneg.store.digest import tree_digest
from hardneg.testing import IndexTests
from hardneg.testing.forms import write_encoded

faiss = pytest.importorskip("faiss")

_N, _D = 400, 16
Copies = list[tuple[str, bool, list[int]]]
"""Of each copy: the class of the index, whether the GPUs divide its vectors, and which GPUs."""


@pytest.fixture(autouse=True)
def copies(monkeypatch: pytest.MonkeyPatch) -> Copies:
    """A faiss with two GPUs."""
    made: Copies = []

    class Options:
        shard = False

    def copy(index: Any, co: Options, gpus: list[int]) -> Any:
        made.append((type(index).__name__, co.shard, gpus))
        return faiss.clone_index(index)

    monkeypatch.setattr(faiss, "get_num_gpus", lambda: 2)
    monkeypatch.setattr(faiss, "GpuMultipleClonerOptions", Options, raising=False)
    monkeypatch.setattr(faiss, "index_cpu_to_gpus_list", copy)
    return made


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return write_encoded(tmp_path / "flat", np.random.default_rng(7).standard_normal((_N, _D)).astype(np.float32))


def _queries() -> np.ndarray:
    return np.random.default_rng(8).standard_normal((30, _D)).astype(np.float32)


def test_devices_are_those_that_are_named():
    asked = [None, "cuda", "cuda:1", "cuda:2", "cpu", "mps"]
    assert [list(gpus(device)) for device in asked] == [[0, 1], [0, 1], [1], [], [], []]


FORMS = [
    (Pq(4, 4), "IndexIVFPQ"),
    (OpqPq(4, 4, iterations=2), "IndexPreTransform"),
    (IvfPq(4, 4, 8, 3), "IndexIVFPQ"),
    (IvfFlat(8, 3), "IndexIVFFlat"),
]


@pytest.mark.parametrize(("plugin", "form"), FORMS, ids=lambda item: getattr(type(item), "__name__", ""))
def test_a_copy_gives_the_same(plugin, form, source, tmp_path, copies):
    plugin.build(source, tmp_path / "made", Silent())
    plain = plugin.open(tmp_path / "made")
    moved = plain.using(ExactOptions(device="cuda"), None)
    copies.clear()
    there, here = moved.search(_queries(), 20), plain.search(_queries(), 20)
    assert copies == [(form, True, [0, 1])]
    assert np.array_equal(there.rows, here.rows)
    np.testing.assert_allclose(there.scores, here.scores, atol=1e-5)
    assert np.array_equal(moved.vectors(np.arange(9)), plain.vectors(np.arange(9)))
    moved.search(_queries(), 20)
    assert len(copies) == 1  # it stays
    assert plain.using(ExactOptions(device="cpu"), None).copy is None
    assert plain.using(ExactOptions(device="cuda:1"), None).copy.devices == [1]


@pytest.mark.parametrize(
    ("plugin", "made"),
    [
        (Pq(4, 4), ["IndexFlatL2"]),
        (OpqPq(4, 4, iterations=2), ["IndexFlatL2", "IndexFlatL2"]),  # for the rotation, and for the codes
        (IvfPq(4, 4, 8, 3), ["IndexFlatIP", "IndexFlatL2", "IndexFlatIP"]),  # centres, centroids, and to fill lists
        (IvfFlat(8, 3), ["IndexFlatIP", "IndexFlatIP"]),
        (Fp16(), []),
        (Hnsw(4), []),
    ],
    ids=lambda item: type(item).__name__,
)
def test_training_there_writes_an_index_of_a_cpu(plugin, made, source, tmp_path, copies, monkeypatch):
    plugin.build(source, tmp_path / "there", Silent())
    assert copies == [(name, False, [0, 1]) for name in made]  # each GPU has all centres
    monkeypatch.setattr(faiss, "get_num_gpus", lambda: 0)
    plugin.build(source, tmp_path / "here", Silent())
    assert tree_digest(tmp_path / "there") == tree_digest(tmp_path / "here")


def test_what_gpus_have_no_form_of_stays(source, tmp_path, copies):
    for plugin in (Fp16(), Hnsw(4)):
        plugin.build(source, tmp_path / type(plugin).__name__, Silent())
        searcher = plugin.open(tmp_path / type(plugin).__name__).using(ExactOptions(device="cuda"), None)
        assert searcher.copy is None and searcher.search(_queries(), 3).rows.shape == (30, 3)
    assert copies == []


def test_a_list_that_is_too_long_for_a_gpu(source, tmp_path, copies):
    Pq(4, 4).build(source, tmp_path / "made", Silent())
    searcher = Pq().open(tmp_path / "made").using(ExactOptions(), None)
    copies.clear()
    searcher.copy.search(_queries(), 2049)
    assert copies == []
    searcher.copy.search(_queries(), 2048)
    assert copies == [("IndexIVFPQ", True, [0, 1])]


def test_what_faiss_refuses_is_told_once_and_stays(source, tmp_path, monkeypatch, caplog):
    def refuse(index: Any, co: Any, gpus: list[int]) -> Any:
        raise RuntimeError("no kernel for 5 subvectors")

    Pq(4, 4).build(source, tmp_path / "made", Silent())
    monkeypatch.setattr(faiss, "index_cpu_to_gpus_list", refuse)
    searcher = Pq().open(tmp_path / "made").using(ExactOptions(), None)
    with caplog.at_level(logging.WARNING):
        found = [searcher.search(_queries(), 5).rows for _ in range(2)]
        searcher.install(searcher.centroids())
        searcher.search(_queries(), 5)
    assert np.array_equal(found[0], found[1])
    assert [record.getMessage() for record in caplog.records] == [
        "this index is searched on the CPU: faiss cannot copy it to a GPU: no kernel for 5 subvectors"
    ]


def test_an_index_for_a_training_loop_stays_on_no_cpu(source, tmp_path, monkeypatch):
    """Sixty thousand steps there would take weeks, behind one line of a log."""

    def refuse(index: Any, co: Any, gpus: list[int]) -> Any:
        raise RuntimeError("only 8 bits supported")

    IvfPq(4, 4, 8, 3).build(source, tmp_path / "made", Silent())
    monkeypatch.setattr(faiss, "index_cpu_to_gpus_list", refuse)
    with pytest.raises(UsageError) as told:
        IvfPq().open(tmp_path / "made").using(replace(ExactOptions(), resident=1), None)
    assert str(told.value) == (
        f"{tmp_path / 'made'}: faiss cannot copy this index to a GPU (only 8 bits supported), and to search it in "
        "every step on the CPU would take many times as long: build it as pq, opq-pq or ivf-flat, with other "
        "subvectors or 8 bits, or train on the CPU"
    )


def test_tables_that_are_too_large_for_a_gpu_are_of_half_precision(source, tmp_path, monkeypatch, caplog):
    asked: list[bool] = []

    def copy(index: Any, co: Any, gpus: list[int]) -> Any:
        asked.append(getattr(co, "useFloat16", False))
        if not asked[-1]:
            raise RuntimeError("shared memory 98304 bytes, 49152 allowed: use float16 lookup tables")
        return faiss.clone_index(index)

    IvfPq(4, 4, 8, 3).build(source, tmp_path / "made", Silent())
    monkeypatch.setattr(faiss, "index_cpu_to_gpus_list", copy)
    searcher = IvfPq().open(tmp_path / "made").using(ExactOptions(), None)
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            assert searcher.search(_queries(), 5).rows.shape == (30, 5)
    assert asked == [False, True]
    assert [record.getMessage() for record in caplog.records] == [
        "this index is searched with tables of half precision on the GPU, as those of float32 do not fit there"
    ]


@pytest.mark.parametrize("plugin", [Pq(4, 4), OpqPq(8, 8, iterations=2)], ids=lambda one: type(one).__name__)
def test_codes_stay_where_they_are_while_centroids_move(plugin, source, tmp_path, copies, monkeypatch):
    """As a training loop opens the index: what goes to the device in a step is the queries and the centroids."""
    plugin.build(source, tmp_path / "made", Silent())
    monkeypatch.setattr(ExactOptions, "where", torch.device("cpu"))
    here = plugin.open(tmp_path / "made")
    there = plugin.open(tmp_path / "made").using(ExactOptions(device="cuda").for_few(), None)
    sent: list[int] = []
    send = product_lookup.to_device
    monkeypatch.setattr(
        product_lookup, "to_device", lambda array, device: sent.append(array.size) or send(array, device)
    )
    codes, copied = there.copy.codes, len(copies)
    for factor in (1.0, 3.0, 0.5):
        for searcher in (here, there):
            searcher.install(np.float32(factor) * plugin.open(tmp_path / "made").centroids()[:, ::-1])
        found, expected = there.search(_queries(), 20), here.search(_queries(), 20)
        np.testing.assert_allclose(found.scores, expected.scores, rtol=1e-4, atol=1e-5)
        assert (found.rows == expected.rows).mean() > 0.99
    assert there.copy.codes is codes and len(copies) == copied
    assert sent == [here.centroids().size, _queries().size] * 3


def test_sums_of_products_by_hand():
    """Two parts of two numbers: the query [1, 2 | 3, 4]; R exchanges the parts."""
    centroids = np.array([[[1, 0], [0, 1]], [[1, 1], [0, 0]]], np.float32)  # products 1 and 2; 7 and 0
    codes, query = np.array([[0, 0], [1, 1], [0, 1], [1, 0], [0, 0]], np.uint8), np.array([[1, 2, 3, 4]], np.float32)
    turn = np.roll(np.eye(4, dtype=np.float32), 2, 0)  # then 3 and 4; 3 and 0
    for rotation, rows, scores in ((None, [3, 0, 4, 1], [9, 8, 8, 2]), (turn, [3, 0, 4, 1], [7, 6, 6, 4])):
        lookup = CodeLookup.of([(0, codes[:3]), (3, codes[3:])], 5, centroids, rotation, torch.device("cpu"))
        found = lookup.search(query, 4)
        assert (found[1].tolist(), found[0].tolist()) == ([rows], [scores])


@pytest.mark.parametrize("plugin", [Pq(4, 4), OpqPq(4, 4, iterations=2)], ids=lambda one: type(one).__name__)
def test_centroids_that_move_are_followed(plugin, source, tmp_path, copies):
    plugin.build(source, tmp_path / "made", Silent())
    moved, before = plugin.open(tmp_path / "made").using(ExactOptions(), None), plugin.open(tmp_path / "made")
    moved.search(_queries(), 5)
    moved.install(2 * moved.centroids())
    copies.clear()
    np.testing.assert_allclose(moved.search(_queries(), 5).scores, 2 * before.search(_queries(), 5).scores, rtol=1e-5)
    assert len(copies) == 1


@dataclass(frozen=True)
class PqThere(Pq):
    __doc__ = Pq.__doc__

    def open(self, path: Path, rows: Any = None) -> Any:
        return super().open(path).using(ExactOptions(), None)


@dataclass(frozen=True)
class IvfPqThere(IvfPq):
    __doc__ = IvfPq.__doc__

    def open(self, path: Path, rows: Any = None) -> CompressedSearcher:
        return super().open(path).using(ExactOptions(), None)


class TestPqThere(IndexTests):
    plugin = PqThere(subvectors=8)
    exact = False


class TestIvfPqThere(IndexTests):
    plugin = replace(IvfPqThere(), subvectors=8, bits=7, lists=8, nprobe=6)
    exact = False
    recall = 0.7
