"""Every built-in miner against the kit that authors of plugins use."""

from hardneg.mining.miners.ranks import Mixed, Random, TopK, Window
from hardneg.testing import MinerTests


class TestTopK(MinerTests):
    plugin = TopK(depth=20)


class TestWindow(MinerTests):
    plugin = Window(skip=2, depth=30)


class TestRandom(MinerTests):
    plugin = Random(count=5)


class TestRandomOfAll(MinerTests):
    plugin = Random(count=1000)


class TestMixed(MinerTests):
    plugin = Mixed(depth=8)


class TestMixedOfAll(MinerTests):
    plugin = Mixed(depth=100, ratio=10)
