"""Models that a training keeps on its way, in folders that open like its last one."""

import shutil
from dataclasses import dataclass
from pathlib import Path

from hardneg.training.method import Network


@dataclass(frozen=True)
class KeptModels:
    """The models of one run, `step-N` each; every: steps between them, none where None."""

    folder: Path
    every: int | None

    def save(self, network: Network, step: int) -> None:
        """Writes the network whole or not at all, where it is the step for it."""
        if self.every is not None and step % self.every == 0:
            network.save(self.folder / f"step-{step}", f"# After step {step}\n\nWeights on the way of a training.\n")

    def forget_after(self, step: int) -> None:
        """Removes what a run kept after the step that it goes on from, and what it was writing when it was killed."""
        for path in self.folder.iterdir() if self.folder.exists() else ():
            number = path.name.removeprefix("step-")
            if not number.isdigit() or int(number) > step:
                shutil.rmtree(path)
