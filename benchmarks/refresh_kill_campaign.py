"""Kills a training on refreshed negatives again and again with SIGKILL: the trainer, its inferencer, or both.

    python benchmarks/refresh_kill_campaign.py [--kills 50] [--seed 0] [--policy every | synchronous]

A tiny random encoder on sixty passages. Rounds follow one another, each with an empty store: the run is started, killed
at a random moment within the time that one took that was left alone, and started again until it ends; an inferencer
that is killed is the run's own to start again. After each kill of a trainer its inferencer must be gone within seconds
and every refresh that has a name must be whole. At the end of a round each step must have its record, its negatives
mined by a model that is not from later on nor older than those before; a synchronous run must have come to the weights,
byte for byte, of the run that was left alone.
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
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hardneg.training.checkpoint import RefreshFolder

STEPS, EVERY = 400, 20
GONE = 30.0  # seconds that an orphan may take to end
LONGEST = 900.0


def recipe(folder: Path, policy: str) -> dict[str, Any]:
    """One stage on a dataset, and the model for it."""
    sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
    from recipes.recipes import small_collection
    from tiny import tiny_encoder

    refresh = {"policy": policy, "depth": 20, "every": EVERY}
    options = {"max_steps": STEPS, "batch_size": 8, "learning_rate": 1e-3, "warmup_steps": 1, "checkpoint_every": 10}
    return {
        "dataset": f"beir:{small_collection(folder / 'data')}",
        "model": {"name": str(tiny_encoder(folder / "encoder")), "query_length": 16, "document_length": 24},
        "stages": {"ance": {"stage": "train-refreshed", "loss": "nll", "refresh": refresh, "options": options}},
    }


@dataclass
class Campaign:
    """What is run, and what came of it; seconds: how long a run takes that is left alone."""

    folder: Path
    policy: str
    draw: random.Random
    seconds: float = 0.0
    kills: Counter[str] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)

    def start(self, place: Path) -> subprocess.Popen[bytes]:
        """The run, with its store and log below `place`."""
        place.mkdir(exist_ok=True)
        command = [sys.executable, "-m", "hardneg", "recipe", "run", str(self.folder / "recipe.yaml")]
        command += ["--store", str(place / "store"), "--output", str(place / "out"), "--device", "cpu"]
        with (place / "log").open("ab") as log:
            return subprocess.Popen(command, stdout=log, stderr=log, env={"OMP_NUM_THREADS": "1", **os.environ})

    def undisturbed(self) -> None:
        """The run that is left alone."""
        begun, place = time.monotonic(), self.folder / "whole"
        if self.start(place).wait(LONGEST):
            sys.exit((place / "log").read_text())
        self.seconds = time.monotonic() - begun

    def attempt(self, place: Path) -> bool:
        """One start and perhaps a kill; whether the run has ended by itself."""
        process = self.start(place)
        with suppress(subprocess.TimeoutExpired):
            process.wait(self.draw.uniform(0, self.seconds))
        victims = {"trainer": [process.pid], "inferencer": inferencers(place)}
        victims["both"] = victims["trainer"] + victims["inferencer"]
        who = self.draw.choice([name for name, pids in victims.items() if pids and (name != "both" or len(pids) > 1)])
        if process.poll() is None:
            for pid in victims[who]:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            self.kills[who] += 1
        code = process.wait(LONGEST)
        if code == -signal.SIGKILL:
            self.log_metrics(place)
            return False
        if code:
            self.faults.append(f"{place.name}: exit code {code}: {(place / 'log').read_text().splitlines()[-1]}")
        return True

    def log_metrics(self, place: Path) -> None:
        """After a kill of the trainer: its inferencer is gone, and what has a name is whole."""
        end = time.monotonic() + GONE
        while inferencers(place):
            if time.monotonic() > end:
                self.faults.append(f"{place.name}: the inferencer outlives the trainer")
                return
            time.sleep(0.05)
        for folder in place.glob("store/*.partial/checkpoints/refreshes"):
            RefreshFolder(folder).newest(report=self.faults.append)

    def judge(self, place: Path) -> None:
        """The end of a round."""
        (path,) = place.glob("store/*/history.jsonl")
        records = [json.loads(line) for line in path.read_text().splitlines()]
        mined = [record["step"] - 1 - record["lag"] for record in records]
        if [record["step"] for record in records] != list(range(1, STEPS + 1)):
            self.faults.append(f"{place.name}: not one record a step")
        if mined != sorted(mined) or any(record["lag"] < 0 for record in records):
            self.faults.append(f"{place.name}: negatives of a later model, or older ones after newer ones")
        weights = [
            next((self.folder / name).glob("store/*/model/model.safetensors")).read_bytes()
            for name in ("whole", place.name)
        ]
        if self.policy == "synchronous" and weights[0] != weights[1]:
            self.faults.append(f"{place.name}: other weights than those of the run that was left alone")


def inferencers(place: Path) -> list[int]:
    """The processes that mine for a run below `place`."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            words = path.read_bytes().split(b"\0")
            if b"hardneg.training.refresh" in words and any(str(place).encode() + b"/" in word for word in words):
                found.append(int(path.parent.name))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--policy", choices=("every", "synchronous"), default="every")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "recipe.yaml").write_text(json.dumps(recipe(folder, options.policy)))
        campaign, rounds = Campaign(folder, options.policy, random.Random(options.seed)), 0
        campaign.undisturbed()
        while campaign.kills.total() < options.kills:
            place = folder / f"round-{rounds}"
            while not campaign.attempt(place):
                print(f"{campaign.kills.total()} kills", file=sys.stderr, flush=True)
            campaign.judge(place)
            rounds += 1
    told = ", ".join(f"{count} of {who}" for who, count in sorted(campaign.kills.items()))
    print(f"policy {options.policy}: {campaign.kills.total()} kills ({told}), {rounds} rounds, all of them finished")
    print(
        "\n".join(campaign.faults)
        or "no fault: every refresh with a name was whole, no inferencer outlived its trainer"
    )
    sys.exit(int(bool(campaign.faults)))


if __name__ == "__main__":
    main()
