"""What devices can do that are not here, and how a GPU multiplies float32; the setting needs no GPU."""

import platform
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from transformers.utils import enable_tf32

from hardneg.records import UsageError
from hardneg.runtime import bf16_on_cpu, cpu_name, devices, has_bf16_units
from hardneg.runtime.devices import float32_products


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


GPU, CPU = torch.device("cuda"), torch.device("cpu")
WAYS = ("torch.backends", "torch.backends.cuda.matmul", "torch.backends.mkldnn", "torch.backends.mkldnn.matmul")


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    yield
    torch.set_float32_matmul_precision("highest")
    for owner in owners():
        owner.fp32_precision = "none"


def owners() -> list[object]:
    backends = torch.backends
    return [backends, backends.cuda.matmul, backends.mkldnn, backends.mkldnn.matmul]


def state() -> dict[str, str]:
    """All that torch has to say of it; its old setting cannot be read where the new ones say something else."""
    found = {name: owner.fp32_precision for name, owner in zip(WAYS, owners(), strict=True)}
    try:
        return {**found, "old": torch.get_float32_matmul_precision()}
    except RuntimeError:
        return {**found, "old": "mixed"}


@pytest.mark.parametrize(("tf32", "inside"), [(True, "high"), (False, "highest")])
def test_what_is_asked_for_holds_inside_whatever_holds_outside(tf32: bool, inside: str) -> None:
    for outside in ("highest", "high", "medium"):
        torch.set_float32_matmul_precision(outside)
        before = state()
        with float32_products(GPU, tf32):
            assert torch.get_float32_matmul_precision() == inside
        assert state() == before and before["old"] == outside


@pytest.mark.parametrize("tf32", [True, False])
@pytest.mark.parametrize("owner", range(4))
def test_it_holds_inside_what_was_set_for_one_backend_or_by_a_trainer(tf32: bool, owner: int) -> None:
    for outside in ("tf32", "ieee"):
        owners()[owner].fp32_precision = outside
        before = state()
        with float32_products(GPU, tf32):
            assert torch.get_float32_matmul_precision() == ("high" if tf32 else "highest")
            assert torch.backends.cuda.matmul.allow_tf32 == tf32
        assert state() == before


def test_a_trainer_that_sets_it_later_is_followed() -> None:
    enable_tf32(True)
    with float32_products(GPU):
        pass
    assert torch.backends.cuda.matmul.fp32_precision == "tf32"
    enable_tf32(False)
    assert torch.backends.cuda.matmul.fp32_precision != "tf32"


def test_whole_numbers_inside_of_rounded_ones_and_a_failure_puts_all_back() -> None:
    before = state()
    with pytest.raises(RuntimeError, match="stopped"), float32_products(GPU, tf32=True), float32_products(GPU):
        assert torch.get_float32_matmul_precision() == "highest"
        raise RuntimeError("stopped")
    assert state() == before


def test_a_device_without_tf32_is_told_and_otherwise_left_alone() -> None:
    torch.set_float32_matmul_precision("high")
    with float32_products(CPU):
        assert torch.get_float32_matmul_precision() == "high"
    with pytest.raises(UsageError, match="tf32 needs a CUDA GPU, but the device is cpu; omit tf32"):
        float32_products(CPU, True).__enter__()
