"""The family and the indexes keep the contracts of plugins; the stage `index` builds and searches them."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hardneg_multi_vector.family import LateInteraction
from hardneg_multi_vector.indexes import MultiVector, MultiVectorPq
from hardneg_multi_vector.store import TokenStore
from hardneg_multi_vector.testing import TokenIndexTests
from recipes.recipes import artifacts_of, plan_in, small_collection, small_tree
from tiny import tiny_encoder, tiny_multi_vector

from hardneg.encoders.open.contract import BASE
from hardneg.encoders.spec import FullSpec, ModelSpec
from hardneg.formats.runs import read_run
from hardneg.records.errors import UsageError
from hardneg.records.types import PluginSetting
from hardneg.stages.base import Sizes
from hardneg.stages.indexing import BuildIndex
from tests.encoders.test_kinds_contract import Kinds
from tests.run_lists import doc_lists, score_lists


class TestExact(TokenIndexTests):
    plugin = MultiVector()


class TestPq(TokenIndexTests):
    plugin = MultiVectorPq(subvectors=8, candidates=60)
    exact = False
    recall = 0.9


class TestMultiVector(Kinds):
    plugin = LateInteraction()
    written = staticmethod(tiny_multi_vector)

    def others(self, folder: Path) -> Sequence[Any]:
        return [LateInteraction(query_expansion=0), LateInteraction(skiplist="none"), LateInteraction(normalise=False)]


class TestMultiVectorOfTransformer(Kinds):
    plugin = LateInteraction(dimension=8)
    written = staticmethod(tiny_encoder)

    def model(self, folder: Path) -> ModelSpec:
        return replace(super().model(folder), encoder=PluginSetting("multi-vector", {"dimension": 8}))


pytest.importorskip("faiss")

BACKENDS = {
    "exact": "multi-vector",
    "coded": {"name": "multi-vector-pq", "subvectors": 16, "centroids": 8, "probes": 8, "candidates": 60},
}


def test_what_eight_million_passages_take() -> None:
    passages, tokens = 8_800_000, 8_800_000 * 70
    exact = MultiVector().disk_bytes(passages, tokens, 128)
    assert exact == tokens * 512  # 315 GB
    coded = MultiVectorPq().disk_bytes(passages, tokens, 128)
    assert coded == tokens * (32 + 2 + 4) + 65_536 * 512  # 23.4 GB


def test_a_plan_asks_the_backend_what_it_takes() -> None:
    model = FullSpec("tested", similarity="maxsim", query_length=10, document_length=100)
    sizes = Sizes(1000, {}, model, BASE, form="token-vectors")
    rows = {
        name: BuildIndex(stage="index", vectors="encoded", backend={"name": name}).estimate(sizes)
        for name in ("multi-vector", "multi-vector-pq")
    }
    assert rows["multi-vector"].disk == 1000 * 60 * 768 * 4
    assert rows["multi-vector-pq"].disk == 60_000 * 38 + 512 * 768 * 4


@pytest.mark.slow
def test_token_vectors_are_indexed_and_searched_with_their_model(tmp_path, tiny_model):
    tree = small_tree(small_collection(tmp_path / "data"), tiny_model)
    tree["model"]["encoder"] = {"name": "multi-vector", "dimension": 16}
    tree["stages"] = {name: tree["stages"][name] for name in ("start-index", "start-test")}
    for name, backend in BACKENDS.items():
        tree["stages"][name] = {"stage": "index", "vectors": "start-index", "backend": backend}
        tree["stages"][f"{name}-test"] = {"stage": "search", "index": name, "split": "test", "depth": 20}
    tree["stages"]["again"] = {**tree["stages"]["coded-test"], "candidates": "start-test"}
    plan = plan_in(tmp_path, tree)
    made = artifacts_of(plan, tmp_path / "store")
    store = TokenStore.open(made["start-index"].path)
    assert (len(store), store.dimension) == (60, 16)
    runs = {name: read_run(made[name].path / "run.trec.gz") for name in plan.steps if name.endswith("test")}
    exact = runs.pop("start-test")
    for name, run in runs.items():
        if name != "coded-test":
            assert doc_lists(run) == doc_lists(exact), name
        for one, other in zip(score_lists(exact), score_lists(run), strict=True):
            np.testing.assert_allclose(one, other, atol=0.3 if name == "coded-test" else 1e-5)
    again = read_run(made["again"].path / "run.trec.gz")
    assert [set(one) for one in doc_lists(again)] == [set(one) for one in doc_lists(exact)]
    assert made["coded"].facts["passages"] == 60


def test_an_index_of_one_vector_a_document_is_refused(tmp_path, tiny_model):
    tree = small_tree(small_collection(tmp_path / "data"), tiny_model)
    tree["model"]["encoder"] = "multi-vector"
    tree["stages"] = {name: tree["stages"][name] for name in ("start-index", "start-test")}
    tree["stages"]["small"] = {"stage": "index", "vectors": "start-index", "backend": "fp16"}
    with pytest.raises(UsageError, match="fp16 is built from vectors, and 'start-index' holds token-vectors"):
        plan_in(tmp_path, tree)
