"""Training loops that ask an index at every step: what a step takes, and that the index stays where it is."""

from types import SimpleNamespace

import numpy as np
import torch
from gpu.approximate import written
from gpu.material import finish, model, seconds
from gpu.recipes import collection
from gpu.setting import Figures, Setting, expect

from hardneg.indexes.exact import ExactOptions
from hardneg.indexes.product import Pq
from hardneg.runtime import Silent

_BATCH = 32


def centroids(setting: Setting) -> Figures:
    """A batch is searched for after the centroids have moved, as in JPQ, with the codes on the device and on the CPU.

    The lists are the same, and the device's memory grows by no second copy of the codes.
    """
    source, queries = written(setting)
    depth, batch = setting.size(200, 20), queries[:_BATCH]
    parts = setting.size(48, 12)
    Pq(parts).build(source, setting.folder / "pq", Silent())
    here, there = (
        Pq(parts).open(setting.folder / "pq").using(ExactOptions(device=device).for_few(), None)
        for device in ("cpu", setting.device)
    )
    moved = here.centroids()[:, ::-1].copy()
    for searcher in (here, there):
        searcher.install(moved)
    one, other = (searcher.search(batch, depth).rows for searcher in (here, there))
    same = float(np.mean([len(np.intersect1d(*rows)) / depth for rows in zip(one, other, strict=True)]))
    expect(same > 0.99, f"{1 - same:.2%} of the hits are others than on the CPU")
    held = torch.cuda.memory_allocated() if setting.gpu else 0
    found: Figures = {"same hits": round(same, 5)}
    for name, searcher in (("on the CPU", here), ("on the device", there)):

        def step(searcher: object = searcher) -> None:
            searcher.install(moved)  # type: ignore[attr-defined]
            searcher.search(batch, depth)  # type: ignore[attr-defined]

        found[f"{name}, s a step"] = round(min(seconds(step, setting) for _ in range(3)), 4)
    grown = (torch.cuda.memory_allocated() if setting.gpu else 0) - held
    expect(grown < 2 * moved.nbytes + (1 << 20), f"{grown:,} bytes more are held after six steps")
    slower = float(found["on the device, s a step"]) / max(float(found["on the CPU, s a step"]), 1e-9)
    expect(not setting.gpu or slower < 1, f"a step takes {slower:.1f} times the CPU's")
    return found


def adore_loss(setting: Setting) -> Figures:
    """Steps of `AdoreLoss` with gradients; what the first one takes beside the later ones is the index's way there."""
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.util import batch_to_device

    from hardneg.trainer import AdoreLoss

    network = SentenceTransformer(str(model(setting)), device=setting.device)
    dataset = f"beir:{collection(setting, setting.size(50_000, 300), 90)}"
    arguments = SimpleNamespace(output_dir=setting.folder, device=setting.device)
    loss = AdoreLoss(network, dataset, arguments, depth=setting.size(200, 20))
    rows = loss.dataset[:_BATCH]
    features = batch_to_device(network.preprocess(rows["anchor"]), torch.device(setting.device))
    labels = torch.tensor(rows["label"], device=setting.device)

    def step() -> None:
        loss([dict(features)], labels).backward()
        finish(setting)

    taken = [seconds(step, setting) for _ in range(setting.size(6, 3))]
    return {"first, s a step": round(taken[0], 4), "later, s a step": round(float(np.median(taken[1:])), 4)}
