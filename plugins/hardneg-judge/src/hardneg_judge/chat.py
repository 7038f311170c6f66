"""The reranker `chat`: a language model behind a server that says of a passage whether it is relevant."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import inf, nan
from typing import TYPE_CHECKING, ClassVar, Literal

from hardneg_judge.prompts import BEST, Scale, built_in, template
from hardneg_judge.server_options import ChatServer

if TYPE_CHECKING:
    from hardneg_judge.asking import Asking


@dataclass(frozen=True)
class Chat(ChatServer):
    """A language model behind a server that speaks OpenAI's /v1/chat/completions; it grades query and passage.

    A score is 1 or 0 with scale `yes-no`, and a grade from 0 to 3 with scale `grades`. Answers are kept on this machine
    by the model, what it was told, and the whole message, so that nothing is asked twice.

    Source: Thomas, Spielman, Craswell and Mitra, Large Language Models can Accurately Predict Searcher Preferences
    (SIGIR 2024); Thakur, Zhang, Ma and Lin, Fixing Data That Hurts Performance: Cascading LLMs to Relabel Hard
    Negatives for Robust Information Retrieval (2025, arXiv 2505.16967).

    Args:
        prompt: a file with a template, or its text, with {query} and {passages}; the text is in keys.
        scale: what is asked for: `yes-no`, or `grades` from 0 to 3.
        batch: passages of one query that are put into one message.
        unreadable: what a passage is taken for of which an answer does not say it: `irrelevant` or `relevant`. The verb
            `judge` takes silence for no approval: it drops such a negative, unless `relevant` is said here.
    """

    version: ClassVar[int] = 2

    prompt: str = ""
    scale: Scale = "yes-no"
    batch: int = 1
    unreadable: Literal["irrelevant", "relevant"] = "irrelevant"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.batch < inf:
            raise ValueError(f"batch: {self.batch} must be above 0")
        object.__setattr__(self, "prompt", template(self.prompt, built_in(self.scale, self.batch)))

    def rerank(self, requests: Iterable[tuple[str, Sequence[str]]]) -> Iterator[Sequence[float]]:
        """The score of each passage, in the order given; a number of requests that does not grow is read ahead.

        Raises:
            ModelError: there is no key, the server refuses or does not answer, or no answer can be read.
        """
        with self.asking() as asking:
            yield from asking.rerank(requests)

    def asking(self, judging: bool = False) -> "Asking":
        """The same with what it comes to in requests, tokens and money.

        judging: a passage of which no answer says that it is irrelevant has no score (nan), unless it is to be taken
        for relevant.

        Raises:
            ModelError: there is no key.
        """
        from hardneg_judge.asking import Asking

        unread = nan if judging and self.unreadable == "irrelevant" else self.unread
        return Asking(self, self.opened(self.batch), unread)

    @property
    def best(self) -> float:
        """The highest score; the lowest is 0."""
        return BEST[self.scale]

    @property
    def unread(self) -> float:
        """The score of a passage of which an answer does not say it."""
        return self.best if self.unreadable == "relevant" else 0.0
