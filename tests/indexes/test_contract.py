"""Every built-in index against the kit that authors of plugins use."""

import pytest

from hardneg.indexes.backends.bm25 import Bm25
from hardneg.indexes.backends.compressed import Fp16, Hnsw, IvfFlat, IvfPq, Sq8
from hardneg.indexes.backends.flat import Flat
from hardneg.indexes.backends.product import OpqPq, Pq
from hardneg.testing import IndexTests


class TestFlat(IndexTests):
    plugin = Flat()


class TestPq(IndexTests):
    plugin = Pq(subvectors=8)
    exact = False


class TestOpqPq(IndexTests):
    plugin = OpqPq(subvectors=8, bits=7)
    exact = False
    recall = 0.7


class TestIvfPq(IndexTests):
    plugin = IvfPq(subvectors=8, bits=7, lists=8, nprobe=6)
    exact = False
    recall = 0.7


class TestIvfFlat(IndexTests):
    plugin = IvfFlat(lists=8, nprobe=6)
    exact = False
    recall = 0.95


class TestHnsw(IndexTests):
    plugin = Hnsw(m=8, ef_construction=40, ef_search=40)
    exact = False
    recall = 0.98


class TestSq8(IndexTests):
    plugin = Sq8()
    exact = False


class TestFp16(IndexTests):
    plugin = Fp16()
    exact = False
    recall = 0.99


@pytest.mark.slow
@pytest.mark.usefixtures("started_java")
class TestBm25(IndexTests):
    plugin = Bm25(k1=1.2)
