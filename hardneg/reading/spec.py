"""What a recipe says of a reader."""

from dataclasses import dataclass

from hardneg.models.spec import ModelSpec

_SHORTEST = 8


@dataclass(frozen=True)
class ReaderSpec:
    """A network that reads a question and a passage together and marks an answer in the passage.

    Attributes:
        name: a folder, a hub id, or `packaged:all-MiniLM-L6-v2`: an encoder, or one with a question-answering head.
        revision: a branch, tag or commit of a hub id.
        length: how many tokens of a question and a passage are read, special ones included; the longer is cut first.
        answer_length: tokens of the longest answer that is read.
    """

    name: str
    revision: str | None = None
    length: int = 350
    answer_length: int = 10

    @property
    def start(self) -> ModelSpec:
        """Where the weights to start from are."""
        return ModelSpec(self.name, self.revision)

    def problems(self) -> list[str]:
        """One line for each field that no reader can have."""
        found = []
        if not self.name.strip():
            found.append("name is empty: give a folder, a hub id or packaged:all-MiniLM-L6-v2")
        if self.length < _SHORTEST:
            found.append(f"length is {self.length}: at least {_SHORTEST} tokens are needed")
        if self.answer_length < 1:
            found.append(f"answer_length is {self.answer_length}: at least 1 token is needed")
        return found
