"""The writer `chat`: a language model on a server writes queries for passages."""

from collections.abc import Iterable, Iterator, MutableMapping
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

from hardneg.plugin import Document, records, runtime
from hardneg_judge.prompts import QUERIES, asked_forms, examples_text, put_in, queries_in, shown_examples, template
from hardneg_judge.server import Answer, ChatServer, ChatSession, Reply

MISSING = "queries missing from answers"


@dataclass(frozen=True)
class ChatWriter(ChatServer):
    """A language model, on a server with OpenAI's /v1/chat/completions API, that writes queries for passages.

    Each passage takes one request. Answers are cached on this machine by model, parameters and message, so that no
    request is repeated.

    Source: Bonifacio, Abonizio, Fadaee and Nogueira, InPars: Data Augmentation for Information Retrieval using Large
    Language Models (SIGIR 2022); Dai et al., Promptagator: Few-shot Dense Retrieval From 8 Examples (ICLR 2023).

    Args:
        tokens: maximum number of tokens of an answer with all its queries; null uses the server's default.
        prompt: a template or template file, with {passage}, {forms} and {examples}; its text is part of artifact keys.
        forms: kinds of queries, used in turn from a random start: `question`, `keywords`, `claim`, or a description.
        examples: a file of JSON Lines with `passage` and `queries`, included in every message and in artifact keys.
    """

    version: ClassVar[int] = 2

    tokens: int | None = 256
    prompt: str = ""
    forms: tuple[str, ...] = ("question",)
    examples: str = ""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.forms or not all(form.strip() for form in self.forms):
            raise ValueError("forms: must list what to ask for, such as question, keywords, claim, or a description")
        object.__setattr__(self, "prompt", template(self.prompt, QUERIES, ("passage",)))
        object.__setattr__(self, "examples", examples_text(self.examples))
        shown_examples(self.examples)
        unused = {"forms": self.forms != ("question",), "examples": bool(self.examples)}
        if lost := [name for name, wanted in unused.items() if wanted and f"{{{name}}}" not in self.prompt]:
            raise ValueError(f"prompt: has no {{{lost[0]}}}, but {lost[0]} are set; add it to the template")

    def write(self, documents: Iterable[Document], *, count: int, seed: int) -> Iterator[records.Written]:
        """Yield each document, in order, with up to `count` queries. A bounded number of documents is read ahead.

        Raises:
            ModelError: the key is missing, the server refuses or does not answer, or no answer is readable.
        """
        with self.writing({}) as session:
            yield from session.write(documents, count=count, seed=seed)

    def writing(self, counts: MutableMapping[str, float], device: str | None = None) -> "ChatWriting":
        """Open a session that updates `counts` when it closes. Raises ModelError if the key is missing."""
        return ChatWriting(self, counts)

    def message(self, document: Document, count: int, seed: int) -> str:
        """Return the message that asks for `count` queries. It depends on the document's content, but not on its id."""
        text = document.contents[: self.characters]
        start = int(runtime.generator(seed, "chat", text).integers(len(self.forms)))
        parts = {
            "passage": text,
            "forms": asked_forms(self.forms, start, count),
            "examples": shown_examples(self.examples),
        }
        return put_in(self.prompt, parts)


class ChatWriting(ChatSession):
    """A session that writes queries. totals: updated at the end with counts of requests, tokens and answers."""

    version = ChatWriter.version

    def __init__(self, options: ChatWriter, totals: MutableMapping[str, float]) -> None:
        super().__init__(options, 1)
        self._options, self._totals = options, totals

    def __exit__(self, *raised: object) -> None:
        super().__exit__(*raised)  # type: ignore[arg-type]
        self._totals.update({what: count for what, count in self.counts.items() if count})

    def write(self, documents: Iterable[Document], *, count: int, seed: int) -> Iterator[records.Written]:
        """Yield each document, in order, with up to `count` queries. Only one call may be active at a time."""
        asked: list[Document] = []

        def calls(document: Document) -> list[partial[Reply[str]]]:
            asked.append(document)
            if not document.text.strip() or count < 1:
                return []
            return [partial(self.reply, self._options.message(document, count, seed), partial(self._read, count))]

        for group in self.in_order(map(calls, documents)):
            queries = list[str]()
            for reply in group:
                self.count(reply)
                queries = reply.values
                self.counts[MISSING] += count - len(queries) if queries else 0
            yield records.Written(queries, asked.pop(0))

    def _read(self, count: int, answer: Answer) -> tuple[list[str], bool]:
        limit, text = self._options.tokens, answer.text
        if limit is not None and answer.written >= limit:  # the last line is incomplete
            text = text.rpartition("\n")[0]
        queries = queries_in(text, count)
        return queries, bool(queries)
