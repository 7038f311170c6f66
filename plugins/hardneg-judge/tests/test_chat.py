"""The reranker and the filter `chat`: contracts, options, numbers of requests, and reasons for dropping candidates."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from chat_server import Served, serving, shared_words
from hardneg_judge.chat import Chat, ChatFilter, ChatListwise, Ordering
from hardneg_judge.prompts import permutation
from hardneg_judge.server import KEPT, READ, REQUESTS, UNREADABLE, WRITTEN

from hardneg.records import Candidates, Document, ModelError, PluginError, PluginSetting, RankedList
from hardneg.registry import configure
from hardneg.store import plugin_identity
from hardneg.testing import FilterTests, RerankerTests


class TestChat(RerankerTests):
    plugin = Chat("m")

    @pytest.fixture(autouse=True)
    def _served(self) -> Any:
        with serving() as served:
            self.url = served.url
            yield

    def make(self, folder: Path) -> Chat:
        return Chat("m", url=self.url)


def chat(served: Served, **options: Any) -> Chat:
    return Chat("m", url=served.url, **options)


def test_a_score_is_what_the_model_says(served: Served) -> None:
    asked = [("old river", ["an old town", "the river ran", "the sea"]), ("harbor", ["the harbor"])]
    assert [list(scores) for scores in chat(served).rerank(asked)] == [[0, 1, 0], [1]]
    served.says = lambda message: "Grade: 3" if "river ran" in message else "1"
    assert list(chat(served, scale="grades").rerank(asked[:1])) == [[1, 3, 1]]


def test_nothing_is_asked_twice(served: Served) -> None:
    asked = [("old river", ["a river", "a sea", "a river"]), ("new river", ["a river"])]
    with chat(served).asking() as first:
        assert list(first.rerank(asked)) == [[1, 0, 1], [1]]
        assert first.counts == {REQUESTS: 4, KEPT: 1, READ: 400, WRITTEN: 8, UNREADABLE: 0, "answers without usage": 0}
    assert len(served.requests) == 3
    with chat(served, in_flight=1).asking() as again:
        assert list(again.rerank(asked)) == [[1, 0, 1], [1]]
        assert again.counts[REQUESTS] == again.counts[KEPT] == 4
    assert len(served.requests) == 3
    for other in ({"temperature": 1.0}, {"revision": "new"}, {"prompt": "{query}?\n{passages}"}, {"tokens": 2}):
        before = len(served.requests)
        list(chat(served, **other).rerank([("old river", ["a sea"])]))
        assert len(served.requests) == before + 1, other


def test_several_passages_in_a_message(served: Served) -> None:
    served.says = lambda message: "1: yes\n2: no" if "[2]" in message else "yes"
    asked = chat(served, batch=2, tokens=5, characters=6)
    assert list(asked.rerank([("river", ["passage one", "passage two", "passage three"])])) == [[1, 0, 1]]
    assert {request["max_tokens"] for request in served.requests} == {10}
    assert any("[1] passag\n[2] passag\n" in message for message in served.messages)


def test_an_answer_that_cannot_be_read_is_counted_and_told(served: Served, caplog: pytest.LogCaptureFixture) -> None:
    served.says = lambda message: "no" if "sea" in message else "I would rather not say"
    for unreadable, score in (("irrelevant", 0.0), ("relevant", 1.0)):
        caplog.clear()
        with chat(served, unreadable=unreadable).asking() as asking:
            assert list(asking.rerank([("q", ["a", "b", "the sea"])])) == [[score, score, 0.0]]
            assert asking.counts[UNREADABLE] == 2
        assert caplog.messages == ["m: 2 of 3 answers cannot be read in full; another prompt or more tokens may help"]


@pytest.mark.parametrize("says", ["I would rather not say", "", "maybe", None, 3])
def test_a_server_that_says_nothing_ends_it_and_is_asked_again(served: Served, says: Any) -> None:
    served.says = lambda message: says
    with pytest.raises(ModelError, match=r"none of 16 answers can be read, .*; check the server"):
        list(chat(served).rerank([("old river", [f"a river {number}" for number in range(16)])]))
    served.says = shared_words
    with chat(served).asking() as asking:
        assert list(asking.rerank([("old river", ["a river", "a sea"])])) == [[1, 0]]
        assert (asking.counts[KEPT], asking.counts[UNREADABLE]) == (0, 0)


def test_a_server_that_says_nothing_is_not_asked_of_everything(served: Served) -> None:
    served.says = lambda message: "sorry,\nno: yes"
    with pytest.raises(ModelError, match="answers can be read, such as 'sorry, no: yes'; check"):
        list(chat(served, in_flight=1).rerank([("q", [f"passage {n}"]) for n in range(1000)]))
    assert len(served.requests) < 100


def test_so_many_requests_are_under_way(served: Served) -> None:
    served.pause, served.together = 0.02, 4
    list(chat(served, in_flight=4).rerank([("q", [f"passage {n}" for n in range(24)])]))
    assert served.most_under_way == 4


def test_a_refusal_ends_it_and_keeps_what_was_said(served: Served) -> None:
    served.fault = lambda number, handler: number > 9 and (handler.reply(401, b"who are you") or True)
    with pytest.raises(ModelError, match="status 401: who are you; the server rejects this API key"):
        list(chat(served, in_flight=2).rerank([("q", [f"passage {n}"]) for n in range(100)]))
    assert len(served.requests) < 40
    served.fault = lambda number, handler: False
    before = len(served.requests)
    list(chat(served).rerank([("q", [f"passage {n}"]) for n in range(10)]))
    assert len(served.requests) == before


def test_the_key_is_sent_and_stands_nowhere(served: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("A_KEY", "s3cret")
    asked = chat(served, key="A_KEY")
    list(asked.rerank([("q", ["a"])]))
    assert served.keys == ["Bearer s3cret"]
    written = [path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()]
    assert written and not any(b"s3cret" in content for content in written)
    assert "s3cret" not in repr(asked) + str(plugin_identity("chat", asked))
    monkeypatch.delenv("A_KEY")
    with pytest.raises(ModelError, match="model 'm': no API key; set the environment variable A_KEY"):
        list(asked.rerank([("q", ["a"])]))


def test_what_changes_no_answer_is_in_no_key(tmp_path: Path) -> None:
    free = {"url": "http://far:1/v1", "key": "K", "in_flight": 3, "timeout": 5, "deadline": 9}
    plain = plugin_identity("chat", Chat("m"))
    assert plugin_identity("chat", Chat("m", **free)) == plain and not {*free} & {*plain["options"]}
    path = tmp_path / "template.txt"
    path.write_text("{query} {passages}")
    told = plugin_identity("chat", Chat("m", prompt=str(path)))
    assert told["options"]["prompt"] == "{query} {passages}"


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"url": "nowhere"}, "url: 'nowhere' is not an http or https address"),
        ({"url": "http://[::1"}, "url: 'http://[::1' is not an http"),
        ({"url": "http://me:pw@host/v1"}, "url: must not contain a user, key or query string"),
        ({"batch": 0}, "batch: must be above 0, not 0"),
        ({"deadline": -1.0}, "deadline: must be above 0, not -1.0"),
        ({"deadline": float("nan")}, "deadline: must be above 0, not nan"),
        ({"key": "sk-s3cret"}, "key: must be the name of the environment variable that contains the API key"),
        ({"more": {"messages": []}}, "more: must not set messages; use an option for it"),
        ({"prompt": "{query}"}, "prompt: missing {passages}"),
        ({"bach": 3}, "bach: chat has no such option; did you mean 'batch'"),
        ({"scale": "yes"}, "scale"),
    ],
)
def test_wrong_options_are_told(options: dict[str, Any], told: str) -> None:
    with pytest.raises(PluginError) as caught:
        configure("rerankers", PluginSetting("chat", {"model": "m", **options}))
    assert told in str(caught.value) and "\n" not in str(caught.value) and "s3cret" not in str(caught.value)


class TestChatFilter(FilterTests):
    @pytest.fixture(autouse=True)
    def _served(self) -> Any:
        with serving() as served:
            self.url = served.url
            yield

    def make(self, folder: Path) -> ChatFilter:
        return ChatFilter("m", url=self.url, depth=5)


class Texts:
    """Documents whose text is their id, and queries that all have the same text."""

    def queries(self, query_ids: Any) -> list[str]:
        return ["old river" for _ in query_ids]

    def documents(self, doc_ids: Any) -> list[Document]:
        return [Document(doc_id, doc_id) for doc_id in doc_ids]


def query(*doc_ids: str) -> Candidates:
    return Candidates("q", ["the river"], {"run": RankedList(doc_ids, np.ones(len(doc_ids), np.float32))}, [])


def test_what_is_relevant_unreadable_or_behind_the_depth_goes(served: Served) -> None:
    says = served.says
    served.says = lambda message: "perhaps" if "dim" in message else says(message)
    asked = [query("the river", "a river runs", "dim lights", "a town", "a city"), query()]
    found = list(ChatFilter("m", url=served.url, depth=4).reasons(asked, Texts()))
    assert found == [{"a river runs": "relevant", "dim lights": "unreadable", "a city": "unjudged"}, {}]
    assert len(served.requests) == 3  # the known positive is not asked of
    again = list(ChatFilter("m", url=served.url, depth=4, unreadable="relevant").reasons(asked, Texts()))
    assert again[0]["dim lights"] == "relevant"


_LISTED = re.compile(r"^\[(\d+)\] (.*)$", re.MULTILINE)


def by_number(message: str) -> str:
    """Rank the numbered passages of a message by length, the longest first, and equally long ones alphabetically."""
    listed = sorted(_LISTED.findall(message.partition("\n\nQuery")[0]), key=lambda each: (-len(each[1]), each[1]))
    return " > ".join(f"[{number}]" for number, _ in listed)


class TestListwise(RerankerTests):
    plugin = ChatListwise("m")

    @pytest.fixture(autouse=True)
    def _served(self) -> Any:
        with serving() as served:
            served.says = by_number
            self.url = served.url
            yield

    def make(self, folder: Path) -> ChatListwise:
        return ChatListwise("m", url=self.url, window=3, step=2)


@pytest.mark.parametrize(
    ("answer", "order"),
    [
        ("[2] > [3] > [1]", [1, 2, 0]),
        ("[2] > [2] > [9] > [0] > [1]", [1, 0, 2]),
        ("The best is passage 3.", [2, 0, 1]),
        ("<think>[1] > [2]</think>[3]>[2]", [2, 1, 0]),
        ("3, 1", [2, 0, 1]),
        ("12345678901234567890 [2]", [1, 0, 2]),
        ("none of them", []),
        ("[7]", []),
        ("", []),
    ],
)
def test_an_order_is_repaired(answer: str, order: list[int]) -> None:
    assert permutation(answer, 3) == order


def test_the_best_rise_through_the_windows(served: Served) -> None:
    """Worked by hand: windows of 3 over 5 passages, in steps of 2, cover positions 2 to 4 and then 0 to 2."""
    served.says = by_length
    passages = ["a", "bb", "ccc", "dddd", "eeeee"]
    (scores,) = ChatListwise("m", url=served.url, window=3, step=2).rerank([("q", passages)])
    # a bb [ccc dddd eeeee] -> a bb eeeee dddd ccc -> [a bb eeeee] -> eeeee bb a, then dddd ccc
    assert list(scores) == [3, 4, 1, 2, 5]
    assert [len(_LISTED.findall(message)) for message in served.messages] == [3, 3]


def by_length(message: str) -> str:
    listed = sorted(_LISTED.findall(message.partition("\n\nQuery")[0]), key=lambda each: -len(each[1]))
    return " > ".join(f"[{number}]" for number, _ in listed)


def test_each_window_reaches_the_top_and_nothing_is_asked_twice(served: Served) -> None:
    served.says = by_length
    asked = [("q", ["x" * (1 + number) for number in range(24)])]
    plugin = ChatListwise("m", url=served.url, window=4, step=2, in_flight=2)
    (first,) = plugin.rerank(asked)
    assert max(range(24), key=lambda passage: first[passage]) == 23 and sorted(first) == list(range(1, 25))
    requests = len(served.requests)
    assert requests == 11
    with Ordering(plugin, plugin.window) as ordering:
        assert list(ordering.rerank(plugin, asked)) == [first] and len(served.requests) == requests
    assert ordering.counts[KEPT] == ordering.counts[REQUESTS] == 11


def test_answers_without_an_order_are_counted_and_asked_again(served: Served, caplog: Any) -> None:
    served.says = lambda message: "I cannot say"
    asked, plugin = [("q", ["a", "bb", "ccc"])], ChatListwise("m", url=served.url)
    for requests in (1, 2):
        with Ordering(plugin, plugin.window) as ordering:
            assert list(ordering.rerank(plugin, asked)) == [[3, 2, 1]] and ordering.counts[UNREADABLE] == 1
        assert len(served.requests) == requests
    assert "1 of 1 answers cannot be read in full" in caplog.text
    with pytest.raises(ModelError, match=r"none of 16 answers can be read, .*; check the server"):
        list(plugin.rerank([(f"q{number}", ["a", "b"]) for number in range(40)]))
