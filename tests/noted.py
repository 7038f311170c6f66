"""A progress display that keeps what it is told."""

from hardneg.runtime import Silent


class Notes(Silent):
    """Keeps the notes, in order."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def note(self, text: str) -> None:
        self.lines.append(text)
