"""Rates of GPUs by their data sheets, and of CPUs by guesses. Nothing here was measured."""

import os
import re
from typing import NamedTuple

from hardneg.costs.estimated_seconds import UNKNOWN, Rate
from hardneg.costs.rates import Rates
from hardneg.runtime.processor import cpu_name

NETWORK_PART, PRODUCT_PART = 0.4, 0.5
"""Of what a data sheet promises, the parts that are counted on: of 16-bit operations, and of 32-bit ones."""
MEMORY_PART = 0.9
"""Of a GPU's memory, the part that is counted on: the driver, the libraries and what lies scattered take the rest."""

_CPU_OPERATIONS = {True: 0.15e12, False: 0.05e12}  # of a network by core, where bfloat16 is counted on and where not
_CPU_PRODUCT, _CPU_TOKENS, _CPU_CODES = 46e9, 250e3, 0.4e9  # by core: of exact search; tokens; codes looked up
_READ, _WRITE = 2e9, 0.5e9  # a fast disk's
_BETWEEN = 1.25e9  # 10 Gbit a second
_CORES_BESIDE = 8  # by GPU, that tokenise
_CODES_A_BYTE = 0.05  # of what a GPU's memory promises: codes looked up by byte


class Sheet(NamedTuple):
    """From a GPU's data sheet: dense 16-bit and 32-bit operations a second, bytes a second and bytes of its memory."""

    half: float
    single: float
    memory: float
    capacity: float = 0


SHEETS = {
    "H200": Sheet(989e12, 67e12, 4.8e12, 141e9),
    "H100": Sheet(989e12, 67e12, 3.35e12, 80e9),
    "A100": Sheet(312e12, 19.5e12, 1.55e12, 40e9),
    "L40S": Sheet(362e12, 91.6e12, 0.86e12, 48e9),
    "A10": Sheet(125e12, 31.2e12, 0.6e12, 24e9),
    "L4": Sheet(121e12, 30.3e12, 0.3e12, 24e9),
    "V100": Sheet(125e12, 15.7e12, 0.9e12, 16e9),
    "T4": Sheet(65e12, 8.1e12, 0.32e12, 16e9),
    "RTX 4090": Sheet(165e12, 82.6e12, 1.0e12, 24e9),
}
"""NVIDIA's data sheets, without sparsity; of the SXM form where there are several, with the smallest memory."""


def sheet_of(name: str) -> Sheet | None:
    """What is known of a GPU by the name that its driver gives, or by the data sheet's, in any case."""
    return next((sheet for known, sheet in SHEETS.items() if re.search(rf"\b{known}\b", name, re.IGNORECASE)), None)


def by_sheet(name: str) -> Rates:
    """Rates of a GPU; those of networks and searches are unknown where there is no data sheet."""
    return of_sheet(name, sheet_of(name))


def of_sheet(name: str, sheet: Sheet | None) -> Rates:
    """The same by this data sheet."""
    tokens = Rate(_CORES_BESIDE * _CPU_TOKENS, "guess")
    machine = Rates(name, True, tokenise=tokens, read=_guess(_READ), write=_guess(_WRITE), between=_guess(_BETWEEN))
    if sheet is None:
        return machine
    return Rates(
        **vars(machine)
        | {
            "network": Rate(NETWORK_PART * sheet.half, "data sheet"),
            "search": Rate(PRODUCT_PART * sheet.single, "data sheet"),
            "resident": Rate(sheet.memory, "data sheet"),
            "codes": Rate(_CODES_A_BYTE * sheet.memory, "guess"),
            "capacity": sheet.capacity,
        }
    )


def guessed(bf16: bool = False, cores: int | None = None) -> Rates:
    """Rates of a CPU with so many cores, by default this one; bf16: networks compute in bfloat16."""
    count = cores or os.cpu_count() or 1
    return Rates(
        cpu_name(),
        network=_guess(_CPU_OPERATIONS[bf16] * count),
        search=_guess(_CPU_PRODUCT * count),
        resident=UNKNOWN,
        codes=_guess(_CPU_CODES * count),
        tokenise=_guess(_CPU_TOKENS * count),
        read=_guess(_READ),
        write=_guess(_WRITE),
        between=_guess(_BETWEEN),
    )


def _guess(a_second: float) -> Rate:
    return Rate(a_second, "guess")
