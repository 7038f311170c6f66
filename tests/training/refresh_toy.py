"""The toy task on refreshed negatives that come by a script, and a program that trains on them in several processes."""

import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from toy import BagEncoder, options, toy_data

from hardneg.formats.negatives import write_negatives
from hardneg.losses.pairwise import RankNet
from hardneg.records import errors, layout, types
from hardneg.runtime import Silent, leave, world
from hardneg.training.checkpoint import Refresh, RefreshFolder
from hardneg.training.loop import TrainingResult, learn
from hardneg.training.methods.ance import AnceTraining
from hardneg.training.options import RefreshOptions


class Scripted:
    """Publishes refreshes when training comes to certain steps: {step of training: step of the model that mined}."""

    def __init__(self, place: RefreshFolder, script: Mapping[int, int], pause: int | None = None) -> None:
        self.refreshes, self.script, self.refresh_interval = place, dict(script), pause
        self.refused: list[tuple[int, str]] = []

    def prepare(self, step: int) -> None:
        """Nothing."""

    def newest(self, step: int) -> Refresh | None:
        for place in [place for place in self.script if place <= step]:
            publish(self.refreshes, len(self.refreshes.records()), self.script.pop(place))
        return self.refreshes.newest()

    def refuse(self, refresh: Refresh, error: errors.HardnegError) -> None:
        """Training may go on; what is damaged is made again."""
        self.refused.append((refresh.number, type(error).__name__))
        if isinstance(error, errors.ArtifactError):
            publish(self.refreshes, refresh.number, refresh.step)


def publish(place: RefreshFolder, number: int, step: int) -> None:
    """Refresh n has documents n<n> and n<n+1> for every query."""
    rows = [types.Negatives(f"q{i}", [], [f"n{number}", f"n{number + 1}"], np.zeros(2, np.float32)) for i in range(12)]
    write_negatives(place.partial(number) / layout.NEGATIVES, rows)
    place.publish(Refresh(number, step, 12, 24))


def approach(toy: Path, folder: Path, script: Mapping[int, int], first: bool = False, **more: Any) -> AnceTraining:
    data, place = toy_data(toy), RefreshFolder(folder / "checkpoints" / "refreshes")
    encoder: Any = BagEncoder()
    data = data if first else replace(data, negatives=None)
    supply = Scripted(place, script)
    return AnceTraining(encoder, data, options(**more), RefreshOptions("every", 5), supply)


def run(way: AnceTraining, folder: Path, **more: Any) -> TrainingResult:
    return learn(way, RankNet(), options(**more), folder, progress=Silent())


def main(toy: str, out: str) -> None:
    """What one of several processes, or a single one, comes to without dropout; only the first asks its supply."""
    from safetensors.torch import save_model

    here, chosen = world(), {"max_steps": 6, "batch_size": 5, "checkpoint_every": 3}
    folder = Path(out) / str(here.size)
    way: Any = approach(Path(toy), folder, {0: 0, 2: 1, 3: 3, 5: 4}, **chosen)
    if here.rank > 0:
        way._provider.newest = None
    way.encoder.module.dropout.p = 0.0
    run(way, folder, **chosen)
    save_model(way.encoder.module, str(Path(out) / f"{here.size}-{here.rank}.safetensors"))
    leave()


if __name__ == "__main__":
    main(*sys.argv[1:])
