"""The reranker `chat`: a language model behind a server that says of a passage whether it is relevant."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf, nan
from typing import TYPE_CHECKING, Any, ClassVar, Literal
from urllib.parse import urlsplit

from hardneg.plugin import digest
from hardneg_judge.prompts import BEST, Scale, template

if TYPE_CHECKING:
    from hardneg_judge.asking import Asking

_CHARACTERS_A_TOKEN = 4
_MILLION = 1e6
ANSWER_SECONDS = 1.0
"""Of a server, assumed."""
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_ABOVE_0 = ("batch", "characters", "tokens", "in_flight", "timeout", "deadline")
_OWN = ("model", "messages", "max_tokens", "temperature", "stream", "n")


@dataclass(frozen=True)
class Chat:
    """A language model behind a server that speaks OpenAI's /v1/chat/completions; it grades query and passage.

    A score is 1 or 0 with scale `yes-no`, and a grade from 0 to 3 with scale `grades`. Answers are kept on this machine
    by the model, what it was told, and the whole message, so that nothing is asked twice.

    Source: Thomas, Spielman, Craswell and Mitra, Large Language Models can Accurately Predict Searcher Preferences
    (SIGIR 2024); Thakur, Zhang, Ma and Lin, Fixing Data That Hurts Performance: Cascading LLMs to Relabel Hard
    Negatives for Robust Information Retrieval (2025, arXiv 2505.16967).

    Args:
        model: the model's name at the server.
        url: what `/chat/completions` is put behind; not in a key.
        key: the environment variable that holds the API key; none is sent where it is not given.
        revision: any word; another one where the server has other weights under the same name.
        prompt: a file with a template, or its text, with {query} and {passages}; the text is in keys.
        scale: what is asked for: `yes-no`, or `grades` from 0 to 3.
        batch: passages of one query that are put into one message.
        characters: how much of a passage is sent, from its beginning; null sends all.
        tokens: how many tokens an answer may have for each passage; null does not say it to the server.
        temperature: of the model's draws; null does not say it.
        more: what else a request says, such as {reasoning_effort: low}.
        unreadable: what a passage is taken for of which an answer does not say it: `irrelevant` or `relevant`. The verb
            `judge` takes silence for no approval: it drops such a negative, unless `relevant` is said here.
        price: what a million tokens cost that are read, and that are written.
        in_flight: requests that wait for an answer at a time, at most.
        timeout: seconds in which the server must begin to answer, and go on.
        deadline: seconds for a request with all its attempts.
    """

    version: ClassVar[int] = 1
    free: ClassVar[frozenset[str]] = frozenset({"url", "key", "price", "in_flight", "timeout", "deadline"})

    model: str
    url: str = field(default="http://localhost:8000/v1", compare=False)
    key: str | None = field(default=None, compare=False)
    revision: str | None = None
    prompt: str = ""
    scale: Scale = "yes-no"
    batch: int = 1
    characters: int | None = 4000
    tokens: int | None = 16
    temperature: float | None = 0.0
    more: dict[str, Any] = field(default_factory=dict)
    unreadable: Literal["irrelevant", "relevant"] = "irrelevant"
    price: tuple[float, float] = field(default=(0.0, 0.0), compare=False)
    in_flight: int = field(default=8, compare=False)
    timeout: float = field(default=60.0, compare=False)
    deadline: float = field(default=600.0, compare=False)

    def __post_init__(self) -> None:
        try:
            parts = urlsplit(self.url)
        except ValueError:  # such as brackets that are not closed
            parts = urlsplit("")
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"url: {self.url!r} is no address: give it as http://localhost:8000/v1")
        if parts.username or parts.password or parts.query:
            raise ValueError("url: no user, key or question may stand in it: name a variable that holds a key in `key`")
        if self.key is not None and not _VARIABLE.fullmatch(self.key):
            raise ValueError("key: is no name of an environment variable: name the one that holds the API key")
        for name in _ABOVE_0:
            if (value := getattr(self, name)) is not None and not 0 < value < inf:
                raise ValueError(f"{name}: {value} must be above 0")
        if not all(0 <= price < inf for price in self.price):
            raise ValueError("price: must not be below 0")
        if taken := [name for name in self.more if name in _OWN]:
            raise ValueError(f"more: {', '.join(taken)}: has an option of its own, or cannot be changed")
        object.__setattr__(self, "prompt", template(self.prompt, self.scale, self.batch))

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
        from hardneg.plugin import Endpoint, cache_folder, server_key
        from hardneg_judge.asking import Asking
        from hardneg_judge.client import ChatClient
        from hardneg_judge.journal import AnswerJournal

        key = server_key(self.model, self.key)
        said = self._said()
        name = digest([self.revision, said])
        journal = AnswerJournal(cache_folder() / "answers" / f"{name}.jsonl")
        endpoint = Endpoint(self.url.rstrip("/"), key, said, self.timeout, self.deadline, self.in_flight)
        unread = nan if judging and self.unreadable == "irrelevant" else self.unread
        return Asking(self, ChatClient(endpoint), journal, unread)

    @property
    def best(self) -> float:
        """The highest score; the lowest is 0."""
        return BEST[self.scale]

    @property
    def unread(self) -> float:
        """The score of a passage of which an answer does not say it."""
        return self.best if self.unreadable == "relevant" else 0.0

    def cost(self, read: float, written: float) -> float:
        """What so many tokens cost."""
        return (read * self.price[0] + written * self.price[1]) / _MILLION

    def foretold(self, pairs: float, tokens: float) -> float:
        """About what so many pairs cost, of so many tokens each."""
        prompt_tokens = len(self.prompt) / _CHARACTERS_A_TOKEN / self.batch
        return self.cost(pairs * (prompt_tokens + tokens), pairs * (self.tokens or 0))

    def _said(self) -> Mapping[str, Any]:
        """What a request says beside the message."""
        said: dict[str, Any] = {"model": self.model, **self.more}
        if self.tokens is not None:
            said["max_tokens"] = self.tokens * self.batch
        if self.temperature is not None:
            said["temperature"] = self.temperature
        return said
