"""Rates are measured piece by piece, each kept when it is done."""

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from hardneg.api.measuring import machines, material, measurements, networks
from hardneg.api.measuring.measurements import PIECES, measure
from hardneg.cli.main import app
from hardneg.costs.machine import named, this_device
from hardneg.costs.rate_files import RateFile, Scores, measured
from hardneg.costs.rates import Pace
from hardneg.runtime.progress import Silent

FOUND = {
    "write": 1e9,
    "read": 2e9,
    "tokenise": 3e5,
    "search": Scores(dimension=384, scores=1e8),
    "encode table": Pace(256, 0, 80, 1e5),
    "encode small": Pace(384, 6, 80, 2e4),
    "encode base": Pace(768, 12, 80, 3e3),
    "train small": Pace(384, 6, 80, 2e3),
    "train base": Pace(768, 12, 80, 3e2),
}


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def done(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The measurements that were measured, in their order; none takes any time."""
    names: list[str] = []

    def piece(name: str) -> Any:
        return lambda setting: (names.append(name), FOUND[name])[1]

    monkeypatch.setattr(measurements, "PIECES", {name: piece(name) for name in PIECES})
    return names


def test_every_piece_has_its_place_in_what_is_kept(done, tmp_path):
    assert list(measure(this_device(), "cpu", tmp_path, Silent())) == []
    assert done == list(PIECES)
    found = measured(this_device())
    assert found is not None and all(measurements.has(found, name) for name in PIECES)
    rates = named(None).rates
    assert (rates.write, rates.read) == ((1e9, "measured"), (2e9, "measured"))
    assert rates.search == (2 * 384 * 1e8, "measured") and rates.table == (1e5, "measured")
    base = Pace(768, 12, 80, 3e3)
    assert rates.of_network(base.operations).a_second == pytest.approx(3e3 * base.operations)
    assert not list(tmp_path.glob("hardneg-measuring-*"))


def test_a_second_call_measures_what_is_missing_alone(done, monkeypatch, tmp_path):
    def broken(setting: object) -> None:
        raise RuntimeError("no room\non two lines")

    known = dict(measurements.PIECES)
    monkeypatch.setattr(measurements, "PIECES", {**known, "search": broken})
    told = list(measure(this_device(), "cpu", tmp_path, Silent()))
    assert told == ["search: could not be measured: no room"] and "search" not in done
    monkeypatch.setattr(measurements, "PIECES", known)
    done.clear()
    assert list(measure(this_device(), "cpu", tmp_path, Silent())) == [] and done == ["search"]


def test_one_that_is_stopped_goes_on(done, monkeypatch, tmp_path):
    def stopped(setting: object) -> None:
        raise KeyboardInterrupt

    known = dict(measurements.PIECES)
    monkeypatch.setattr(measurements, "PIECES", {**known, "encode small": stopped})
    with pytest.raises(KeyboardInterrupt):
        list(measure(this_device(), "cpu", tmp_path, Silent()))
    before = list(done)
    monkeypatch.setattr(measurements, "PIECES", known)
    list(measure(this_device(), "cpu", tmp_path, Silent()))
    assert done == [*before, *list(PIECES)[list(PIECES).index("encode small") :]]


def test_doctor_measures_tells_and_forgets(done, tmp_path):
    def rates(*words: str) -> dict[str, str]:
        asked = ["doctor", "--no-hub", "--json", "--store", str(tmp_path), *words]
        answer = CliRunner().invoke(app, asked)
        found: list[dict[str, str]] = json.loads(answer.stdout)
        return next(item for item in found if item["subject"] == "rates")

    assert rates()["found"] == "not measured" and not done
    told = rates("--measure")
    assert "20,000 tokens/s (6 layers of 384)" in told["found"] and "100,000,000 scores/s" in told["found"]
    assert "write 1.0 GB/s" in told["found"] and "not yet" not in told["meaning"]
    assert rates()["found"] == told["found"]
    assert rates("--forget-rates")["found"] == "not measured"


def test_what_is_missing_is_named(tmp_path):
    measurements.remember(this_device(), RateFile(device="a CPU", read=1e9))
    answer = CliRunner().invoke(app, ["doctor", "--no-hub", "--store", str(tmp_path)])
    assert "not yet write, tokenise, search, encode table" in answer.stdout


def test_a_disk_is_written_and_read(tmp_path):
    assert machines.writing(tmp_path / "file", 32 << 20) > 0 and (tmp_path / "file").stat().st_size == 32 << 20
    assert machines.reading(tmp_path / "file") > 0


def test_texts_come_in_turn():
    once = material.many(len(material.texts()))
    assert len(once) > 1000 and sorted(once) == sorted(material.texts())
    assert material.many(len(once) + 3)[-3:] == once[:3]


@pytest.mark.slow
def test_all_is_measured_with_small_networks(monkeypatch, tmp_path):
    monkeypatch.setattr(measurements, "SIZES", {"small": (64, 2), "base": (128, 2)})
    monkeypatch.setattr(networks, "SECONDS", 0.2)
    assert list(measure(this_device(), "cpu", tmp_path, Silent())) == []
    found = measured(this_device())
    assert found is not None and all(measurements.has(found, name) for name in PIECES)
    small, large = sorted((pace for pace in found.encode if pace.layers), key=lambda pace: pace.hidden)
    assert (small.hidden, large.hidden) == (64, 128) and 40 < small.length < 128
    assert small.tokens > 0 and large.tokens > 0
