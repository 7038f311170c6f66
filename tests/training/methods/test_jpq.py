"""Centroids that learn with the queries: their gradients, and the index that follows them."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from query_toy import DEPTH, TwinBags, joint, run, write_index
from toy import options, toy_data

from hardneg.indexes.backends.product import OpqPq, Pq
from hardneg.losses.pairwise import LambdaLoss
from hardneg.runtime.progress import Silent
from hardneg.training.methods.adore import JpqTraining, code_products
from hardneg.training.step import make_optimizer

pytest.importorskip("faiss", reason="product quantisation needs faiss")


def test_products_of_codes_are_those_of_the_vectors_and_have_gradients() -> None:
    source = torch.Generator().manual_seed(3)
    queries = torch.randn(2, 6, generator=source, dtype=torch.float64, requires_grad=True)
    centroids = torch.randn(3, 4, 2, generator=source, dtype=torch.float64, requires_grad=True)
    codes = torch.randint(0, 4, (2, 5, 3), generator=source)
    vectors = centroids[torch.arange(3), codes].reshape(2, 5, 6)
    expected = (vectors @ queries[:, :, None]).squeeze(2)
    assert torch.allclose(code_products(queries, centroids, codes), expected)
    assert torch.autograd.gradcheck(lambda q, c: code_products(q, c, codes), (queries, centroids))


def made(toy: Path, folder: Path, kind: str) -> JpqTraining:
    data, index = toy_data(toy), folder / kind
    if not index.exists():
        write_index(folder / "flat", data, TwinBags())
        (OpqPq if kind == "opq-pq" else Pq)(subvectors=4, bits=4).build(folder / "flat", index, Silent())
    return joint(index, "dynamic", data, folder, forced="always")


@pytest.mark.parametrize("kind", ["pq", "opq-pq"])
def test_the_scores_are_the_index_own_and_follow_the_centroids(toy_folder: Path, tmp_path: Path, kind: str) -> None:
    way = made(toy_folder, tmp_path, kind)
    before, file = way.searcher.centroids(), (tmp_path / kind / "index").read_bytes()
    run(way, tmp_path / "run", max_steps=4, loss=LambdaLoss(cut=DEPTH))
    assert np.abs(way.centroids - before).max() > 1e-3
    assert (tmp_path / kind / "index").read_bytes() == file
    way.trainable.eval()
    batch = next(way.batches(range(0, 4, 4), 4))
    found = way.scores(way.forward_module, batch, half=False)
    assert np.array_equal(way.searcher.centroids(), way.centroids)
    hits = way.searcher.search(way.encoder.encode(batch.rows.texts, "query"), DEPTH)
    assert found.scores[:, :DEPTH].detach().numpy() == pytest.approx(hits.scores, abs=1e-4)


def test_centroids_have_a_rate_of_their_own_and_do_not_decay(toy_folder: Path, tmp_path: Path) -> None:
    way = made(toy_folder, tmp_path, "pq")
    *others, own = make_optimizer(way.forward_module, options()).param_groups
    assert (own["factor"], own["weight_decay"], own["params"]) == (3.0, 0.0, [way.forward_module.centroids])
    assert all("factor" not in group for group in others)
    assert sum(len(group["params"]) for group in others) == len(list(way.encoder.module.parameters()))


def test_a_stopped_run_goes_on_with_the_same_centroids(toy_folder: Path, tmp_path: Path) -> None:
    whole = made(toy_folder, tmp_path, "pq")
    run(whole, tmp_path / "whole", max_steps=6, checkpoint_every=None)
    broken = made(toy_folder, tmp_path, "pq")

    class Stop(Silent):
        def task(self, *args: Any, **kwargs: Any) -> Any:
            from contextlib import nullcontext
            from types import SimpleNamespace

            steps = iter(range(6))

            def advance(count: int = 1) -> None:
                if next(steps) == 4:
                    raise KeyboardInterrupt

            return nullcontext(SimpleNamespace(advance=advance, describe=lambda text: None))

    with pytest.raises(KeyboardInterrupt):
        run(broken, tmp_path / "broken", max_steps=6, progress=Stop())
    again = made(toy_folder, tmp_path, "pq")
    run(again, tmp_path / "broken", max_steps=6)
    assert np.array_equal(again.centroids, whole.centroids)
