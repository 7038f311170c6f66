"""Plans for many documents on many machines: bytes, hours and cost, by hand."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from recipe.recipes import small_collection, small_tree, write_recipe

from hardneg.costs.data_sheets import by_sheet
from hardneg.costs.estimated_seconds import Rate
from hardneg.costs.machine import Machine
from hardneg.costs.rates import Pace, Rates
from hardneg.encoders.open.configuration import BASE
from hardneg.encoders.spec import FullSpec
from hardneg.indexes.backends.hnsw import Hnsw
from hardneg.indexes.backends.inverted_lists import IvfFlat, IvfPq
from hardneg.indexes.backends.product import OpqPq, Pq
from hardneg.recipe.estimate import Estimate, Room, estimate, too_large
from hardneg.recipe.load import load_recipe
from hardneg.recipe.plan import make_plan
from hardneg.store.artifacts import Store
from hardneg.training.options import TrainOptions
from hardneg.verbs.shared.sizes import Sizes, encoding

BILLION = 1_000_000_000
MODEL = FullSpec("tested", similarity="dot", query_length=50, document_length=100)
PACES = {"search": Rate(1e14, "measured"), "tokenise": Rate(1e9, "measured"), "read": Rate(1e12, "measured")}
PACES |= {"write": Rate(1e9, "measured"), "between": Rate(1e9, "stated")}
GPU = Rates("a GPU", gpu=True, encode=(Pace(768, 12, 60, 1_000_000),), capacity=80e9, **PACES)


def sizes(documents: int, machine: Machine, index: object = None) -> Sizes:
    return Sizes(documents, {}, MODEL, BASE, machine, index=index)


def test_a_billion_vectors_of_768_dimensions() -> None:
    row = encoding(None, sizes(BILLION, Machine(GPU, 16, 2)))
    assert row.disk == BILLION * (768 * 4 + 20) == 3_092_000_000_000  # 3.07 TB, and ids
    assert row.sent == row.disk / 2  # what the second machine makes goes to the first one's store
    tokens = BILLION * 60
    assert row.seconds == pytest.approx(tokens / 1_000_000 / 16 + 3092 + 1546 / 2 + 3)
    assert row.seconds.bases == ("measured", "stated")  # type: ignore[attr-defined]


def test_ms_marco_searched_by_its_training_queries_takes_7_peta_operations() -> None:
    queries, documents = 502_939, 8_841_823
    operations = 2 * queries * documents * 768
    assert operations == pytest.approx(6.83e15, rel=1e-3)
    assert Machine(GPU).searching(queries, documents, 768) == pytest.approx(operations / 1e14)
    assert Machine(GPU, 4).searching(queries, documents, 768) == pytest.approx(operations / 4e14)


def test_searches_that_are_not_exact_count_codes_and_lists() -> None:
    machine = Machine(replace(GPU, codes=Rate(1e12, "guess")))
    exact = sizes(BILLION, machine).searching(1000)
    assert exact == pytest.approx(1000 * 2 * BILLION * 768 / 1e14)
    whole, part = Pq(subvectors=96), IvfPq(subvectors=96, lists=65_536, nprobe=64)
    assert whole.search_cost(sizes(BILLION, machine).index_size) == (2 * 768 * 256, 96e9, 96 * BILLION)
    cost = part.search_cost(sizes(BILLION, machine).index_size)
    assert cost == (2 * 768 * (256 + 65_536), 96e9 * 64 / 65_536, 104 * BILLION)
    coded, listed = (sizes(BILLION, machine, index).searching(1000) for index in (whole, part))
    assert coded == pytest.approx(1000 * (96e9 / 1e12 + 2 * 768 * 256 / 1e14))
    assert listed < coded / 500 and listed.bases == ("guess",)
    assert sizes(BILLION, machine, whole).search_memory == 96 * BILLION


def test_building_codes_counts_every_vector_and_the_sample_in_each_round() -> None:
    cost = Pq(subvectors=96, sample=65_536).cost(BILLION, BILLION, 768)
    assert cost.disk == 96 * BILLION + 4 * 768 * 256 and cost.memory == 96 * BILLION
    assert cost.operations == 2 * 768 * 256 * BILLION
    assert cost.seconds == 25 * 2 * 768 * 256 * 65_536 / 50e9
    turned = OpqPq(subvectors=96, sample=65_536, iterations=50).cost(BILLION, BILLION, 768)
    assert turned.operations == 2 * 768 * (256 + 768) * BILLION
    assert turned.seconds == 2 * 768 * 65_536 * (256 * (25 + 50 * 4) + 768 * 50) / 50e9
    listed = IvfPq(subvectors=96, lists=256, sample=65_536).cost(BILLION, BILLION, 768)
    assert listed.disk - cost.disk == 8 * BILLION + 4 * 768 * 256
    assert listed.seconds - cost.seconds == pytest.approx(10 * 2 * 768 * 256 * 65_536 / 50e9)


def test_graphs_and_lists_are_not_searched_exactly() -> None:
    machine = Machine(GPU)
    graph = Hnsw(m=32, ef_search=128)
    assert graph.search_cost(sizes(BILLION, machine).index_size).operations == 6 * 2 * 768 * 128 * 32
    assert sizes(BILLION, machine, graph).search_memory > 768 * 4 * BILLION
    lists = IvfFlat(lists=1000, nprobe=10).search_cost(sizes(BILLION, machine).index_size)
    assert lists == (2 * 768 * (1000 + BILLION / 100), 0, BILLION * (768 * 4 + 8))


def test_two_machines_exchange_gradients_twice_and_vectors_three_times() -> None:
    two = sizes(1, Machine(GPU, 16, 2))
    assert two.exchanged(10, gradients=400, vectors=30) == 10 * (2 * 400 + 3 * 30)
    assert sizes(1, Machine(GPU, 16, 1)).exchanged(10, 400, 30) == 0
    assert sizes(1, Machine(GPU, 16, 4)).exchanged(10, 400) == 3 * two.exchanged(10, 400)


@pytest.fixture
def rows(tmp_path: Path, tiny_model: Path) -> Any:
    tree = small_tree(small_collection(tmp_path / "data"), tiny_model)
    path = write_recipe(tmp_path / "r.yaml", tree)

    def planned(machine: Machine, documents: int | None = None) -> dict[str, Estimate]:
        plan = make_plan(load_recipe(path), [])
        return {row.step.name: row for row in estimate(plan, Store(tmp_path / "store"), None, machine, documents)}

    return planned


def test_gpus_cost_for_the_steps_that_they_work_in(rows: Any) -> None:
    found = rows(Machine(GPU, 16, 2), BILLION)
    index, mined = found["start-index"], found["static"]
    assert index.items == BILLION and index.gpus == 16
    assert index.gpu_hours == pytest.approx(16 * index.seconds / 3600)
    assert index.cost(2.5) == pytest.approx(2.5 * index.gpu_hours)
    assert mined.gpus == 0 == mined.cost(2.5)


def test_what_does_not_fit_is_told_with_what_to_do(rows: Any) -> None:
    machine = Machine(replace(by_sheet("T4"), capacity=0.1e9), 4)
    told = list(too_large(list(rows(machine, 10**13).values()), machine, Room(disk=1e12, memory=1e6)))
    joined = "\n".join(told)
    assert "star: " in joined and "on each GPU, of which 90.0 MB can be counted on; take smaller batches" in joined
    assert "disk: " in joined and "1.0 TB are free in the store; name a store with more room, shards" in joined
    assert "start-index: 2.8 GB of memory, of which this machine has 1.0 MB" in joined
    assert "hours of GPUs; take more GPUs or machines, or a smaller model" in joined
    assert all(": " in line and "; " in line for line in told)


def test_what_fits_is_not_told(rows: Any) -> None:
    machine = Machine(by_sheet("H100"), 8)
    assert not list(too_large(list(rows(machine).values()), machine, Room(disk=1e12, memory=1e11)))
    assert not list(too_large(list(rows(machine, 10**7).values()), machine, Room()))


def test_what_a_gpu_keeps_of_a_token() -> None:
    """In bfloat16 6 + 6 + 2 + 2 + 8 + 8 + 4 + 4 + 1 + 1 bytes a number and layer; attention keeps no scores."""
    assert BASE.kept_a_token(512, where="bf16") == 12 * 42 * 768 == 387_072
    assert BASE.kept_a_token(512, where="fp32") == 12 * 66 * 768
    assert BASE.kept_a_token(512) == 12 * (60 * 768 + 3 * 4 * 12 * 512)
    assert BASE.kept_a_token(128, True, "bf16") == 12 * 4 * 768 + 42 * 768


def test_a_training_on_a_gpu_holds_rounded_weights_and_padded_texts(rows: Any) -> None:
    cpu, gpu = (sizes(1000, Machine(rates)) for rates in (Rates("a CPU"), GPU))
    for precision, copies, each in (("auto", 220_000_000, 387_072), ("fp32", 0, 608_256)):
        options = TrainOptions(precision=precision)  # type: ignore[arg-type]
        assert (gpu.rounded(options), gpu.kept(10, 100, options)) == (copies, 10 * each)
        assert cpu.rounded(options) == 0
    assert (gpu.padded, cpu.padded) == (1.0, 0.8)
