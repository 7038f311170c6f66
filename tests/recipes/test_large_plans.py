"""Plans for many documents: bytes, by hand."""

from pathlib import Path
from typing import Any

import pytest
from recipes.recipes import small_collection, small_tree, write_recipe

from hardneg.encoders.open.contract import BASE
from hardneg.encoders.spec import FullSpec
from hardneg.indexes.backends.compressed import IvfPq
from hardneg.indexes.backends.product import OpqPq, Pq
from hardneg.recipes.estimate import Estimate, estimate, no_room
from hardneg.recipes.load import load_recipe
from hardneg.recipes.plan import make_plan
from hardneg.stages.base import Sizes, encoding
from hardneg.store.artifacts import Store

BILLION = 1_000_000_000
MODEL = FullSpec("tested", similarity="dot", query_length=50, document_length=100)


def test_a_billion_vectors_of_768_dimensions() -> None:
    row = encoding(None, Sizes(BILLION, {}, MODEL, BASE))
    assert row.disk == BILLION * (768 * 4 + 20) == 3_092_000_000_000  # 3.07 TB, and ids


def test_codes_take_their_bytes_and_the_tables_beside_them() -> None:
    cost = Pq(subvectors=96, sample=65_536).disk_bytes(BILLION, BILLION, 768)
    assert cost == 96 * BILLION + 4 * 768 * 256
    turned = OpqPq(subvectors=96, sample=65_536, iterations=50).disk_bytes(BILLION, BILLION, 768)
    assert turned - cost == 4 * 768 * 768
    listed = IvfPq(subvectors=96, lists=256, sample=65_536).disk_bytes(BILLION, BILLION, 768)
    assert listed - cost == 8 * BILLION + 4 * 768 * 256


@pytest.fixture
def rows(tmp_path: Path, tiny_model: Path) -> Any:
    tree = small_tree(small_collection(tmp_path / "data"), tiny_model)
    path = write_recipe(tmp_path / "r.yaml", tree)

    def planned(documents: int | None = None) -> dict[str, Estimate]:
        plan = make_plan(load_recipe(path), [])
        found = estimate(plan, Store(tmp_path / "store"), None, documents)
        return {row.step.name: row for row in found}

    return planned


def test_what_does_not_fit_is_told_with_what_to_do(rows: Any) -> None:
    (told,) = no_room(list(rows(10**13).values()), free=1e12)
    assert told.startswith("disk: ") and "1.0 TB are free in the store; name a store with more room" in told
    assert not list(no_room(list(rows().values()), 1e12)) and not list(no_room(list(rows(10**7).values()), None))
