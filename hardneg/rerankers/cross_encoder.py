"""The built-in reranker `cross-encoder`."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal

from hardneg.encoders.open import contract, model_files, resolved
from hardneg.records import HardnegError, ModelError, PluginError, counted
from hardneg.runtime import FIXED
from hardneg.store import digest

_SHORTEST = 5


@dataclass(frozen=True)
class CrossEncoder:
    """A transformer that reads a query and a document together and scores the pair.

    Source: Nogueira and Cho, Passage Re-ranking with BERT (2019); Qu et al., RocketQA (NAACL 2021), Figure 1b.

    Args:
        source: hub id or folder of a sequence classifier with one or two outputs; stage train-reranker also accepts an
            encoder, such as packaged:all-MiniLM-L6-v2, and gives it a new head.
        revision: a branch, tag or commit of a hub id.
        length: maximum number of tokens per pair, with special tokens; the longer of the two texts is truncated first.
        activation: `sigmoid` turns scores into probabilities (a softmax for two outputs); `none` returns the logits.
        outputs: the number of outputs of the head, 1 or 2; the default is the source's number, or 1 for a new head.
        seed: the seed of a new head's weights.
        code: `native` accepts a source with custom code, but uses transformers' own code instead.
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
            raise PluginError("cross-encoder: source is empty; set a folder or a hub id, as in cross-encoder:FOLDER")
        if self.length < _SHORTEST:
            raise PluginError(f"cross-encoder: length is {self.length}; it must be at least {_SHORTEST}")

    def fingerprint(self) -> str:
        """Return a digest of the hub commit or the folder content. Raises ModelError if the source does not exist."""
        return digest(resolved.model_content(self._location))

    @property
    def head(self) -> int | None:
        """The number of outputs that the loaded network will have; None if the source is not on this machine."""
        try:
            folder = None if self.outputs else self._location.folder
            return self.outputs if folder is None else model_files.own_head(folder) or 1
        except (HardnegError, OSError):
            return None

    def load(self, folder: Path | None = None) -> Any:
        """Load a `CrossEncoder` from `folder` or, by default, from the source. Raises ModelError if that fails."""
        from hardneg.rerankers import network

        own = folder or self._location.fetched().path
        if code := contract.own_code(model_files.read_folder(own)):
            contract.check_code(str(own), code, self.code)
        return network.load_classifier(own, self.length, self.outputs, self.seed, self.activation)

    def rerank(self, requests: Iterable[tuple[str, Sequence[str]]]) -> Iterator[Sequence[float]]:
        """Yield the scores of each query's documents, in the given order. Raises ModelError for an untrained source."""
        from hardneg.rerankers import network

        yield from network.PairScorer.opened(self, None).rerank(requests)

    def check_trained(self) -> None:
        """Raise ModelError if the source is on this machine and has no head, or its head does not match `outputs`."""
        if (folder := self._location.folder) is None:
            return
        own, problem = model_files.own_head(folder), ""
        if not own:
            problem = "this is an encoder without a scoring head; use a cross-encoder"
        elif self.outputs not in (None, own):
            problem = f"its head has {counted(own, 'output')}, but outputs is {self.outputs}; remove outputs"
        if problem:
            raise ModelError(f"reranker {self.source}: {problem}, or train this one with stage train-reranker")

    @property
    def _location(self) -> model_files.Location:
        return model_files.locate(self.source, self.revision)
