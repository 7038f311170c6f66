"""Requests to a chat server: a message in, what the model says out."""

import json
from threading import Event

from hardneg.plugin import model_server
from hardneg_judge.journal import Answer

_MOST = 4  # MiB of an answer
_TOKENS = 1 << 40  # no answer has so many


class ChatClient(model_server.ModelServer):
    """Asks one model of one server; several threads may use it."""

    def ask(self, message: str, ended: Event | None = None) -> Answer:
        """What the model says to one message; no attempt begins once `ended` is set.

        Raises:
            ModelError: the server refuses, answers in another form, or not within the deadline.
        """
        content = self.post("/chat/completions", {"messages": [{"role": "user", "content": message}]}, _MOST, ended)
        try:
            body = json.loads(content)
            choice = body["choices"][0]
            text, cut = choice["message"]["content"], choice.get("finish_reason") == "length"
            usage = body.get("usage") or {}
            tokens = [usage.get(name) for name in ("prompt_tokens", "completion_tokens")]
        except (ValueError, TypeError, LookupError, AttributeError, RecursionError):
            problem = "the answer is not as /v1/chat/completions has it: no JSON with `choices[0].message.content`"
            raise self.error(problem) from None
        read, written = (count if type(count) is int and 0 <= count < _TOKENS else -1 for count in tokens)
        if written < 0 and cut:  # it has said all tokens that it may
            written = self.endpoint.said.get("max_tokens", -1)
        text = text.encode(errors="ignore").decode() if isinstance(text, str) else ""  # halves of characters go
        return Answer(self.without_key(text), read, written)
