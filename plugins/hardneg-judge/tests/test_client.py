"""The client: messages in the server's form, and what is made of answers."""

import pytest
from chat_server import Served
from hardneg_judge.journal import Answer
from hardneg_judge.server import ChatServer, ChatSession

from hardneg.records import ModelError


@pytest.fixture
def client(served: Served, monkeypatch: pytest.MonkeyPatch) -> ChatSession:
    monkeypatch.setenv("A_KEY", "s3cret")
    return ChatSession(ChatServer("m", served.url, "A_KEY", tokens=4, temperature=None), 1)


def test_what_is_sent_and_what_comes(served, client):
    served.says = lambda message: f"you said {message}"
    assert client.ask("hello") == Answer("you said hello", 100, 2)
    assert served.requests == [
        {"model": "m", "max_tokens": 4, "messages": [{"role": "user", "content": "hello"}]}
    ] and served.keys == ["Bearer s3cret"]


@pytest.mark.parametrize(
    ("usage", "said", "answer"),
    [
        (None, "yes", Answer("yes")),
        ({"prompt_tokens": 3}, "yes", Answer("yes", 3, -1)),
        ({"prompt_tokens": True, "completion_tokens": -4}, "yes", Answer("yes")),
        ({"prompt_tokens": 1, "completion_tokens": 0}, None, Answer("", 1, 0)),
        ({"prompt_tokens": 10**4000, "completion_tokens": 2}, "a \ud83d b", Answer("a  b", -1, 2)),
    ],
)
def test_answers_that_lack_something(served, client, usage, said, answer):
    served.usage, served.says = usage, lambda message: said
    assert client.ask("hello") == answer


def test_a_key_is_not_told_as_an_answer(served, client):
    served.says = lambda message: "yes, s3cret"
    assert client.ask("a").text == "yes, (the key)"


@pytest.mark.parametrize("body", [b"<html>", b"[]", b"{}", b'{"choices": []}', b'{"choices": [{}]}', b"null"])
def test_another_form_is_told(served, client, body):
    served.fault = lambda number, handler: handler.reply(200, body) or True
    with pytest.raises(ModelError, match=r"the answer is not as /v1/chat/completions has it: no JSON with `choices"):
        client.ask("a")
