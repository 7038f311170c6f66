"""The table of ways to compute: by what a processor can do, on processors that are not here."""

import platform
from pathlib import Path

import pytest
import torch

from hardneg.runtime import processor
from hardneg.runtime.processor import Processor, bf16_on_cpu, cpu_name, processor_of

CPU, PLAIN_CPU = Processor("cpu", bf16=True), Processor("cpu")
GPU, OLD_GPU = Processor("cuda", bf16=True), Processor("cuda")
CARD = torch.device("cuda")


@pytest.fixture
def flags(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Has this CPU these flags, and no variable that caps it."""
    for name in processor._CAPS:
        monkeypatch.delenv(name, raising=False)

    def told(*named: str) -> None:
        facts = tmp_path / "cpuinfo"
        facts.write_text(f"processor\t: 0\nmodel name\t: A CPU\nflags\t\t: fpu {' '.join(named)}\n\nflags\t: none\n")
        processor._cpu.cache_clear()
        monkeypatch.setattr(processor, "_cpu", lambda: read(facts))

    read = processor._cpu.__wrapped__
    return told


@pytest.mark.parametrize(
    ("named", "native"), [(("avx2",), False), (("avx512f",), False), (("avx512_bf16",), True), (("amx_bf16",), True)]
)
def test_a_cpu_has_units_for_bfloat16_by_its_flags(flags, named, native):
    flags(*named)
    assert bf16_on_cpu() == native and processor_of(torch.device("cpu")) == Processor("cpu", native)
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
    missing = processor._cpu.__wrapped__(Path("/nothing/here"))
    monkeypatch.setattr(processor, "_cpu", lambda: missing)
    assert missing == {} and not bf16_on_cpu() and cpu_name() == platform.machine()


@pytest.mark.parametrize(("capability", "native"), [((7, 5), False), ((8, 0), True), ((8, 9), True), ((12, 0), True)])
def test_a_gpu_has_them_by_its_capability(monkeypatch, capability, native):
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: capability)
    assert processor_of(CARD) == Processor("cuda", native)
    assert processor_of(torch.device("mps")) == Processor("mps")


def test_precision_is_bfloat16_where_there_are_units_for_it():
    assert [each.precision for each in (CPU, GPU, PLAIN_CPU, OLD_GPU)] == ["bf16", "bf16", "fp32", "fp32"]


def test_attention():
    """Half precision alone has other ways than the library's, where there are units for it."""
    assert GPU.attention(half=True, packed=True, plain=True) == "unpadded"
    assert GPU.attention(half=True, packed=False, plain=True) == "auto"
    assert CPU.attention(half=True, packed=True, plain=True) == "batched"
    assert CPU.attention(half=True, packed=True, plain=False) == "auto"
    for each in (CPU, GPU):
        assert each.attention(half=False, packed=True, plain=True) == "auto"
    for each in (PLAIN_CPU, OLD_GPU):
        assert each.attention(half=True, packed=True, plain=True) == "auto"


def test_onednn_never_multiplies_bfloat16_without_units_for_it(monkeypatch):
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    assert PLAIN_CPU.onednn(half=False) and CPU.onednn(half=False) and CPU.onednn(half=True)
    assert not PLAIN_CPU.onednn(half=True) and not GPU.onednn(half=False)
    monkeypatch.setattr(platform, "machine", lambda: "aarch64")
    assert not PLAIN_CPU.onednn(half=False)


@pytest.mark.parametrize(
    ("device", "queries", "vectors", "engine"),
    [
        (CPU, 10_000, 100_000, "bf16"),
        (CPU, 100, 10_000_000, "torch"),
        (CPU, 1000, 2000, "torch"),
        (PLAIN_CPU, 10_000, 100_000, "torch"),
        (GPU, 4096, 65_536, "bf16"),
        (GPU, 4095, 65_536, "torch"),
        (GPU, 32, 8_841_823, "torch"),
        (OLD_GPU, 10_000, 1_000_000, "torch"),
        (Processor("mps"), 10_000, 1_000_000, "torch"),
    ],
)
def test_the_engine_of_an_exact_search(device, queries, vectors, engine):
    assert device.engine(queries, vectors, 384) == engine
