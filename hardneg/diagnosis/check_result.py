"""What a check says of a finished run: a state, figures, a sentence, and what to change."""

from dataclasses import dataclass, field
from typing import Literal

State = Literal["suspect", "fine", "unknown"]
Figures = dict[str, float | int | str]
"""Of a check, as JSON holds them."""


@dataclass(frozen=True)
class CheckResult:
    """What one check says of one subject.

    check: its name. subject: a stage, a row of the metrics or a side; empty for the whole run. state: `unknown` where
    the check could not be made, or decides nothing. advice: what to change; empty where there is nothing to.
    """

    state: State
    sentence: str
    figures: Figures = field(default_factory=dict)
    advice: str = ""
    check: str = ""
    subject: str = ""

    @classmethod
    def of(cls, suspect: bool, sentence: str, figures: Figures, advice: str) -> "CheckResult":
        """Suspect, with what to change, or fine."""
        return cls("suspect", sentence, figures, advice) if suspect else cls("fine", sentence, figures)
