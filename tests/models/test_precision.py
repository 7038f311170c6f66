from pathlib import Path

import pytest

from hardneg.models import precision


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("processor : 0\nflags\t\t: fpu avx512f avx512_bf16\n", True),
        ("flags\t: fpu amx_bf16 amx_tile\n", True),
        ("flags\t: fpu avx2 avx512f\n", False),
        ("Features\t: fp asimd bf16 i8mm\n", True),
        ("no flags here\n", False),
    ],
)
def test_a_cpu_is_asked_by_its_flags(text: str, expected: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = tmp_path / "cpuinfo"
    path.write_text(text)
    monkeypatch.setattr(precision, "Path", lambda _: path)
    assert precision.good_at_bf16("cpu") is expected


def test_no_cpuinfo_means_no(tmp_path: Path):
    assert precision.cpu_flags(tmp_path / "none") == frozenset()


@pytest.mark.parametrize(("capability", "expected"), [((7, 5), False), ((8, 0), True), ((9, 0), True)])
def test_a_cuda_device_is_asked_by_its_capability(
    capability: tuple[int, int], expected: bool, monkeypatch: pytest.MonkeyPatch
):
    import torch

    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _: capability)
    assert precision.good_at_bf16("cuda:0") is expected


def test_other_devices_are_not():
    assert not precision.good_at_bf16("mps")
