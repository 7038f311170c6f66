"""Several writers on one collection, and which of their queries stay."""

from collections import Counter
from dataclasses import dataclass
from typing import ClassVar

import pytest

from hardneg.records import Document, Written
from hardneg.stages.write_queries import COPIES, JOINED, NAMING, Draft, Kept, kept, mixed

DOCUMENTS = [Document(f"d{number}", f"text {number}") for number in range(60)]


@dataclass(frozen=True)
class Echo:
    """Writes the ids of documents whose number is divided."""

    word: str
    divisor: int = 1
    version: ClassVar[int] = 1

    def write(self, documents, *, count, seed):
        for document in documents:
            fits = int(document.doc_id[1:]) % self.divisor == 0
            yield Written([f"{self.word} {number}" for number in range(count)] if fits else [], document)


def test_each_document_has_queries_of_one_writer_by_its_id_alone():
    writers = {"a": Echo("a"), "b": Echo("b")}
    results = list(mixed(writers, DOCUMENTS, 2, seed=1))
    assert [written.document for _, written in results] == DOCUMENTS
    assert all(written.queries == [f"{name} 0", f"{name} 1"] for name, written in results)
    counts = Counter(name for name, _ in results)
    assert 18 <= counts["a"] <= 42  # 30 and three standard deviations of 3.9
    turned = list(mixed(dict(reversed(writers.items())), DOCUMENTS[::-1], 2, seed=1))
    assert turned[::-1] == results
    assert list(mixed(writers, DOCUMENTS, 2, seed=2)) != results


def test_a_writer_that_can_write_nothing_leaves_its_turn():
    results = list(mixed({"a": Echo("a", 2), "b": Echo("b", 3)}, DOCUMENTS, 1, seed=1))
    for number, (name, written) in enumerate(results):
        fits = {each for each, divisor in (("a", 2), ("b", 3)) if number % divisor == 0}
        assert name in fits if fits else (name, written.queries) == ("", ())


def test_only_some_documents():
    results = list(mixed({"a": Echo("a")}, DOCUMENTS, 1, seed=1, only={"d3"}))
    assert [number for number, (name, _) in enumerate(results) if name] == [3]
    assert [written.document for _, written in results] == DOCUMENTS


def test_which_queries_stay():
    left_out = Counter()
    drafts = [
        Draft("q1", "What is in Passage 3?", "d1", "g1"),
        Draft("q2", "is it in guide/owls.md#3 or not", "guide/owls.md#3", "g1"),
        Draft("q3", "The passage of time", "d3", "g1"),
        Draft("q4", "time of the passage!", "d4", "g1"),
        Draft("q5", "the time, the passage of", "d3", "g1"),
        Draft("q6", "same words", "d5", "g1"),
        Draft("q7", "Words, same", "d6", "g2"),
        Draft("q8", "other words", "d6", "g2"),
    ]
    assert kept(drafts, [], left_out) == [
        Kept("q3", "The passage of time", ["d3", "d4"], "g1"),
        Kept("q8", "other words", ["d6"], "g2"),
    ]
    assert left_out == {NAMING: 2, JOINED: 2, COPIES: 2}


@pytest.mark.parametrize(
    ("doc_id", "text", "stays"),
    [
        ("e", "where owls live", True),
        ("19", "The lake of 1903", True),
        ("1903", "The lake of 1903", True),
        ("river", "a river", True),
        ("b2", "vitamin b2", True),
        ("ab123", "what is tagab123", True),
        ("ab123", "what is ab1234", True),
        ("ab123", "what is (ab123)?", False),
        ("MED-10", "what does MED-10 say", False),
    ],
)
def test_a_query_that_has_its_passages_id(doc_id, text, stays):
    left_out = Counter()
    assert bool(kept([Draft("q", text, doc_id, "g")], [], left_out)) == stays == (NAMING not in left_out)


def test_a_passage_that_keeps_the_title_is_relevant_too():
    left_out = Counter()
    drafts = [Draft("q1", "How owls hunt", "d1", "g1"), Draft("q2", "Where owls live", "d2", "g1")]
    titles = [Draft("", "How owls hunt", "d1", "g1"), Draft("", "how Owls hunt", "d3", "g1")]
    titles += [Draft("", "Where owls live", "d9", "g2"), Draft("", "Nobody asks", "d4", "g1")]
    assert kept(drafts, titles, left_out) == [Kept("q1", "How owls hunt", ["d1", "d3"], "g1")]
    assert left_out == {COPIES: 1}
