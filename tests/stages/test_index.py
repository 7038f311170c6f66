"""Stage `index` over vectors: an encode stage, a compressed index of it, a search in that."""

import numpy as np
import pytest
from recipes.recipes import artifacts_of, plan_in, small_collection, small_part

from hardneg.formats.runs import read_run
from hardneg.indexes.backends.compressed import Fp16
from tests.run_lists import doc_lists, score_lists

pytest.importorskip("faiss")


def test_a_compressed_index_is_searched_with_the_model_of_its_vectors(tmp_path, tiny_model):
    tree = small_part(small_collection(tmp_path / "data"), tiny_model, "start-index", "start-test")
    kinds = {"half": "fp16", "small": {"name": "opq-pq", "subvectors": 16, "bits": 5}}
    for name, backend in kinds.items():
        tree["stages"][name] = {"stage": "index", "vectors": "start-index", "backend": backend}
        tree["stages"][f"{name}-test"] = {"stage": "search", "index": name, "split": "test", "depth": 20}
        made = artifacts_of(plan_in(tmp_path, tree), tmp_path / "store")
    sizes = {name: made[name].facts["bytes"] for name in ("start-index", *kinds)}
    assert sizes == {name: (made[name].path / "index").stat().st_size for name in sizes}
    assert sizes["start-index"] == 45 + 60 * 32 * 4
    assert 60 * 32 * 2 < sizes["half"] < 60 * 32 * 2 + 200
    assert sizes["small"] - (60 * 10 + 4 * 32 * 32 + 4 * 32 * 32) < 300
    assert Fp16().open(made["half"].path).index.ntotal == 60
    exact, half = (read_run(made[name].path / "run.trec.gz") for name in ("start-test", "half-test"))
    for one, other in zip(score_lists(exact), score_lists(half), strict=True):
        np.testing.assert_allclose(one, other, atol=2e-3)
    assert len(doc_lists(read_run(made["small-test"].path / "run.trec.gz"))[0]) == 20
