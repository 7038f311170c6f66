"""Two processes learn what one learns, with and without the gradient cache: on one card, and on two."""

import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import torch
from gpu.setting import Figures, Setting, Skipped, expect
from gpu.training import history, largest_difference

from hardneg.runtime import join, leave

_CASES: dict[str, dict[str, Any]] = {"plain": {"batch_size": 8}, "chunks": {"batch_size": 8, "chunk": 2}}


def one_card(setting: Setting) -> Figures:
    """By gloo, as NCCL takes a card for one process alone; on a CPU the same."""
    return _as_one(setting, shared_card(setting))


def two_cards(setting: Setting) -> Figures:
    """By NCCL."""
    return _as_one(setting, own_cards(setting))


def shared_card(setting: Setting) -> list[str]:
    """The devices of two processes on one card, or on a CPU."""
    return [setting.device if setting.device != "cuda" else "cuda:0"] * 2


def own_cards(setting: Setting) -> list[str]:
    """The devices of two processes with a card each.

    Raises:
        Skipped: there are fewer.
    """
    if not setting.gpu or torch.cuda.device_count() < 2:
        raise Skipped("it takes two cards")
    return ["cuda:0", "cuda:1"]


def own_place(folder: str, small: str, devices: tuple[str, ...]) -> tuple[bool, Setting]:
    """Joins the processes that `launch` started: whether this is the first of them, and where it computes."""
    here = join(on_cpu=len(set(devices)) < len(devices))
    return here.rank == 0, Setting(devices[int(os.environ["RANK"])], small == "1", False, Path(folder))


def _as_one(setting: Setting, devices: list[str]) -> Figures:
    expected = {name: history(setting, devices[0], **options) for name, options in _CASES.items()}
    launch(setting, devices, "gpu.several")
    found: Figures = {}
    for name, records in expected.items():
        apart = largest_difference(json.loads((setting.folder / f"{name}.json").read_text()), records)
        expect(apart < 2e-3, f"{name}: losses or norms of gradients are {apart:.2%} apart from one process's")
        found[f"{name}, largest difference"] = round(apart, 7)
    return found


def launch(setting: Setting, devices: list[str], module: str) -> None:
    """Runs a module in as many processes as there are devices, until all have ended or one has failed."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        shared = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free.getsockname()[1])}
    shared |= {"WORLD_SIZE": str(len(devices)), "LOCAL_WORLD_SIZE": str(len(devices))}
    arguments = [str(setting.folder), str(int(setting.small)), *devices]
    running = []
    for rank in map(str, range(len(devices))):
        place = {**os.environ, **shared, "RANK": rank, "LOCAL_RANK": rank}
        with (setting.folder / f"process-{rank}.log").open("w") as log:
            command = [sys.executable, "-m", module, *arguments]
            running.append(subprocess.Popen(command, env=place, stdout=log, stderr=log))
    try:
        while any(process.poll() is None for process in running) and not any(process.returncode for process in running):
            time.sleep(0.1)
    finally:
        for process in running:
            process.kill()
    codes = [process.wait() for process in running]
    logs = [(setting.folder / f"process-{rank}.log").read_text().strip() for rank in range(len(devices))]
    expect(not any(codes), f"processes ended with codes {codes}: {[log[-200:] for log in logs]}")


def _work(folder: str, small: str, *devices: str) -> None:
    """One of the processes; the first one writes what they came to."""
    first, setting = own_place(folder, small, devices)
    for name, options in _CASES.items():
        records = history(setting, setting.device, **options)
        if first:
            (setting.folder / f"{name}.json").write_text(json.dumps(records))
    leave()


if __name__ == "__main__":
    _work(*sys.argv[1:])
