"""The spec of an adapter in a recipe: the folder of a trained one, or the settings of a new one."""

from dataclasses import dataclass
from typing import Any, Literal

AdapterType = Literal["lora", "rslora", "dora"]
Save = Literal["merged", "apart"]

TYPES = ("lora", "rslora", "dora")
AUTO = "auto"


@dataclass(frozen=True)
class AdapterSpec:
    """A few weights beside those of a transformer, which alone are trained.

    source: a folder or hub id of a trained adapter, as peft saves it; without one a new adapter is trained.
    revision: a branch, tag or commit of a hub id.
    type: `lora`; `rslora` (scaled by the root of the rank); `dora`.
    rank: that of the matrices. alpha: their product is scaled by alpha / rank.
    dropout: of what goes into the adapter.
    target_modules: ends of the names of the linear layers that get one; `auto` is all those in the layers.
    save: `merged` writes the base with the adapter in its weights; `apart` writes the adapter and its base's name.

    Source: Hu et al., LoRA (ICLR 2022), eq. 3; Kalajdzievski, rsLoRA (2023); Liu et al., DoRA (ICML 2024).
    """

    source: str | None = None
    revision: str | None = None
    type: AdapterType = "lora"
    rank: int = 16
    alpha: float = 32.0
    dropout: float = 0.0
    target_modules: str | tuple[str, ...] = AUTO
    save: Save = "merged"

    @property
    def targets(self) -> tuple[str, ...] | None:
        """Ends of names of the layers that get one; None for all linear layers."""
        if self.target_modules == AUTO:
            return None
        return (self.target_modules,) if isinstance(self.target_modules, str) else tuple(self.target_modules)

    def settings(self) -> dict[str, Any]:
        """The settings of a new one."""
        return {name: getattr(self, name) for name in ("type", "rank", "alpha", "dropout", "target_modules")}

    def weights(self, hidden: int, layers: int) -> int:
        """An estimate of the weights of a new one: two matrices for each of a layer's six linear ones."""
        return self.rank * layers * 18 * hidden

    def problems(self) -> list[str]:
        """One line for each field that no adapter can have."""
        lines = []
        if self.type not in TYPES:
            lines.append(f"adapter.type is {self.type!r}: it can be {', '.join(TYPES[:-1])} or {TYPES[-1]}")
        if self.rank < 1:
            lines.append(f"adapter.rank is {self.rank}: at least 1 is needed")
        if not self.alpha > 0:
            lines.append(f"adapter.alpha is {self.alpha:g}: it must be above 0")
        if not 0 <= self.dropout < 1:
            lines.append(f"adapter.dropout is {self.dropout:g}: it must be at least 0 and below 1")
        if self.targets is not None and not all(name.strip() for name in self.targets or ("",)):
            lines.append("adapter.target_modules names no layers: give ends of their names, or leave it out")
        if self.save not in ("merged", "apart"):
            lines.append(f"adapter.save is {self.save!r}: it can be merged or apart")
        if self.save == "apart" and self.type == "dora":
            lines.append("adapter.save is 'apart': transformers cannot read back dora: set save: merged")
        if self.source is None and self.revision:
            lines.append("adapter.revision is that of a source: give one, or leave it out")
        changed = [name for name, value in self.settings().items() if value != getattr(AdapterSpec, name)]
        if self.source is not None and changed:
            names = ", ".join(f"adapter.{name}" for name in changed)
            lines.append(f"{names}: a trained adapter has its own: leave out, or leave out source")
        return lines
