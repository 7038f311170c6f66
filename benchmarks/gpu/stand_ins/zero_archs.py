"""Blanks the machine code of other cards in a library with CUDA kernels, so that it packs small.

python zero_archs.py LIBRARY OUTPUT 90      # keeps code for sm_90 alone
"""

import struct
import subprocess
import sys
from pathlib import Path

_MAGIC = 0xBA55ED50
_CODE, _PTX = 2, 1


def section(path: str) -> tuple[int, int]:
    """Where the section of kernels begins and ends in the file."""
    for line in subprocess.check_output(["readelf", "-S", "-W", path], text=True).splitlines():
        if " .nv_fatbin " in line:
            columns = line.split("]")[1].split()
            return int(columns[3], 16), int(columns[3], 16) + int(columns[4], 16)
    raise SystemExit(f"{path} has no kernels")


def blanked(data: bytearray, start: int, end: int, keep: int) -> int:
    """Zeroes the code of cards other than `keep`; the number of bytes of code that stay."""
    left = 0
    while start + 16 <= end:
        magic, _, head, size = struct.unpack_from("<IHHQ", data, start)
        if magic != _MAGIC:
            start += 8
            continue
        place, stop = start + head, start + head + size
        while place + 64 <= stop:
            kind, _, header, length = struct.unpack_from("<HHIQ", data, place)
            (card,) = struct.unpack_from("<I", data, place + 28)
            if kind == _PTX or (kind == _CODE and card != keep):
                data[place + header : place + header + length] = bytes(length)
            else:
                left += length
            place += header + length
        start = stop
    return left


def main(source: str, output: str, keep: str) -> None:
    """Writes the library with one card's code."""
    data = bytearray(Path(source).read_bytes())
    left = blanked(data, *section(source), int(keep))
    Path(output).write_bytes(data)
    print(f"{left / 1e6:.1f} MB of code for sm_{keep} stay")


if __name__ == "__main__":
    main(*sys.argv[1:])
