"""The reranker `chat-listwise`: orders that are repaired, windows that slide, and what is asked how often."""

import re
from pathlib import Path
from typing import Any

import pytest
from chat_server import Served, serving
from hardneg_judge.answers import permutation
from hardneg_judge.listwise import ChatListwise, Ordering
from hardneg_judge.server import KEPT, REQUESTS, UNREADABLE

from hardneg.records import ModelError
from hardneg.testing import RerankerTests

_LISTED = re.compile(r"^\[(\d+)\] (.*)$", re.MULTILINE)


def by_number(message: str) -> str:
    """All passages that are numbers, the largest first."""
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
    """By hand: 5 passages, windows of 3 from the end in steps of 2: places 2 to 4, then 0 to 2."""
    served.says = by_length
    passages = ["a", "bb", "ccc", "dddd", "eeeee"]
    (scores,) = ChatListwise("m", url=served.url, window=3, step=2).rerank([("q", passages)])
    # a bb [ccc dddd eeeee] -> a bb eeeee dddd ccc -> [a bb eeeee] -> eeeee bb a, then dddd ccc
    assert list(scores) == [3, 4, 1, 2, 5]
    assert [len(_LISTED.findall(message)) for message in served.messages] == [3, 3]


def by_length(message: str) -> str:
    listed = sorted(_LISTED.findall(message.partition("\n\nQuery")[0]), key=lambda each: -len(each[1]))
    return " > ".join(f"[{number}]" for number, _ in listed)


def test_one_window_sorts_a_short_list_and_a_single_passage_is_not_asked_about(served: Served) -> None:
    served.says = by_length
    lists = [("q", ["a", "ccc", "bb"]), ("q", ["a"]), ("q", [])]
    assert [list(scores) for scores in ChatListwise("m", url=served.url).rerank(lists)] == [[1, 3, 2], [1], []]
    assert len(served.requests) == 1 and served.requests[0]["max_tokens"] == 320


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
    assert "of 1 answers 1 cannot be read in full" in caplog.text
    with pytest.raises(ModelError, match=r"not one of 16 answers can be read; .*: look at the server"):
        list(plugin.rerank([(f"q{number}", ["a", "b"]) for number in range(40)]))


@pytest.mark.parametrize(("options", "told"), [({"window": 5, "step": 5}, "step"), ({"step": 0}, "step")])
def test_windows_that_skip_passages_are_refused(options: dict[str, int], told: str) -> None:
    with pytest.raises(ValueError, match=f"{told}: .* must be above 0 and below window"):
        ChatListwise("m", **options)
