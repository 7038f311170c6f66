"""What an actor sends to the driver: blocks that are made, and errors as data."""

import sys
import traceback
from dataclasses import dataclass
from typing import Any

from hardneg.plugin import HardnegError


@dataclass(frozen=True)
class Opened:
    """An actor is ready; node: the name of its machine. shared: whether it writes its blocks itself."""

    node: str
    shared: bool


@dataclass(frozen=True)
class Block:
    """A block is made; content: of one that the driver is to write."""

    number: int
    content: Any = None


@dataclass(frozen=True)
class Failed:
    """An error; class_name: the name of its class among hardneg's, empty for others."""

    class_name: str
    text: str
    trace: str

    @classmethod
    def of(cls, error: Exception) -> "Failed":
        """An error as it was caught."""
        classes = [each.__name__ for each in type(error).__mro__ if each.__module__ == HardnegError.__module__]
        trace = "".join(traceback.format_exception(error))
        return cls(classes[0] if isinstance(error, HardnegError) else "", str(error), trace)

    def error(self) -> Exception:
        """The same, to raise here; one that hardneg does not know comes with its trace."""
        if not self.class_name:
            return RuntimeError(f"an actor failed:\n{self.trace}")
        error_class = getattr(sys.modules[HardnegError.__module__], self.class_name)
        raised: HardnegError = error_class.__new__(error_class)
        HardnegError.__init__(raised, self.text)
        return raised


Report = Opened | Block | Failed
