"""Codes of product quantisation searched by torch on a device, here a CPU: the hits of the index itself."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from hardneg.indexes import product
from hardneg.indexes.exact import ExactOptions
from hardneg.indexes.product import Binary, CodeLookup, OpqPq, Pq, PqSearcher
from hardneg.runtime import Silent
from hardneg.testing.indexes import write_encoded

pytest.importorskip("faiss")
_N, _D = 400, 16
QUERIES = np.random.default_rng(8).standard_normal((30, _D)).astype(np.float32)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return write_encoded(tmp_path / "flat", np.random.default_rng(7).standard_normal((_N, _D)).astype(np.float32))


def on_device(searcher: PqSearcher, monkeypatch: pytest.MonkeyPatch, room: int = 1 << 20) -> Any:
    """The searcher on a GPU with so much memory, which is this CPU."""
    monkeypatch.setattr(ExactOptions, "where", SimpleNamespace(type="cuda"))
    monkeypatch.setattr(ExactOptions, "for_few", lambda self: SimpleNamespace(resident=room))
    lookup = PqSearcher.lookup
    with monkeypatch.context() as patch:
        patch.setattr(PqSearcher, "lookup", lambda self, device: lookup(self, torch.device("cpu")))
        return searcher.using(ExactOptions(), None)


@pytest.mark.parametrize("plugin", [Pq(4, 4), OpqPq(4, 4, iterations=2)], ids=lambda one: type(one).__name__)
def test_codes_give_the_hits_of_the_index(plugin, source, tmp_path, monkeypatch):
    plugin.build(source, tmp_path / "made", Silent())
    plain = plugin.open(tmp_path / "made")
    assert plain.using(ExactOptions(device="cpu"), None).copy is None
    assert on_device(plain, monkeypatch, room=4 * _N - 1).copy is None
    moved = on_device(plain, monkeypatch)
    there, here = moved.search(QUERIES, 20), plain.search(QUERIES, 20)
    assert (there.rows == here.rows).mean() > 0.99
    np.testing.assert_allclose(there.scores, here.scores, atol=1e-5)
    assert np.array_equal(moved.vectors(np.arange(9)), plain.vectors(np.arange(9)))


def test_bits_stay_on_the_cpu(source, tmp_path):
    Binary().build(source, tmp_path / "made", Silent())
    searcher = Binary().open(tmp_path / "made")
    assert searcher.using(ExactOptions(device="cuda"), None) is searcher


@pytest.mark.parametrize("plugin", [Pq(4, 4), OpqPq(8, 8, iterations=2)], ids=lambda one: type(one).__name__)
def test_codes_stay_where_they_are_while_centroids_move(plugin, source, tmp_path, monkeypatch):
    """As a training loop opens the index: what goes to the device in a step is the queries and the centroids."""
    plugin.build(source, tmp_path / "made", Silent())
    here = plugin.open(tmp_path / "made")
    there = on_device(plugin.open(tmp_path / "made"), monkeypatch)
    sent: list[int] = []
    send = product.to_device
    monkeypatch.setattr(product, "to_device", lambda array, device: sent.append(array.size) or send(array, device))
    codes = there.copy.codes
    for factor in (1.0, 3.0, 0.5):
        for searcher in (here, there):
            searcher.install(np.float32(factor) * plugin.open(tmp_path / "made").centroids()[:, ::-1])
        found, expected = there.search(QUERIES, 20), here.search(QUERIES, 20)
        np.testing.assert_allclose(found.scores, expected.scores, rtol=1e-4, atol=1e-5)
        assert (found.rows == expected.rows).mean() > 0.99
    assert there.copy.codes is codes
    assert sent == [here.centroids().size, QUERIES.size] * 3


def test_sums_of_products_by_hand():
    """Two parts of two numbers: the query [1, 2 | 3, 4]; R exchanges the parts."""
    centroids = torch.tensor([[[1, 0], [0, 1]], [[1, 1], [0, 0]]], dtype=torch.float32)  # products 1 and 2; 7 and 0
    codes = torch.tensor([[0, 1, 0, 1, 0], [0, 1, 1, 0, 0]], dtype=torch.uint8)
    turn = torch.eye(4).roll(2, 0)  # then 3 and 4; 3 and 0
    for rotation, rows, scores in ((None, [3, 0, 4, 1], [9, 8, 8, 2]), (turn, [3, 0, 4, 1], [7, 6, 6, 4])):
        found = CodeLookup(codes, centroids, rotation).search(np.array([[1, 2, 3, 4]], np.float32), 4)
        assert (found[1].tolist(), found[0].tolist()) == ([rows], [scores])
