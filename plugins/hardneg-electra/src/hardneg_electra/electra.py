"""The reranker `electra`, based on ELECTRA's discriminator."""

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from hardneg.plugin import errors, model_files

if TYPE_CHECKING:
    from sentence_transformers import CrossEncoder

_SHORTEST = 5
_FILES = ("*.json", "*.txt", "*.safetensors", "pytorch_model.bin")


@dataclass(frozen=True)
class Electra:
    """A reranker that scores a query and a passage, as two segments, with ELECTRA's discriminator.

    A linear layer on the first token of the last layer computes a logit; its sigmoid is the score.

    Source: Wrzalik and Krechel, HSRM-LAVIS at TREC 2020 Deep Learning Track (2020), section 4.2; Clark et al.,
    ELECTRA: Pre-training Text Encoders as Discriminators Rather Than Generators (ICLR 2020).

    Args:
        source: hub id or folder of ELECTRA's discriminator, or of a reranker trained with this plugin.
        revision: branch, tag or commit of a hub id.
        length: maximum number of tokens per pair, with special tokens; the longer of the two texts is truncated first.
        seed: seed of the linear layer's initial weights.
    """

    version: ClassVar[int] = 1

    source: str = "google/electra-large-discriminator"
    revision: str | None = None
    length: int = 512
    seed: int = 0

    def __post_init__(self) -> None:
        if self.length < _SHORTEST:
            raise errors.PluginError(f"electra: length is {self.length}; it must be at least {_SHORTEST} tokens")

    def fingerprint(self) -> str:
        """Return a string that identifies the source: the hub id and its commit, or a digest of the folder's files.

        Raises:
            ModelError: the source does not exist, or the hub cannot be reached.
        """
        location = model_files.locate(self.source, self.revision)
        if location.commit is not None:
            return f"{self.source}@{location.commit}"
        digest, folder = hashlib.blake2b(digest_size=16), location.path
        for path in sorted(path for pattern in _FILES for path in folder.rglob(pattern) if path.is_file()):
            digest.update(f"{path.relative_to(folder).as_posix()}\0".encode())
            with path.open("rb") as file:
                digest.update(hashlib.file_digest(file, "blake2b").digest())
        return digest.hexdigest()

    def load(self, folder: Path | None = None) -> "CrossEncoder":
        """Load the network from `folder` or, by default, from the source, and add a linear layer if there is none.

        Raises:
            ModelError: the network is missing, is not an ELECTRA discriminator, or reads fewer tokens than `length`.
        """
        from hardneg_electra.network import open_network

        folder = folder or model_files.locate(self.source, self.revision, fetch=True).path
        return open_network(folder, self.length, self.seed)

    def rerank(self, requests: Iterable[tuple[str, Sequence[str]]]) -> Iterator[Sequence[float]]:
        """Yield the scores of each query's documents, in the given order. Raises ModelError for an untrained source."""
        from hardneg.plugin import pair_scoring

        yield from pair_scoring.PairScorer.opened(self, None).rerank(requests)

    def check_trained(self) -> None:
        """Raise ModelError if the source is on this machine and has no trained linear layer."""
        folder = model_files.locate(self.source, self.revision).folder
        if folder is not None and not (folder / "modules.json").exists():
            raise errors.ModelError(
                f"electra: {self.source} is a discriminator without a trained linear layer; "
                "train it with stage train-reranker, or use a trained one"
            )
