"""The writer `chat`: its contract, its messages, and how it reads answers."""

import re
from pathlib import Path
from typing import Any

import pytest
from chat_server import Served, serving
from hardneg_judge.server import KEPT, READ, REQUESTS, UNCOUNTED, UNREADABLE, WRITTEN
from hardneg_judge.writer import MISSING, ChatWriter

from hardneg.plugin import Document, errors, records, registry
from hardneg.store import plugin_identity
from hardneg.testing import WriterTests

TEXTS = ["the river ran", "an old town", "the sea"]
DOCUMENTS = [Document(f"d{number}", text) for number, text in enumerate(TEXTS)]


def numbered(message: str) -> str:
    """Answer a message with one numbered query, which repeats the passage, per requested line."""
    *_, passage = re.findall(r"Passage:\n(.*)\n\nWrite", message)
    asked = re.findall(r"^(\d+)\. ", message.rpartition("Write one")[2], re.MULTILINE)
    return "\n".join(f"{number}. what{number} of {passage}" for number in asked)


class TestChatWriter(WriterTests):
    plugin = ChatWriter("m")

    @pytest.fixture(autouse=True)
    def _served(self) -> Any:
        with serving() as served:
            served.says, self.url = numbered, served.url
            yield

    def make(self, folder: Path) -> ChatWriter:
        return ChatWriter("m", url=self.url)


@pytest.fixture
def asked(served: Served) -> Served:
    served.says = numbered
    return served


def write(served: Served, documents: list[Document] = DOCUMENTS, count: int = 1, **options: Any) -> list[list[str]]:
    writer = ChatWriter("m", url=served.url, **options)
    return [list(each.queries) for each in writer.write(documents, count=count, seed=3)]


def test_queries_are_those_of_the_answers_in_order(asked: Served) -> None:
    assert write(asked, count=2) == [[f"what1 of {text}", f"what2 of {text}"] for text in TEXTS]
    assert {request["max_tokens"] for request in asked.requests} == {256}
    assert "The" not in write(asked, [Document("a", "body", "Its title")], characters=5)[0][0]
    assert asked.messages[-1].startswith("Passage:\nIts t\n\nWrite one search query")


def test_a_passage_is_asked_of_once(asked: Served) -> None:
    twice = [*DOCUMENTS, Document("another id", "the sea")]
    assert write(asked, twice)[2:] == [["what1 of the sea"]] * 2 and len(asked.requests) == 3
    counts: dict[str, float] = {}
    with ChatWriter("m", url=asked.url).writing(counts) as session:
        assert [list(each.queries) for each in session.write(twice, count=1, seed=3)] == write(asked, twice)
    assert counts == {REQUESTS: 4, KEPT: 4, READ: 400, WRITTEN: 8}
    assert len(asked.requests) == 3
    prompt = "Passage:\n{passage}\n\nWrite one\n{forms}"
    for other in ({"temperature": 1.0}, {"revision": "new"}, {"prompt": prompt}, {"tokens": 9}):
        before = len(asked.requests)
        assert write(asked, DOCUMENTS[:1], **other) == [["what1 of the river ran"]]
        assert len(asked.requests) == before + 1, other


def test_forms_begin_with_a_drawn_one_and_examples_come_first(asked: Served, tmp_path: Path) -> None:
    (file := tmp_path / "shots.jsonl").write_text('{"passage": "The bridge is old.", "queries": ["how old"]}\n')
    documents = [Document(str(number), f"text {number}") for number in range(60)]
    write(asked, documents, forms=("keywords", "a title"), examples=str(file))
    begun = ["a title" in message for message in asked.messages]
    assert 15 <= sum(begun) <= 45  # 30 and almost four standard deviations
    shots = "Passage:\nThe bridge is old.\n\nQueries:\n1. how old\n\n"
    assert all(message.startswith(f"{shots}Passage:\ntext ") for message in asked.messages)
    write(asked, documents[:1], count=3, forms=("keywords", "a title"))
    assert len(re.findall(r"a title|two to six", asked.messages[-1])) == 3


def test_broken_answers_are_counted_and_asked_for_again(asked: Served, caplog: pytest.LogCaptureFixture) -> None:
    answers = {"the river ran": "I am sorry.\nI cannot.", "an old town": "1. how old\n2. ", "the sea": "1. a\n2. b"}
    asked.says = lambda message: next(answer for text, answer in answers.items() if text in message)
    asked.usage = None
    for requests, new in ((3, 0), (4, 2)):
        counts: dict[str, float] = {}
        with ChatWriter("m", url=asked.url).writing(counts) as session:
            written = list(session.write(DOCUMENTS, count=2, seed=3))
        assert [each.queries for each in written] == [[], ["how old"], ["a", "b"]]
        assert [each.document for each in written] == DOCUMENTS
        own = {REQUESTS: 3, KEPT: new, UNREADABLE: 1, MISSING: 1, UNCOUNTED: 3}
        assert counts == {name: count for name, count in own.items() if count}
        assert len(asked.requests) == requests
    assert caplog.messages[-1] == "m: 1 of 3 answers cannot be read in full; another prompt or more tokens may help"


def test_a_line_that_was_cut_off_is_no_query(asked: Served) -> None:
    asked.usage = {"prompt_tokens": 9, "completion_tokens": 5}
    assert write(asked, DOCUMENTS[:1], count=2, tokens=5) == [["what1 of the river ran"]]
    assert write(asked, DOCUMENTS[:1], count=2, tokens=6) == [["what1 of the river ran", "what2 of the river ran"]]
    asked.usage, asked.ends = None, "length"  # a server that counts no tokens
    for _ in range(2):  # from it, then from what is kept
        assert write(asked, DOCUMENTS[:1], count=2, tokens=7) == [["what1 of the river ran"]]
    assert len(asked.requests) == 3


@pytest.mark.parametrize(
    ("options", "line"),
    [
        ({"forms": []}, "forms: must list what to ask for"),
        ({"prompt": "{passages}"}, "prompt: {passages} cannot be read"),
        ({"prompt": "{passage}", "forms": ["claim"]}, "prompt: has no {forms}, but forms are set"),
        ({"prompt": "{passage}", "examples": '{"passage": "a", "queries": "b"}'}, "prompt: has no {examples}, but"),
        ({"examples": "nowhere.jsonl"}, "examples: nowhere.jsonl cannot be read (No such file or directory)"),
        ({"examples": "{}"}, "examples: line 1 is not a JSON object"),
        ({"url": "nowhere"}, "url: 'nowhere' is not an http or https address"),
    ],
)
def test_mistakes_in_options(options: dict[str, Any], line: str) -> None:
    with pytest.raises(errors.PluginError, match=re.escape(line)):
        registry.configure("writers", records.PluginSetting("chat", {"model": "m", **options}))


def test_the_texts_of_files_are_in_keys(tmp_path: Path) -> None:
    (file := tmp_path / "p").write_text("About: {passage}")
    named, said = ChatWriter("m", prompt=str(file)), ChatWriter("m", prompt="About: {passage}", in_flight=1)
    assert plugin_identity("chat", named) == plugin_identity("chat", said)
    assert plugin_identity("chat", named)["options"]["prompt"] == "About: {passage}"
