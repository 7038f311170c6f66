"""The filter `chat`: its contract, and what it drops for which reason."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from chat_server import Served, serving
from hardneg_judge.chat_filter import ChatFilter

from hardneg.records.errors import PluginError
from hardneg.records.types import Candidates, Document, PluginSetting, RankedList
from hardneg.registry.plugins import configure
from hardneg.testing import FilterTests


class TestChatFilter(FilterTests):
    @pytest.fixture(autouse=True)
    def _served(self) -> Any:
        with serving() as served:
            self.url = served.url
            yield

    def make(self, folder: Path) -> ChatFilter:
        return ChatFilter("m", url=self.url, depth=5)


class Texts:
    """Documents whose text is their id."""

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


def test_options_that_make_no_sense() -> None:
    with pytest.raises(PluginError, match="relevant_from: 2 is not above 0 and at most 1, the best"):
        configure("filters", PluginSetting("chat", {"model": "m", "relevant_from": 2.0}))
    with pytest.raises(PluginError, match="depth: 0 must be above 0"):
        configure("filters", PluginSetting("chat", {"model": "m", "depth": 0}))
