"""The query writer `seq2seq`, which samples queries for passages from a network on this machine."""

from collections.abc import Iterable, Iterator, MutableMapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

from hardneg.plugin import Document, model_files, protocols, records, resolving, stores

if TYPE_CHECKING:
    from hardneg_seq2seq.generation import Generation


@dataclass(frozen=True)
class Seq2seq:
    """Samples queries for passages from a sequence-to-sequence network, as in doc2query-T5.

    Samples depend only on the passage's text, the seed and the query's number, not on the batch.

    Source: Nogueira and Lin, From doc2query to docTTTTTquery (2019): top-k sampling with k = 10, up to 64 tokens.

    Args:
        source: hub id or folder of a network that transformers opens as AutoModelForSeq2SeqLM, with its tokenizer.
        revision: a branch, tag or commit of a hub id.
        prefix: text before each passage, such as `Generate question: `, as in the network's training.
        length: maximum number of tokens of a passage, including special tokens.
        query_tokens: maximum number of tokens of a query.
        top_k: number of most likely tokens from which each token is drawn; 1 always selects the most likely.
        top_p: minimum total probability of the most likely tokens from which each token is drawn; 1 keeps all.
        temperature: divisor of the network's scores before the draw.
        precision: `bf16`, `fp32`, or `auto`, which is bf16 on a GPU that supports it.
        tokens_per_batch: maximum passage tokens times queries per passage in a batch; by default chosen for the device.
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
                raise ValueError(f"{name}: must be above 0, not {value}")
        if not 0 < self.top_p <= 1:
            raise ValueError(f"top_p: must be above 0 and at most 1, not {self.top_p:g}")

    def fingerprint(self) -> str:
        """Return a digest of the network's content. Raises ModelError if it is missing or the hub is unreachable."""
        return stores.digest(resolving.model_content(model_files.locate(self.source, self.revision)))

    def write(self, documents: Iterable[Document], *, count: int, seed: int) -> Iterator[records.Written]:
        """Yield each document in order with up to `count` distinct queries. Raises ModelError like `opened`."""
        with self.writing({}, None) as writer:
            yield from writer.write(documents, count=count, seed=seed)

    def writing(
        self, counts: MutableMapping[str, float], device: str | None
    ) -> AbstractContextManager[protocols.QueryWriter]:
        """Return a context manager that opens a writer and updates `counts` on exit. Entering may raise ModelError."""
        from hardneg_seq2seq.generation import writing

        return writing(self, counts, device)

    def opened(self, device: str | None) -> "Generation":
        """Return the network on `device`, by default the best one. Raises ModelError if it cannot be opened."""
        from hardneg_seq2seq.generation import Generation

        return Generation.opened(self, device)
