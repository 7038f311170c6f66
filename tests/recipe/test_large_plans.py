"""Plans for many documents: bytes, by hand."""

from pathlib import Path
from typing import Any

import pytest
from recipe.recipes import small_collection, small_tree, write_recipe

from hardneg.encoders.open.configuration import BASE
from hardneg.encoders.spec import FullSpec
from hardneg.indexes.backends.approximate import Hnsw, IvfFlat, IvfPq
from hardneg.indexes.backends.product import OpqPq, Pq
from hardneg.recipe.estimate import Estimate, Room, estimate, has_gpu, too_large
from hardneg.recipe.load import load_recipe
from hardneg.recipe.plan import make_plan
from hardneg.store.artifacts import Store
from hardneg.training.options import TrainOptions
from hardneg.verbs.shared.sizes import Sizes, encoding

BILLION = 1_000_000_000
MODEL = FullSpec("tested", similarity="dot", query_length=50, document_length=100)


def sizes(documents: int, index: object = None, gpu: bool = False) -> Sizes:
    return Sizes(documents, {}, MODEL, BASE, index=index, gpu=gpu)


def test_a_billion_vectors_of_768_dimensions() -> None:
    row = encoding(None, sizes(BILLION))
    assert row.disk == BILLION * (768 * 4 + 20) == 3_092_000_000_000  # 3.07 TB, and ids


def test_searches_that_are_not_exact_hold_their_index() -> None:
    held = {
        96 * BILLION: Pq(subvectors=96),
        104 * BILLION: IvfPq(subvectors=96, lists=65_536, nprobe=64),
        (768 * 4 + 8) * BILLION: IvfFlat(lists=1000, nprobe=10),
        (768 * 4 + 8 * 32 + 4 + 12) * BILLION: Hnsw(m=32, ef_search=128),
        0: None,
    }
    assert {sizes(BILLION, index).search_memory: index for index in held.values()} == held


def test_codes_take_their_bytes_and_the_tables_beside_them() -> None:
    cost = Pq(subvectors=96, sample=65_536).cost(BILLION, BILLION, 768)
    assert cost == (96 * BILLION + 4 * 768 * 256, 96 * BILLION)
    turned = OpqPq(subvectors=96, sample=65_536, iterations=50).cost(BILLION, BILLION, 768)
    assert turned.disk - cost.disk == 4 * 768 * 768
    listed = IvfPq(subvectors=96, lists=256, sample=65_536).cost(BILLION, BILLION, 768)
    assert listed.disk - cost.disk == 8 * BILLION + 4 * 768 * 256


@pytest.fixture
def rows(tmp_path: Path, tiny_model: Path) -> Any:
    tree = small_tree(small_collection(tmp_path / "data"), tiny_model)
    path = write_recipe(tmp_path / "r.yaml", tree)

    def planned(documents: int | None = None, **machine: Any) -> dict[str, Estimate]:
        plan = make_plan(load_recipe(path), [])
        found = estimate(plan, Store(tmp_path / "store"), None, documents=documents, **machine)
        return {row.step.name: row for row in found}

    return planned


def test_networks_are_in_the_memory_of_gpus_where_there_are_some(rows: Any) -> None:
    cpu, gpu, two = rows(gpu=False)["star"], rows(gpu=True)["star"], rows(gpu=True, processes=2)["star"]
    assert cpu.gpu_memory == 0 < gpu.gpu_memory and gpu.memory < cpu.memory
    assert two.memory == 2 * gpu.memory and two.gpu_memory < gpu.gpu_memory  # they share the batch


def test_what_does_not_fit_is_told_with_what_to_do(rows: Any) -> None:
    told = list(too_large(list(rows(10**13, processes=4).values()), Room(disk=1e12, memory=1e6)))
    joined = "\n".join(told)
    assert "disk: " in joined and "1.0 TB are free in the store; name a store with more room, shards" in joined
    assert "start-index: 2.8 GB of memory, of which this machine has 1.0 MB" in joined
    assert all(": " in line and "; " in line for line in told)
    assert not list(too_large(list(rows().values()), Room(disk=1e12, memory=1e11)))
    assert not list(too_large(list(rows(10**7).values()), Room()))


def test_a_card_is_known_by_its_driver_or_its_device(tmp_path: Path) -> None:
    driver, devices = tmp_path / "gpus", tmp_path / "dev"
    assert not has_gpu(driver, devices)
    (card := driver / "0000:01:00.0").mkdir(parents=True)
    (card / "information").write_text("Model: \t NVIDIA H100\n")
    assert has_gpu(driver, devices)
    devices.mkdir()
    (devices / "nvidiactl").touch()
    assert has_gpu(tmp_path / "none", devices)


def test_what_a_gpu_keeps_of_a_token() -> None:
    """In bfloat16 6 + 6 + 2 + 2 + 8 + 8 + 4 + 4 + 1 + 1 bytes a number and layer; attention keeps no scores."""
    assert BASE.kept_a_token(512, where="bf16") == 12 * 42 * 768 == 387_072
    assert BASE.kept_a_token(512, where="fp32") == 12 * 66 * 768
    assert BASE.kept_a_token(512) == 12 * (60 * 768 + 3 * 4 * 12 * 512)
    assert BASE.kept_a_token(128, True, "bf16") == 12 * 4 * 768 + 42 * 768


def test_a_training_on_a_gpu_holds_rounded_weights_and_padded_texts() -> None:
    cpu, gpu = sizes(1000), sizes(1000, gpu=True)
    for precision, copies, each in (("auto", 220_000_000, 387_072), ("fp32", 0, 608_256)):
        options = TrainOptions(precision=precision)  # type: ignore[arg-type]
        assert (gpu.rounded(options), gpu.kept(10, 100, options)) == (copies, 10 * each)
        assert cpu.rounded(options) == 0
    assert (gpu.padded, cpu.padded) == (1.0, 0.8)
