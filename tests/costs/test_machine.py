"""What estimates of GPUs are made from, and what they count of processes, checkpointing and adversarial training."""

import dataclasses
import math
from pathlib import Path
from typing import Any

import pytest
from recipe.recipes import small_collection, small_tree, write_recipe

from hardneg.cli.plan_tables import plan_table
from hardneg.costs.data_sheets import NETWORK_PART, PRODUCT_PART, SHEETS, Sheet, by_sheet, of_sheet, sheet_of
from hardneg.costs.estimated_seconds import Rate
from hardneg.costs.machine import Machine
from hardneg.encoders.open.configuration import Shape
from hardneg.recipe.estimate import Estimate, estimate
from hardneg.recipe.load import load_recipe
from hardneg.recipe.plan import make_plan
from hardneg.store.artifacts import Store

SHEET = of_sheet("some", Sheet(100e12, 10e12, 1e12))
SIZES = {"sizes.documents": 1_000_000, "sizes.queries.train": 400_000, "sizes.queries.test": 1000}


@pytest.fixture
def rows(tmp_path: Path, tiny_model: Path) -> Any:
    tree = small_tree(small_collection(tmp_path / "data"), tiny_model)
    reranker = {"name": "cross-encoder", "source": "somebody/bert-large", "length": 32}
    tree["stages"]["judge"] = {"stage": "train-reranker", "reranker": reranker, "negatives": "static"}
    path = write_recipe(tmp_path / "r.yaml", tree)

    def estimated(machine: Machine, **more: Any) -> dict[str, Estimate]:
        settings = [f"{name}={value}" for name, value in {**SIZES, **more}.items()]
        plan = make_plan(load_recipe(path, settings=settings), [])
        return {row.step.name: row for row in estimate(plan, Store(tmp_path / "store"), None, machine)}

    return estimated


def test_each_gpu_brings_cores_that_tokenise_where_they_are_guessed() -> None:
    guess, stated = by_sheet("H100"), dataclasses.replace(SHEET, tokenise=Rate(2e6, "stated"))
    assert Machine(guess, 16, 2).tokenising(32e6) == pytest.approx(1.0)
    assert Machine(guess).tokenising(32e6) == pytest.approx(16.0)
    assert Machine(stated, 16, 2).tokenising(32e6) == pytest.approx(8.0)


def test_search_on_a_gpu_takes_what_reading_or_the_product_takes() -> None:
    gpu = Machine(SHEET)
    product = 400_000 * 1_000_000 * 768 * 2 / (PRODUCT_PART * 10e12)
    assert gpu.searching(400_000, 1_000_000, 768) == pytest.approx(product)
    reading = 1_000_000 * 768 * 4 / 2e9
    assert gpu.searching(10, 1_000_000, 768) == pytest.approx(reading)
    assert gpu.searching(64_000, 1_000_000, 768, 4) == pytest.approx(16_000 * 1_000_000 * 768 * 4 / 1e12)
    assert Machine(SHEET, 4).searching(400_000, 1_000_000, 768) == pytest.approx(product / 4)


def test_a_gpu_without_a_data_sheet_has_no_times_of_networks_and_search(rows: Any, capsys: Any) -> None:
    unknown = Machine(by_sheet("NVIDIA A10G"))
    found = rows(unknown)
    known = {name for name, row in found.items() if not math.isnan(row.seconds)}
    assert known == {"dataset", "static", "scores", "report"}
    plan_table(list(found.values()), unknown)
    printed = capsys.readouterr().out
    assert "GPU NVIDIA A10G: its speed is unknown here" in printed
    assert "unknown" in next(line for line in printed.splitlines() if line.startswith("start-index"))
    assert printed.split("to run: ")[1].splitlines()[0].endswith("unknown")


def test_memory_of_a_gpu_is_told_beside_the_machines(rows: Any, capsys: Any) -> None:
    cpu, gpu = Machine(), Machine(SHEET)
    one, other = rows(cpu)["star"], rows(gpu)["star"]
    assert (one.gpu_memory, other.memory) == (0, 700_000_000)
    assert 0 < other.gpu_memory < one.memory - other.memory
    plan_table(list(rows(gpu).values()), gpu)
    printed = capsys.readouterr().out
    assert "GPU memory" in printed and "from the data sheet, nothing was measured" in printed
    plan_table(list(rows(cpu).values()), cpu)
    assert "GPU" not in capsys.readouterr().out


def test_what_others_charge_is_told_with_what_gpus_cost(rows: Any, capsys: Any) -> None:
    gpu = Machine(SHEET)
    star = rows(gpu)["star"]
    charged = dataclasses.replace(star, charge=12.5)
    assert charged.cost(0.0) == 12.5 and charged.cost(2.0) == 12.5 + 2 * star.gpu_hours
    plan_table([rows(Machine())["static"], dataclasses.replace(charged, gpus=0)], Machine(), 0.0)
    printed = capsys.readouterr().out
    assert "cost 12.50" in " ".join(printed.split()) and printed.count("12.50") == 2


def test_processes_share_batches_and_work(rows: Any) -> None:
    more = {"stages.star.options.batch_size": 512, "stages.star.options.max_steps": 10_000}
    one, four = (rows(Machine(SHEET, count), **more)["star"] for count in (1, 4))
    assert four.seconds - 5 == pytest.approx((one.seconds - 5) / 4)
    assert four.memory == 4 * one.memory and one.gpu_memory / 4 < four.gpu_memory < one.gpu_memory
    own, shared = (rows(Machine(processes=count), **more)["star"] for count in (1, 4))
    assert shared.seconds == own.seconds and own.memory < shared.memory < 4 * own.memory


def test_checkpointing_saves_memory_and_costs_a_pass(rows: Any) -> None:
    gpu, name = Machine(SHEET), "stages.star.options."
    more = {f"{name}batch_size": 256, f"{name}max_steps": 10_000}
    plain, saving = rows(gpu, **more)["star"], rows(gpu, **more, **{f"{name}gradient_checkpointing": "true"})["star"]
    assert saving.gpu_memory < plain.gpu_memory
    assert (saving.seconds - 5) / (plain.seconds - 5) == pytest.approx(4 / 3)
    assert Shape().kept_a_token(128, True) * 5 < Shape().kept_a_token(128)


def test_adversarial_training_holds_the_embeddings_gradient_and_step(rows: Any) -> None:
    gpu = Machine(SHEET)
    plain, moved = rows(gpu)["judge"], rows(gpu, **{"stages.judge.options.adversarial": 0.01})["judge"]
    assert moved.gpu_memory - plain.gpu_memory == 2 * 30_522 * 1024 * 4


def test_kept_models_count_on_disk(rows: Any) -> None:
    plain, kept = rows(Machine())["star"], rows(Machine(), **{"stages.star.options.keep_every": 2})["star"]
    assert kept.disk * 4 == plain.disk * 6


@pytest.mark.parametrize(
    ("name", "known"),
    [
        ("NVIDIA A100-SXM4-80GB", "A100"),
        ("Tesla V100-SXM2-32GB", "V100"),
        ("NVIDIA H200", "H200"),
        ("NVIDIA GeForce RTX 4090", "RTX 4090"),
        ("NVIDIA L40", None),
        ("NVIDIA A10G", None),
    ],
)
def test_gpus_are_known_by_their_names(name: str, known: str | None) -> None:
    assert sheet_of(name) == (None if known is None else SHEETS[known])
    operations = by_sheet(name).of_network(1e6).a_second
    assert math.isnan(operations) if known is None else operations == NETWORK_PART * SHEETS[known].half
