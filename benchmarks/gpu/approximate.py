"""Codes of product quantisation on GPUs, and cuVS's graph: the CPU's hits, and what each takes."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from gpu.material import around_topics, seconds
from gpu.setting import Figures, Setting, Skipped, expect
from numpy.typing import NDArray

from hardneg.formats.vectors import FlatWriter
from hardneg.indexes.exact import ExactOptions, Flat
from hardneg.indexes.product import OpqPq, Pq
from hardneg.records import Hits
from hardneg.runtime import Silent

_DEPTH, _TOPICS = 100, 300


def compressed(setting: Setting) -> Figures:
    """Each kind is searched where the device is; the same file on the CPU gives the same hits."""
    source, queries = written(setting)
    parts = setting.size(48, 12)
    kinds = {"pq": Pq(parts), "opq-pq": OpqPq(parts, iterations=setting.size(20, 2))}
    found: Figures = {}
    for name, plugin in kinds.items():
        path = setting.folder / name
        found[f"{name}, s to build"] = round(
            seconds(lambda p=plugin, to=path: p.build(source, to, Silent()), setting), 2
        )
        here, there = (plugin.open(path).using(_on(device), None) for device in ("cpu", setting.device))
        found |= _compared(name, here, there, queries, setting)
        expect(not setting.gpu or there.copy is not None, f"{name}: its codes are not on the GPU")
        _follows(name, here, there, queries)
    return found


def graph(setting: Setting) -> Figures:
    """cuVS builds a graph; on the GPU and on the CPU it finds nearly all that there is."""
    from hardneg_cagra.backend import Cagra

    if not setting.gpu:
        raise Skipped("cagra is built on a GPU")
    source, queries = written(setting)
    plugin, path = Cagra(), setting.folder / "cagra"
    found: Figures = {"s to build": round(seconds(lambda: plugin.build(source, path, Silent()), setting), 2)}
    exact = Flat().open(source).using(_on(setting.device), None).search(queries, _DEPTH)
    for place in ("cpu", setting.device):
        searcher = plugin.open(path).using(_on(place), None)
        recall = _shared(searcher.search(queries, _DEPTH), exact)
        expect(recall > 0.95, f"recall at {_DEPTH} on {place} is {recall:.3f}")
        found |= {f"{place}, recall": round(recall, 4), f"{place}, queries/s": _rate(searcher, queries, setting)}
    return found


def written(setting: Setting) -> tuple[Path, NDArray[np.float32]]:
    """A folder of normalised vectors around some topics, as texts have them, and queries of the same."""
    count, dimension = setting.size(500_000, 2000), setting.size(768, 48)
    some = around_topics(np.random.default_rng(0), _TOPICS, dimension)
    with FlatWriter(setting.folder / "flat", dimension, count) as writer:
        for _number, start in enumerate(range(0, count, 4096)):
            writer.write(some(min(4096, count - start)))
        writer.write_doc_ids(f"d{row}" for row in range(count))
        writer.close()
    return setting.folder / "flat", some(setting.size(4096, 50))


def _on(device: str) -> ExactOptions:
    return ExactOptions(device=device)


def _compared(name: str, here: Any, there: Any, queries: NDArray[np.float32], setting: Setting) -> Figures:
    same = _shared(there.search(queries, _DEPTH), here.search(queries, _DEPTH))
    expect(same > 0.99, f"{name}: {1 - same:.2%} of the hits are others than on the CPU")
    rates = {place: _rate(searcher, queries, setting) for place, searcher in (("cpu", here), (setting.device, there))}
    return {
        f"{name}, same hits": round(same, 5),
        **{f"{name}, queries/s, {place}": rate for place, rate in rates.items()},
    }


def _follows(name: str, here: Any, there: Any, queries: NDArray[np.float32]) -> None:
    """Centroids that move are followed at the next search."""
    for searcher in (here, there):
        searcher.install(searcher.centroids()[:, ::-1].copy())
    same = _shared(there.search(queries, _DEPTH), here.search(queries, _DEPTH))
    expect(same > 0.99, f"{name}: after its centroids moved {1 - same:.2%} of the hits are others than on the CPU")


def _rate(searcher: Any, queries: NDArray[np.float32], setting: Setting) -> float:
    search: Callable[[], Any] = lambda: searcher.search(queries, _DEPTH)  # noqa: E731
    search()
    return round(len(queries) / seconds(search, setting), 1)


def _shared(found: Hits, best: Hits) -> float:
    """The mean share of the best that was found."""
    parts = [len(np.intersect1d(one, other)) / len(other) for one, other in zip(found.rows, best.rows, strict=True)]
    return float(np.mean(parts))
