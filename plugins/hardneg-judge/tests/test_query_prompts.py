"""What is asked for, and the queries that are read in answers."""

import json

import pytest
from hardneg_judge.query_prompts import FORMS, listed, queries_in, shown_examples


def test_forms_are_asked_for_in_turn() -> None:
    assert listed(["question", "a title"], 1, 3) == f"1. a title\n2. {FORMS['question']}\n3. a title"


@pytest.mark.parametrize(
    ("answer", "count", "queries"),
    [
        ("1. who built it\n2. old bridge", 2, ["who built it", "old bridge"]),
        ('Here they are:\n\n**1.** Who built it?\n- 2) "old bridge"', 2, ["Who built it?", "old bridge"]),
        ("Query 1: who built it", 1, ["who built it"]),
        ("[1] who built it", 1, ["who built it"]),
        ("who built it?", 1, ["who built it?"]),
        ("3.5 inch floppy disks", 1, ["3.5 inch floppy disks"]),
        ("<think>\n1. no\n</think>\n\n1. yes", 1, ["yes"]),
        ("2. old bridge\n1. who", 2, ["who", "old bridge"]),
        ("1. who\n3. beyond what was asked for", 2, ["who"]),
        ("1. who\n2.", 2, ["who"]),
        ("1. who\n1. who else\n2. old bridge", 2, ["old bridge"]),
        ("1. who\n2. who", 2, ["who"]),
        ("who\nold bridge", 2, []),
        ("I am sorry.\nI cannot.", 1, []),
        ("2. another number", 1, []),
        ("", 1, []),
        ("1. " + "who " * 600 + "\n2. old bridge", 2, ["old bridge"]),
        ('""', 1, []),
    ],
)
def test_queries_of_an_answer(answer: str, count: int, queries: list[str]) -> None:
    assert queries_in(answer, count) == queries


def test_examples_as_a_message_has_them() -> None:
    lines = [{"passage": "The bridge is old.", "queries": ["how old", "bridge age"]}, {"passage": "b", "queries": "q"}]
    text = "\n\n".join(map(json.dumps, lines))
    first = "Passage:\nThe bridge is old.\n\nQueries:\n1. how old\n2. bridge age\n\n"
    assert shown_examples(text) == first + "Passage:\nb\n\nQueries:\n1. q\n\n" and shown_examples("") == ""


@pytest.mark.parametrize(
    "line", ["{", "[]", '{"passage": "a"}', '{"passage": "a", "queries": []}', '{"passage": " ", "queries": "q"}']
)
def test_a_broken_example_is_named(line: str) -> None:
    with pytest.raises(ValueError, match="examples: line 2 is no JSON object with a `passage` and its `queries`: "):
        shown_examples('{"passage": "a", "queries": "q"}\n' + line)
