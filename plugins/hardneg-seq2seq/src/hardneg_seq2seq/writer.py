"""The writer `seq2seq`: a network on this machine reads a passage and draws queries."""

from collections.abc import Iterable, Iterator, MutableMapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

from hardneg.plugin import Document, model_files, protocols, records, resolving, stores

if TYPE_CHECKING:
    from hardneg_seq2seq.generation import Generation


@dataclass(frozen=True)
class Seq2seq:
    """Samples queries from a sequence-to-sequence network of transformers, as doc2query-T5.

    Sampling depends only on the passage's text, the seed and the query's number, not on the batch.

    Source: Nogueira and Lin, From doc2query to docTTTTTquery (2019): top-k sampling with k = 10, up to 64 tokens.

    Args:
        source: a hub id or a folder: a network that transformers opens as AutoModelForSeq2SeqLM, and its tokenizer.
        revision: a branch, tag or commit of a hub id.
        prefix: text before each passage, such as `Generate question: `, as in the network's training.
        length: the most tokens of a passage, special tokens included.
        query_tokens: the most tokens of a query.
        top_k: draw each token from this many of the most likely ones; 1 always takes the most likely.
        top_p: draw from the most likely tokens with this total probability.
        temperature: divisor of the network's scores before the draw.
        precision: `bf16`, `fp32`, or `auto`, which is bf16 on a GPU that has it.
        tokens_per_batch: tokens of the passages in one batch, times the requested queries per passage.
    """

    version: ClassVar[int] = 1
    path_options: ClassVar[tuple[str, ...]] = ("source", "revision")
    free: ClassVar[frozenset[str]] = frozenset({"tokens_per_batch"})

    source: str
    revision: str | None = None
    prefix: str = ""
    length: int = 512
    query_tokens: int = 64
    top_k: int = 10
    top_p: float = 1.0
    temperature: float = 1.0
    precision: Literal["auto", "fp32", "bf16"] = "auto"
    tokens_per_batch: int | None = None

    def __post_init__(self) -> None:
        for name in ("length", "query_tokens", "top_k", "temperature", "tokens_per_batch"):
            if (value := getattr(self, name)) is not None and value <= 0:
                raise ValueError(f"{name}: {value} must be above 0")
        if not 0 < self.top_p <= 1:
            raise ValueError(f"top_p: {self.top_p:g} must be above 0 and up to 1")

    def fingerprint(self) -> str:
        """A digest of the network's content. Raises ModelError if it is missing or the hub is unreachable."""
        return stores.digest(resolving.model_content(model_files.locate(self.source, self.revision)))

    def write(self, documents: Iterable[Document], *, count: int, seed: int) -> Iterator[records.Written]:
        """Yield up to `count` distinct queries for each document. Raises ModelError: the network cannot be opened."""
        with self.writing({}, None) as writer:
            yield from writer.write(documents, count=count, seed=seed)

    def writing(
        self, counts: MutableMapping[str, float], device: str | None
    ) -> AbstractContextManager[protocols.QueryWriter]:
        """Yield a writer with the network opened once. Raises ModelError if that fails."""
        from hardneg_seq2seq.generation import writing

        return writing(self, counts, device)

    def opened(self, device: str | None) -> "Generation":
        """The network on this device, by default the best one. Raises ModelError if it cannot be opened."""
        from hardneg_seq2seq.generation import Generation

        return Generation.opened(self, device)
