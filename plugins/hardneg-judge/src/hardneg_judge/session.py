"""A chat server opened: a message in, what its answer says out; only answers that can be read are kept."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from threading import Event
from typing import Generic, NamedTuple, TypeVar

from hardneg_judge.client import ChatClient
from hardneg_judge.journal import Answer, AnswerJournal, request_key

REQUESTS, KEPT, READ, WRITTEN, UNREADABLE, UNCOUNTED = (
    "requests", "answers kept from before", "tokens read", "tokens written", "unreadable", "answers without usage"
)  # fmt: skip
Value = TypeVar("Value")


class Reply(NamedTuple, Generic[Value]):
    """An answer, whether it was kept from before, and what was read in it."""

    answer: Answer
    known: bool
    value: Value

    def add_to(self, counts: Counter[str]) -> None:
        """Adds its request and tokens."""
        counts[REQUESTS] += 1
        counts[KEPT] += self.known
        counts[READ] += max(0, self.answer.read)
        counts[WRITTEN] += max(0, self.answer.written)
        counts[UNCOUNTED] += min(self.answer.read, self.answer.written) < 0


@dataclass(frozen=True)
class ChatSession:
    """A client of a server, and the answers that are kept of it; several threads may use it."""

    client: ChatClient
    journal: AnswerJournal

    def reply(self, message: str, read: Callable[[Answer], tuple[Value, bool]], ended: Event) -> Reply[Value]:
        """The answer to a message, from the journal if it is there; no attempt begins once `ended` is set.

        Args:
            message: what is asked.
            read: what an answer says, and whether all of it could be read, so that it may be kept.
            ended: set where another request has failed.

        Raises:
            ModelError: as `ChatClient.ask`.
        """
        key = request_key(message)
        if (known := self.journal.find(key)) is not None and (content := read(known))[1]:
            return Reply(known, True, content[0])
        answer = self.client.ask(message, ended)
        value, readable = read(answer)
        if readable:
            self.journal.keep(key, answer)
        return Reply(answer, False, value)

    def close(self) -> None:
        """Ends the connections, and the use of the file."""
        self.client.close()
        self.journal.close()
