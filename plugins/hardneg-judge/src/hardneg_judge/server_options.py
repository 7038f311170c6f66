"""What every plugin that asks a chat server has: the model, the address, what a request says, and the price."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from math import inf
from typing import TYPE_CHECKING, Any, ClassVar

from hardneg.plugin import digest, model_server

if TYPE_CHECKING:
    from hardneg_judge.session import ChatSession

_MILLION = 1e6
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_ABOVE_0 = ("characters", "tokens", "in_flight", "timeout", "deadline")
_OWN = ("model", "messages", "max_tokens", "temperature", "stream", "n")


@dataclass(frozen=True)
class ChatServer:
    """A language model behind a server that speaks OpenAI's /v1/chat/completions.

    Answers are kept on this machine by the model, what it was told, and the whole message, so that nothing is asked
    twice.

    Args:
        model: the model's name at the server.
        url: what `/chat/completions` is put behind; not in a key.
        key: the environment variable that holds the API key; none is sent where it is not given.
        revision: any word; another one where the server has other weights under the same name.
        characters: how much of a passage is sent, from its beginning; null sends all.
        tokens: how many tokens an answer may have for each passage; null does not say it to the server.
        temperature: of the model's draws; null does not say it.
        more: what else a request says, such as {reasoning_effort: low}.
        price: what a million tokens cost that are read, and that are written.
        in_flight: requests that wait for an answer at a time, at most.
        timeout: seconds in which the server must begin to answer, and go on.
        deadline: seconds for a request with all its attempts.
    """

    free: ClassVar[frozenset[str]] = frozenset({"url", "key", "price", "in_flight", "timeout", "deadline"})

    model: str
    url: str = field(default="http://localhost:8000/v1", compare=False)
    key: str | None = field(default=None, compare=False)
    revision: str | None = None
    characters: int | None = 4000
    tokens: int | None = 16
    temperature: float | None = 0.0
    more: dict[str, Any] = field(default_factory=dict)
    price: tuple[float, float] = field(default=(0.0, 0.0), compare=False)
    in_flight: int = field(default=8, compare=False)
    timeout: float = field(default=60.0, compare=False)
    deadline: float = field(default=600.0, compare=False)

    def __post_init__(self) -> None:
        model_server.check_address(self.url, "http://localhost:8000/v1")
        if self.key is not None and not _VARIABLE.fullmatch(self.key):
            raise ValueError("key: is no name of an environment variable: name the one that holds the API key")
        for name in _ABOVE_0:
            if (value := getattr(self, name)) is not None and not 0 < value < inf:
                raise ValueError(f"{name}: {value} must be above 0")
        if not all(0 <= price < inf for price in self.price):
            raise ValueError("price: must not be below 0")
        if taken := [name for name in self.more if name in _OWN]:
            raise ValueError(f"more: {', '.join(taken)}: has an option of its own, or cannot be changed")

    def opened(self, passages: int) -> "ChatSession":
        """A client of the server, and the answers that are kept of it; passages: in a message.

        Raises:
            ModelError: there is no key.
        """
        from hardneg.plugin import cache_folder
        from hardneg_judge.client import ChatClient
        from hardneg_judge.journal import AnswerJournal
        from hardneg_judge.session import ChatSession

        key, said = model_server.key_of(self.model, self.key), self._said(passages)
        journal = AnswerJournal(cache_folder() / "answers" / f"{digest([self.revision, said])}.jsonl")
        endpoint = model_server.Endpoint(self.url.rstrip("/"), key, said, self.timeout, self.deadline, self.in_flight)
        return ChatSession(ChatClient(endpoint), journal)

    def cost(self, read: float, written: float) -> float:
        """What so many tokens cost."""
        return (read * self.price[0] + written * self.price[1]) / _MILLION

    def _said(self, passages: int) -> Mapping[str, Any]:
        """What a request says beside the message."""
        said: dict[str, Any] = {"model": self.model, **self.more}
        if self.tokens is not None:
            said["max_tokens"] = self.tokens * passages
        if self.temperature is not None:
            said["temperature"] = self.temperature
        return said
