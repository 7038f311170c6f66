"""What devices can do that are not here."""

import platform
from pathlib import Path

import pytest
import torch

from hardneg.runtime import bf16_on_cpu, cpu_name, devices, has_bf16_units


@pytest.fixture
def flags(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Has this CPU these flags, and no variable that caps it."""
    for name in devices._CAPS:
        monkeypatch.delenv(name, raising=False)

    def told(*named: str) -> None:
        facts = tmp_path / "cpuinfo"
        facts.write_text(f"processor\t: 0\nmodel name\t: A CPU\nflags\t\t: fpu {' '.join(named)}\n\nflags\t: none\n")
        devices._cpu.cache_clear()
        monkeypatch.setattr(devices, "_cpu", lambda: read(facts))

    read = devices._cpu.__wrapped__
    return told


@pytest.mark.parametrize(
    ("named", "native"), [(("avx2",), False), (("avx512f",), False), (("avx512_bf16",), True), (("amx_bf16",), True)]
)
def test_a_cpu_has_units_for_bfloat16_by_its_flags(flags, named, native):
    flags(*named)
    assert bf16_on_cpu() == native == has_bf16_units(torch.device("cpu"))
    assert cpu_name() == "A CPU"


@pytest.mark.parametrize(
    ("name", "value", "native"),
    [
        ("ATEN_CPU_CAPABILITY", "avx2", False),
        ("ATEN_CPU_CAPABILITY", "avx512", True),
        ("ONEDNN_MAX_CPU_ISA", "AVX2", False),
        ("ONEDNN_MAX_CPU_ISA", "AVX512_CORE", False),
        ("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_BF16", True),
        ("DNNL_MAX_CPU_ISA", "AVX", False),
    ],
)
def test_variables_of_torch_and_onednn_cap_it(flags, monkeypatch, name, value, native):
    flags("avx512_bf16", "amx_bf16")
    monkeypatch.setenv(name, value)
    assert bf16_on_cpu() == native


def test_a_system_that_tells_nothing_of_its_cpu_has_none(monkeypatch):
    missing = devices._cpu.__wrapped__(Path("/nothing/here"))
    monkeypatch.setattr(devices, "_cpu", lambda: missing)
    assert missing == {} and not bf16_on_cpu() and cpu_name() == platform.machine()


@pytest.mark.parametrize(("capability", "native"), [((7, 5), False), ((8, 0), True), ((8, 9), True), ((12, 0), True)])
def test_a_gpu_has_them_by_its_capability(monkeypatch, capability, native):
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: capability)
    assert has_bf16_units(torch.device("cuda")) == native
    assert not has_bf16_units(torch.device("mps"))
