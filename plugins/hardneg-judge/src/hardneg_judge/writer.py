"""The writer `chat`: a language model behind a server writes queries that a passage answers."""

import logging
from collections import Counter, deque
from collections.abc import Iterable, Iterator, MutableMapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from threading import Event
from types import TracebackType
from typing import ClassVar, Self

from hardneg.plugin import Document, Written, generator
from hardneg_judge.journal import Answer
from hardneg_judge.prompts import put_in, template
from hardneg_judge.query_prompts import QUERIES, examples_text, listed, queries_in, shown_examples
from hardneg_judge.server_options import ChatServer
from hardneg_judge.session import READ, REQUESTS, UNREADABLE, WRITTEN, ChatSession, Reply

MISSING = "queries that answers lack"
_AHEAD = 4  # times the requests that are under way: passages that are read ahead
_SURELY = 32  # answers: where of so many first ones not one could be read, no more are asked for
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class ChatWriter(ChatServer):
    """A language model behind a server that speaks OpenAI's /v1/chat/completions; it writes queries of a passage.

    One request a passage. Answers are kept on this machine by the model, what it was told, and the whole message, so
    that nothing is asked twice.

    Source: Bonifacio, Abonizio, Fadaee and Nogueira, InPars: Data Augmentation for Information Retrieval using Large
    Language Models (SIGIR 2022); Dai et al., Promptagator: Few-shot Dense Retrieval From 8 Examples (ICLR 2023).

    Args:
        tokens: how many tokens an answer may have, all its queries together; null does not say it to the server.
        prompt: a file with a template, or its text, with {passage}, {forms} and {examples}; the text is in keys.
        forms: what is asked for, in turn from a drawn one on: `question`, `keywords`, `claim`, or your own words.
        examples: a file of JSON Lines, each with a `passage` and its `queries`; they stand in every message, and in
            keys.
    """

    version: ClassVar[int] = 2

    tokens: int | None = 256
    prompt: str = ""
    forms: tuple[str, ...] = ("question",)
    examples: str = ""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.forms or not all(form.strip() for form in self.forms):
            raise ValueError("forms: name what to ask for: question, keywords, claim, or a text of your own")
        object.__setattr__(self, "prompt", template(self.prompt, QUERIES, ("passage",)))
        object.__setattr__(self, "examples", examples_text(self.examples))
        shown_examples(self.examples)
        unused = {"forms": self.forms != ("question",), "examples": bool(self.examples)}
        if lost := [name for name, wanted in unused.items() if wanted and f"{{{name}}}" not in self.prompt]:
            raise ValueError(f"prompt: has no {{{lost[0]}}}, and {lost[0]} are asked for: write where they go")

    def write(self, documents: Iterable[Document], *, count: int, seed: int) -> Iterator[Written]:
        """Return for each document up to `count` queries; few documents are read ahead.

        Raises:
            ModelError: there is no key, the server refuses or does not answer, or no answer can be read.
        """
        with self.writing({}) as session:
            yield from session.write(documents, count=count, seed=seed)

    def writing(self, counts: MutableMapping[str, float], device: str | None = None) -> "ChatWriting":
        """The same with one client for all documents. Raises ModelError where there is no key."""
        return ChatWriting(self, self.opened(passages=1), counts)

    def message(self, document: Document, count: int, seed: int) -> str:
        """What is asked of a document; it depends on its content and not on its id."""
        text = document.contents[: self.characters]
        start = int(generator(seed, "chat", text).integers(len(self.forms)))
        parts = {"passage": text, "forms": listed(self.forms, start, count), "examples": shown_examples(self.examples)}
        return put_in(self.prompt, parts)


class ChatWriting:
    """A writing at work; counts: gets requests, tokens, cost and what could not be read when the block ends."""

    version = ChatWriter.version

    def __init__(self, options: ChatWriter, session: ChatSession, counts: MutableMapping[str, float]) -> None:
        self._options, self._session, self._counts = options, session, counts
        self._pool, self._ended = ThreadPoolExecutor(options.in_flight), Event()
        self._used = Counter[str]()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, raised: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        self._pool.shutdown(cancel_futures=True)
        self._session.close()
        used = self._used
        self._counts.update({what: count for what, count in used.items() if count})
        if used:
            self._counts["cost"] = round(self._options.cost(used[READ], used[WRITTEN]), 6)
        if raised is None and (used[UNREADABLE] or used[MISSING]):
            unread = f"{used[UNREADABLE]} have no query that can be read, others lack {used[MISSING]}"
            text = "%s: of %d answers %s; another prompt or more tokens may help"
            _log.warning(text, self._options.model, used[REQUESTS], unread)

    def write(self, documents: Iterable[Document], *, count: int, seed: int) -> Iterator[Written]:
        """As `ChatWriter.write`; one call at a time."""
        waiting = deque[tuple[Document, str, Future[Reply[list[str]]] | None]]()
        under_way: dict[str, Future[Reply[list[str]]]] = {}

        def finished() -> Written:
            document, message, reply = waiting.popleft()
            if reply is None:
                return Written((), document)
            if under_way.pop(message, None) is not None:
                self._count(reply.result(), count)
            return Written(reply.result().value, document)

        for document in documents:
            message = self._options.message(document, count, seed)
            if document.text.strip() and count > 0:
                if message not in under_way:
                    under_way[message] = self._pool.submit(self._reply, message, count)
                waiting.append((document, message, under_way[message]))
            else:
                waiting.append((document, "", None))
            if len(waiting) > _AHEAD * self._options.in_flight:
                yield finished()
        while waiting:
            yield finished()

    def _reply(self, message: str, count: int) -> Reply[list[str]]:
        def read(answer: Answer) -> tuple[list[str], bool]:
            limit, text = self._options.tokens, answer.text
            if limit is not None and answer.written >= limit:  # its last line was cut off
                text = text.rpartition("\n")[0]
            queries = queries_in(text, count)
            return queries, bool(queries)

        return self._session.reply(message, read, self._ended)

    def _count(self, reply: Reply[list[str]], count: int) -> None:
        used = self._used
        reply.add_to(used)
        used[UNREADABLE] += not reply.value
        used[MISSING] += count - len(reply.value) if reply.value else 0
        if used[REQUESTS] >= _SURELY and used[REQUESTS] == used[UNREADABLE]:
            last = " ".join(reply.answer.text.split())[:80]
            problem = f"not one of {used[REQUESTS]} answers has a query that can be read; the last one is {last!r}"
            raise self._session.client.error(f"{problem}: look at the server, and at the options prompt and tokens")
