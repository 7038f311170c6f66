"""Several devices search an index at once, with the lists of one; the CPU stands for each of them."""

from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
import torch

from hardneg.formats.vectors import FlatVectors
from hardneg.indexes import exact
from hardneg.indexes.exact import ExactOptions, search_exact, spans
from hardneg.records import ArtifactError, Hits
from hardneg.runtime import World
from hardneg.testing.indexes import write_encoded

TWO = ("cpu", "cpu")


@pytest.fixture
def folder(tmp_path: Path) -> Any:
    def write(vectors: Any) -> FlatVectors:
        write_encoded(tmp_path, vectors)
        return FlatVectors.open(tmp_path)

    return write


def searched(vectors: FlatVectors, k: int, devices: tuple[str, ...], block: int | None = None) -> Hits:
    queries = np.random.default_rng(1).integers(-2, 3, (20, 8)).astype(np.float32)
    with patch.object(ExactOptions, "everywhere", [torch.device(name) for name in devices]):
        return search_exact(vectors, queries, k, ExactOptions(block, device="cpu"))


@pytest.mark.parametrize(
    ("count", "block", "devices", "wanted"),
    [
        (10, 3, 2, [(0, 6), (6, 10)]),
        (10, 3, 3, [(0, 3), (3, 6), (6, 10)]),
        (4, 3, 4, [(0, 3), (3, 4)]),
        (3, 5, 2, [(0, 3)]),
        (0, 5, 2, []),
    ],
)
def test_each_device_has_whole_blocks(count, block, devices, wanted):
    assert [(rows.start, rows.stop) for rows in spans(count, block, devices)] == wanted


@pytest.mark.parametrize("devices", [TWO, ("cpu",) * 5])
@pytest.mark.parametrize(("k", "block"), [(1, 64), (10, 64), (200, 64), (3000, 64), (10, None)])
def test_ids_and_scores_are_those_of_one_device_ties_included(folder, devices, k, block):
    """Of small whole numbers, of which most scores are there many times."""
    vectors = folder(np.random.default_rng(0).integers(-2, 3, (3000, 8)).astype(np.float32))
    one, several = (searched(vectors, k, given, block) for given in (("cpu",), devices))
    assert np.array_equal(one.rows, several.rows)
    assert np.array_equal(one.scores, several.scores)


def test_products_are_the_same_to_the_bit(folder, monkeypatch):
    seen: list[int] = []
    search = exact.search_blocks

    def seen_by(vectors, *some, **more):
        seen.append(len(vectors))
        return search(vectors, *some, **more)

    monkeypatch.setattr(exact, "search_blocks", seen_by)
    vectors = folder(np.random.default_rng(0).standard_normal((3000, 8), np.float32))
    one, several = (searched(vectors, 100, given, 128) for given in (("cpu",), TWO))
    assert np.array_equal(one.rows, several.rows) and np.array_equal(one.scores, several.scores)
    assert seen[0] == 3000 and sorted(seen[1:]) == [1464, 1536]


def test_a_vector_that_is_not_finite_is_told_by_its_row_in_the_folder(folder):
    vectors = folder(np.ones((1000, 8), np.float32))
    with (vectors.folder / "index").open("r+b") as file:
        file.seek(-8 * 4 * 300, 2)
        file.write(np.full(1, np.nan, "<f4").tobytes())
    with pytest.raises(ArtifactError, match="the vector in row 700 is not finite; re-encode the corpus"):
        searched(vectors, 5, TWO, 64)


def test_arrays_are_searched_on_one(monkeypatch):
    monkeypatch.setattr(exact, "_search_on", lambda *_: pytest.fail("dealt"))
    queries, vectors = np.ones((1, 2), np.float32), np.ones((9, 2), np.float32)
    monkeypatch.setattr(ExactOptions, "everywhere", [torch.device("cpu")] * 2)
    assert search_exact(vectors, queries, 1, ExactOptions(2)).rows.tolist() == [[0]]


def test_all_gpus_are_taken_by_one_process_that_names_none(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    both = [torch.device("cuda", 0), torch.device("cuda", 1)]
    assert ExactOptions().everywhere == ExactOptions(device="cuda").everywhere == both
    assert ExactOptions(device="cuda:1").everywhere == [torch.device("cuda", 1)]
    assert ExactOptions(device="cpu").everywhere == [torch.device("cpu")]
    monkeypatch.setattr(exact, "world", lambda: World(1, 2, 1, 2))
    assert ExactOptions(device="cuda").everywhere == [torch.device("cuda")]
