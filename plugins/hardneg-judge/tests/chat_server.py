"""A small server of /v1/chat/completions, with replaceable answers that depend on the message."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

from hardneg_http import testing


def shared_words(message: str) -> str:
    """Answer `yes` if the passage shares a word of more than three letters with the query, and else `no`."""
    query, _, rest = message.partition("\n")
    passage = rest.partition("\n\nWould")[0]
    return "yes" if {*words(query)} & {*words(passage)} else "no"


def words(text: str) -> list[str]:
    found = (word.strip(".,:?[]") for word in text.lower().split())
    return [word for word in found if len(word) > 3 and word not in ("query", "passage", "passages")]


class Served(testing.ServedModel):
    """A chat model; says: maps a message to the answer. ends: the `finish_reason` of answers, if any."""

    path = "/v1/chat/completions"

    def __init__(self) -> None:
        super().__init__()
        self.says: Callable[[str], Any] = shared_words
        self.usage: Any = {"prompt_tokens": 100, "completion_tokens": 2}
        self.ends: str | None = None

    @property
    def messages(self) -> list[str]:
        return [request["messages"][0]["content"] for request in self.requests]

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        said = self.says(request["messages"][0]["content"])
        return {"choices": [{"message": {"content": said}, "finish_reason": self.ends}], "usage": self.usage}


def serving() -> AbstractContextManager[Served]:
    """Serve from threads of this process until the `with` block ends."""
    return testing.serving(Served())
