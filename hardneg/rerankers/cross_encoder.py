"""The built-in reranker `cross-encoder`."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Literal

from hardneg.encoders.open import model_files, resolved
from hardneg.records import HardnegError, PluginError
from hardneg.runtime import FIXED
from hardneg.store import digest

if TYPE_CHECKING:
    import sentence_transformers

_SHORTEST = 5


@dataclass(frozen=True)
class CrossEncoder:
    """Reads a query and a document together with a transformer, whose head gives the pair's score.

    Source: Nogueira and Cho, Passage Re-ranking with BERT (2019); Qu et al., RocketQA (NAACL 2021), Figure 1b.

    Args:
        source: a hub id or a folder: a sequence classifier with one or two outputs; for stage train-reranker also an
            encoder, such as packaged:all-MiniLM-L6-v2, which gets a fresh head.
        revision: a branch, tag or commit of a hub id.
        length: how many tokens of a pair are read, special ones included; the longer of the two texts is cut first.
        activation: `sigmoid` makes scores probabilities (of two outputs it is the softmax), `none` keeps the logits.
        outputs: 1 or 2, of the head; by default those of the source, and 1 for a fresh head.
        seed: of a fresh head's weights.
        code: `native` has transformers' own code compute a source whose files name code of their own.
    """

    version: ClassVar[int] = 1
    free: ClassVar[frozenset[str]] = frozenset({"code"})

    source: str
    revision: str | None = None
    length: int = 160
    activation: Literal["sigmoid", "none"] = "sigmoid"
    outputs: Literal[1, 2] | None = None
    seed: int = FIXED
    code: Literal["native"] | None = None

    def __post_init__(self) -> None:
        if not self.source.strip():
            raise PluginError("cross-encoder: source is empty; give a folder or a hub id, as in cross-encoder:FOLDER")
        if self.length < _SHORTEST:
            raise PluginError(f"cross-encoder: length is {self.length}: at least {_SHORTEST} tokens are needed")

    def fingerprint(self) -> str:
        """A name for the source's content."""
        return digest(resolved.model_content(self._location))

    @property
    def head(self) -> int | None:
        """How many outputs the network has; None where the source is not on this machine."""
        from hardneg.rerankers.network import own_head

        try:
            folder = None if self.outputs else self._location.folder
            return self.outputs if folder is None else own_head(folder) or 1
        except (HardnegError, OSError):
            return None

    def load(self, folder: Path | None = None) -> "sentence_transformers.CrossEncoder":
        """The network of the options, or that in `folder`. Raises ModelError: it does not open, or of other outputs."""
        from torch import nn

        from hardneg.rerankers.network import load_classifier

        own = folder or self._location.fetched().path
        network = load_classifier(own, self.length, self.outputs, self.seed, self.code)
        if self.activation == "none":
            network.activation_fn = nn.Identity()
        return network

    def rerank(self, requests: Iterable[tuple[str, Sequence[str]]]) -> Iterator[Sequence[float]]:
        """The score of each document, in order."""
        from hardneg.rerankers.network import PairScorer

        yield from PairScorer.opened(self, None).rerank(requests)

    def check_trained(self) -> None:
        """Refuses a source on this machine that has no head, or one of other outputs. Raises ModelError."""
        from hardneg.rerankers.network import check_head

        if folder := self._location.folder:
            check_head(folder, self.outputs, self.source)

    @property
    def _location(self) -> model_files.Location:
        return model_files.locate(self.source, self.revision)
