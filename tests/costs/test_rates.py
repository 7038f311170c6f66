"""Rates of networks by size, and files of rates."""

import json
from pathlib import Path
from typing import Any

import pytest

from hardneg.costs.data_sheets import SHEETS, by_sheet, guessed
from hardneg.costs.machine import Machine, named
from hardneg.costs.rate_files import RateFile, forget_rates, measured, read_rates, remember, this_cpu
from hardneg.costs.rates import Pace, Rates, network_operations
from hardneg.encoders.open.configuration import Shape
from hardneg.records.errors import DataError, UsageError

SMALL, LARGE = Pace(384, 6, 128, 10_000), Pace(768, 12, 128, 1_000)


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def test_a_token_takes_two_operations_a_weight_and_attention() -> None:
    weights = 12 * (4 * 768 * 768 + 2 * 768 * 3072)  # query, key, value, output; to four times the size and back
    assert weights == 84_934_656
    attention = 12 * 2 * 2 * 128 * 768  # twelve layers; scores, and what they weigh; two operations each
    assert network_operations(768, 12, 128) == 2 * weights + attention == 174_587_904
    assert Shape().operations_a_token(128) == 174_587_904
    assert Shape(terms=30_522).operations_a_token() == 2 * weights + 2 * 768 * 30_522


def test_between_two_sizes_the_rate_lies_on_a_line_of_logarithms() -> None:
    rates = Rates("one", encode=(LARGE, SMALL))
    low, high = SMALL.operations, LARGE.operations
    assert rates.of_network(low).a_second == pytest.approx(10_000 * low)
    assert rates.of_network(high).a_second == pytest.approx(1_000 * high)
    middle = rates.of_network((low * high) ** 0.5).a_second
    assert middle == pytest.approx((10_000 * low * 1_000 * high) ** 0.5)
    assert rates.of_network(low / 9) == rates.of_network(low) and rates.of_network(high * 9) == rates.of_network(high)
    assert rates.of_network(low).basis == "measured"


def test_a_training_has_its_own_paces_of_three_passes() -> None:
    rates = Rates("one", encode=(SMALL,), train=(Pace(384, 6, 128, 2_000),))
    tokens = 2_000 * 60
    taken = Machine(rates).network(3 * tokens * SMALL.operations, SMALL.operations, learning=True)
    assert taken == pytest.approx(60)


def test_a_table_has_its_own_pace_or_that_of_the_tokeniser() -> None:
    assert guessed(cores=2).table.basis == "guess"
    rates = Rates("one", encode=(SMALL, Pace(256, 0, 100, 50_000)))
    assert rates.table == (50_000, "measured") and rates.of_network(1.0).a_second == 10_000 * SMALL.operations


def test_what_was_measured_is_kept_and_forgotten() -> None:
    device = this_cpu()
    assert measured(device) is None
    remember(device, RateFile(device=device.name, cores=2, encode=(SMALL,), read=3e9, date="2026-01-02"))
    found = measured(device)
    assert found is not None and found.encode == (SMALL,)
    own = named(None)
    assert own.rates.read == (3e9, "measured") and own.rates.write.basis == "guess" and own.rates.date == "2026-01-02"
    assert forget_rates() == 1 and measured(device) is None


def test_the_threads_are_part_of_the_device(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    assert this_cpu().name.endswith(", 3 threads")
    monkeypatch.setenv("OMP_NUM_THREADS", "4")
    assert this_cpu().name.endswith(", 4 threads")


def test_search_is_kept_as_scores_of_one_dimension() -> None:
    found = RateFile.model_validate({"device": "a", "search": {"dimension": 384, "scores": 1e8}})
    assert found.rates("measured").search == (2 * 384 * 1e8, "measured")


def test_rates_of_a_cpu_are_never_used_for_gpus(tmp_path: Path) -> None:
    path = tmp_path / "cpu.json"
    path.write_text(json.dumps({"device": "a CPU", "encode": [vars(SMALL)], "tokenise": 1e6}))
    assert named(str(path), machines=3).devices == 3
    with pytest.raises(UsageError, match=r"cpu\.json holds rates of a CPU.*rates to one of .*h100"):
        named(str(path), gpus=8)
    remember(this_cpu(), RateFile(device="a CPU", encode=(SMALL,), tokenise=1e6, search={"dimension": 1, "scores": 1}))
    with pytest.raises(UsageError, match="gpus 2: this machine has no GPU"):
        named(None, gpus=2)
    gpu = named("h100", gpus=2).rates
    assert gpu == by_sheet("H100") and gpu.tokenise.basis == "guess" and not gpu.encode


def test_rates_of_a_gpu_are_never_used_for_a_cpu(tmp_path: Path) -> None:
    path = tmp_path / "gpu.json"
    path.write_text(json.dumps({"device": "NVIDIA H100 PCIe", "gpu": True, "encode": [vars(LARGE)]}))
    found = named(str(path), machines=2)
    assert found.gpu == "NVIDIA H100 PCIe" and (found.processes, found.machines) == (2, 2)
    assert found.rates.of_network(LARGE.operations) == (1_000 * LARGE.operations, "stated")
    assert found.rates.search == by_sheet("H100").search  # what the file lacks is by the data sheet
    remember(this_cpu()._replace(gpu=True), read_rates(path))
    assert not named(None).rates.gpu


def test_names_of_data_sheets_are_read_in_any_case() -> None:
    assert named("rtx-4090").gpu == "RTX 4090" and named("A100", 2, 8).processes == 16
    assert all(sheet.capacity >= 16e9 for sheet in SHEETS.values())
    with pytest.raises(UsageError, match=r"rates h10: no file of that name; give one of a10, a100, h100"):
        named("h10")


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("[]", ["the file"]),
        ("{", ["not JSON"]),
        ('{"device": "a", "spead": 1}', ["spead"]),
        ('{"device": "a", "read": 0, "write": "fast"}', ["read: ", "write: "]),
        ('{"device": "a", "read": Infinity}', ["read: "]),
        ('{"device": "a", "encode": [{"hidden": 384, "layers": 6, "length": 128}]}', ["encode.0.tokens: missing"]),
    ],
)
def test_a_file_with_mistakes_is_told_line_by_line(content: str, told: list[str], tmp_path: Path) -> None:
    path = tmp_path / "rates.json"
    path.write_text(content)
    with pytest.raises(DataError) as raised:
        read_rates(path)
    lines = str(raised.value).splitlines()
    assert len(lines) == len(told) and all(str(path) in line for line in lines)
    assert all(part in line for part, line in zip(told, lines, strict=True))


def test_a_kept_file_that_is_damaged_counts_for_nothing() -> None:
    path: Any = this_cpu().path
    path.parent.mkdir(parents=True)
    path.write_text("{")
    assert measured(this_cpu()) is None and not named(None).rates.encode
