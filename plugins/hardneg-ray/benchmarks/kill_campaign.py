"""Kill an actor, a Ray process of this machine, or the command at random moments, and check the resumed stage.

    python kill_campaign.py --rounds 30

In each round, three actors compute 60 blocks, one process is killed after a random time, and the same command is rerun
until it succeeds. The bytes must be right, and each block must be finished once. A block takes a fifth of a second, or
one second if Ray's process is killed, because its actors survive for a while and must not write then.
"""

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil
from hardneg_ray.testing import Squares

from hardneg.runtime import Silent
from hardneg.stages import StageContext

STAGE = Squares(count=180, size=3)
PAUSES = {"actor": 0.2, "raylet": 1.0, "driver": 0.2}
ACTORS, RUNS = 3, 6
VICTIMS = {"actor": "ray::BlockActor", "raylet": "raylet", "driver": ""}


class Recorded(Silent):
    """Progress that prints the notes of a run."""

    def note(self, text: str) -> None:
        print(text, flush=True)


def context(folder: Path, pause: float = 0.0) -> StageContext[Squares]:
    """Return the context of the stage `squares` in a folder."""
    return StageContext("squares", STAGE.model_copy(update={"pause": pause}), folder, {}, {}, Recorded(), "cpu")


def work(folder: Path, pause: float) -> None:
    """Run the stage once on a local cluster, as the command does."""
    from hardneg_ray.engine import Ray

    print("begun", flush=True)
    Ray(address="local", actors=ACTORS, num_cpus=0.5, losses=5, object_store_memory=80_000_000).make(
        context(folder, pause)
    )


def victims(driver: psutil.Process, kind: str) -> Iterator[psutil.Process]:
    """Yield the processes of a kind below the command's process, or that process itself."""
    if kind == "driver":
        yield driver
        return
    for process in driver.children(recursive=True):
        with suppress(psutil.Error):
            names = [process.name(), *process.cmdline()[:1]]
            if any(os.path.basename(name).startswith(VICTIMS[kind]) for name in names):
                yield process


def blocks_begun(folder: Path) -> bool:
    """Return whether any block is finished."""
    return bool(context(folder).spec.make(context(folder)).finished())


def killed_run(folder: Path, kind: str, draw: random.Random) -> str:
    """Run the command and kill one process at a random moment; return the kind that was killed, and any failure."""
    command = [sys.executable, __file__, "--work", str(folder), "--pause", str(PAUSES[kind])]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as run:
        driver = psutil.Process(run.pid)
        early = kind != "actor" and draw.random() < 0.2  # while it starts
        while not (early or blocks_begun(folder)) and run.poll() is None:
            time.sleep(0.02)
        time.sleep(draw.uniform(0, 8 if early else 20 * PAUSES[kind]))
        processes, outcome = list[psutil.Process](), "nothing"
        while run.poll() is None and not processes:  # on a busy machine, there may be none yet
            time.sleep(0.02)
            processes = list(victims(driver, kind))
        if processes:
            victim = draw.choice(sorted(processes, key=lambda process: process.pid))
            with suppress(psutil.Error):
                victim.send_signal(signal.SIGKILL)
                outcome = kind
        output = run.communicate(timeout=300)[0]
    if run.returncode and kind != "driver":
        outcome += f", ended with {run.returncode}: {output.strip().splitlines()[-1][:150]}"
    return outcome


def runs_until_done(folder: Path) -> int:
    """Rerun the command until it succeeds; return the number of runs. Raises SystemExit if they all fail."""
    for count in range(1, RUNS + 1):
        if (folder / "squares").exists():
            return count - 1
        done = subprocess.run([sys.executable, __file__, "--work", str(folder)], capture_output=True, text=True)
        if done.returncode == 0:
            return count
    raise SystemExit(f"{folder}: not done after {RUNS} runs:\n{done.stdout}{done.stderr}")


def check(folder: Path) -> int:
    """Return the number of blocks. Raises SystemExit if a block is missing or the bytes differ."""
    blocks = STAGE.make(context(folder))
    if blocks.finished() != set(range(len(blocks.sizes))):
        raise SystemExit(f"{folder}: blocks lost: {blocks.finished()}")
    if (folder / "squares").read_text() != "".join(f"{number**2}\n" for number in range(STAGE.count)):
        raise SystemExit(f"{folder}: other bytes")
    return len(blocks.sizes)


def main() -> None:
    """Run the rounds; print a line for each, and the totals as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", choices=sorted(VICTIMS))
    parser.add_argument("--work", type=Path)
    parser.add_argument("--pause", type=float, default=0.0)
    options = parser.parse_args()
    if options.work is not None:
        return work(options.work, options.pause)
    draw, processes = random.Random(options.seed), Counter[str]()
    for number in range(options.rounds):
        kind = options.only or draw.choice(sorted(VICTIMS))
        with tempfile.TemporaryDirectory() as name:
            began, folder = time.monotonic(), Path(name)
            outcome = killed_run(folder, kind, draw)
            again = runs_until_done(folder)
            blocks = check(folder)
            processes[outcome.partition(",")[0]] += 1
            line = f"{number}: killed {outcome}; {again} more runs; {blocks} blocks, each finished once"
            print(f"{line}, {time.monotonic() - began:.0f} s", flush=True)
    print(json.dumps({"rounds": options.rounds, "killed": processes}))


if __name__ == "__main__":
    main()
