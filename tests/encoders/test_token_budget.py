import json
from pathlib import Path

import numpy as np
import pytest
import torch
from tiny import tiny_encoder

from hardneg.encoders.encoder import Encoder
from hardneg.encoders.spec import ModelSpec
from hardneg.encoders.speed import fastest as budgets

CPU = torch.device("cpu")


@pytest.fixture
def parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return list(Encoder.load(ModelSpec(str(tiny_encoder(tmp_path / "model")))).module.children())


def speeds(monkeypatch: pytest.MonkeyPatch, by_budget: dict[int, float]) -> list[int]:
    asked: list[int] = []

    def speed(parts: object, device: object, budget: int, lengths: object) -> float:
        asked.append(budget)
        return by_budget[budget]

    monkeypatch.setattr(budgets, "_speed", speed)
    return asked


def test_few_texts_are_not_worth_timing(parts, monkeypatch: pytest.MonkeyPatch):
    asked = speeds(monkeypatch, {})
    assert budgets.token_budget(parts, CPU, 100) == budgets.usual_budget(CPU)
    assert asked == []


def test_the_smallest_that_is_as_good_as_the_best_is_kept_and_not_timed_again(parts, monkeypatch: pytest.MonkeyPatch):
    asked = speeds(monkeypatch, {1024: 5.0, 2048: 9.8, 4096: 10.0, 8192: 8.0})
    assert budgets.token_budget(parts, CPU, budgets.WORTH_TIMING) == 2048
    assert asked == [1024, 1024, 2048, 2048, 4096, 4096, 8192, 8192]
    assert budgets.token_budget(parts, CPU, 3) == 2048
    assert len(asked) == 8
    parts[0].to(torch.bfloat16)
    assert budgets.token_budget(parts, CPU, 3) == budgets.usual_budget(CPU)


def test_it_is_remembered_for_such_texts_and_such_a_way_to_compute_alone(parts, monkeypatch: pytest.MonkeyPatch):
    speeds(monkeypatch, {1024: 5.0, 2048: 1.0})
    many = budgets.WORTH_TIMING
    assert budgets.token_budget(parts, CPU, many, longest=256) == 1024
    monkeypatch.setattr(budgets, "_timed", lambda *given: 4096)
    assert budgets.token_budget(parts, CPU, many, longest=256) == 1024
    assert budgets.token_budget(parts, CPU, many, longest=8192) == 4096
    parts[0].model.set_attn_implementation("eager")
    assert budgets.token_budget(parts, CPU, many, longest=256) == 4096
    parts[0].model.set_attn_implementation("sdpa")
    assert budgets.token_budget(parts, CPU, many, longest=256) == 1024
    parts[0].model.compile()
    assert budgets.token_budget(parts, CPU, many, longest=256) == 4096


def test_a_card_that_is_nearly_full_has_its_own(parts, monkeypatch: pytest.MonkeyPatch):
    """70 GiB, 65 + 3 that are kept for this process, and 9 that are free."""
    monkeypatch.setattr(budgets, "machine_of", lambda device: "a card")
    monkeypatch.setattr(torch.cuda, "memory_allocated", lambda device: 1 << 30)
    names = []
    for free, held in ((70, 1), (65, 4), (9, 1)):
        monkeypatch.setattr(budgets, "_free", lambda device, free=free: free << 30)
        monkeypatch.setattr(torch.cuda, "memory_reserved", lambda device, held=held: held << 30)
        names.append(budgets._setting(parts[0], torch.device("cuda"), 128))
    assert names[0] == names[1] != names[2] and names[0].endswith("2^36 bytes free")


@pytest.mark.parametrize("content", ["", "[1]", '{"x": "y"}', "{"])
def test_a_damaged_memory_is_made_anew(parts, content: str, monkeypatch: pytest.MonkeyPatch):
    place = budgets.cache_folder() / "token_budgets.json"
    place.parent.mkdir(parents=True)
    place.write_text(content)
    speeds(monkeypatch, {1024: 5.0, 2048: 1.0})
    assert budgets.token_budget(parts, CPU, budgets.WORTH_TIMING) == 1024
    assert list(json.loads(place.read_text()).values()) == [1024]


def test_a_memory_that_cannot_be_kept_does_no_harm(parts, monkeypatch: pytest.MonkeyPatch):
    speeds(monkeypatch, {1024: 5.0, 2048: 1.0})
    monkeypatch.setattr(budgets, "replace_text", lambda *_: (_ for _ in ()).throw(OSError("read-only")))
    assert budgets.token_budget(parts, CPU, budgets.WORTH_TIMING) == 1024


def test_timing_runs_the_model(parts):
    with torch.inference_mode():
        assert budgets._speed(parts, CPU, 256) > 0


def test_passes_leave_others_on_the_same_gpu_their_memory(monkeypatch: pytest.MonkeyPatch):
    """Of 1,000 bytes a pass takes 1 for 200 tokens; more than half of them is not asked for."""
    taken = [0]

    def speed(parts: object, device: object, budget: int, lengths: object) -> float:
        taken[0] = budget // 200
        return float(budget)

    monkeypatch.setattr(budgets, "_speed", speed)
    monkeypatch.setattr(budgets, "_free", lambda device: 1000 - taken[0])
    assert budgets._timed([], torch.device("cuda")) == 65_536
    assert taken == [327]


def test_the_texts_own_lengths_are_timed(monkeypatch: pytest.MonkeyPatch):
    """100 texts of 64 tokens and 300 of 16 are passes of 64, 64 (of both), 256 and 16 texts: two of them are taken."""
    passes: list[list[int]] = []

    def forward(parts: object, features: dict[str, torch.Tensor], device: object) -> None:
        passes.append(list(features["attention_mask"].shape))

    monkeypatch.setattr(budgets, "forward", forward)
    lengths = np.array([64] * 100 + [16] * 300)
    assert [len(some) for some in budgets._passes(4096, lengths)] == [64, 16]
    assert budgets._speed([], CPU, 4096, lengths) > 0
    assert passes == [[64, 64], [64, 64], [16, 16]]


def test_lengths_are_asked_for_where_passes_are_timed(parts, monkeypatch: pytest.MonkeyPatch):
    asked: list[object] = []

    def timed(parts: object, device: object, most: int, lengths: object) -> int:
        asked.append(lengths)
        return 2048

    monkeypatch.setattr(budgets, "_timed", timed)
    assert budgets.token_budget(parts, CPU, 3, lambda: np.array([5])) == budgets.usual_budget(CPU)
    assert asked == []
    assert budgets.token_budget(parts, CPU, budgets.WORTH_TIMING, lambda: np.array([5])) == 2048
    assert [np.array(lengths).tolist() for lengths in asked] == [[5]]
