"""Prompt templates, the texts inserted into them, and the parsing of answers."""

import json

import pytest
from hardneg_judge.prompts import FORMS, asked_forms, built_in, filled, queries_in, shown_examples, template, verdicts


def test_texts_are_put_in_as_they_are():
    assert filled("{query} | {passages} | {other}", "what is {passages}?", ["{query} {}"], numbered=False) == (
        "what is {passages}? | {query} {} | {other}"
    )
    assert filled("{passages}", "", ["a\n[2] b", "c"], numbered=True) == "[1] a [2] b\n[2] c"
    assert filled("{passages}", "", ["a"], numbered=True) == "[1] a"


def test_the_built_in_ones_fit_scale_and_batch():
    for scale in ("yes-no", "grades"):
        one, many = built_in(scale, 1), built_in(scale, 4)
        assert template("", built_in(scale, 1)) == one and template(one, built_in(scale, 1)) == one
        assert one.count("{query}") == one.count("{passages}") == many.count("{passages}") == 1
        assert "its number, a colon" in many and "colon" not in one


def test_a_template_from_a_file(tmp_path):
    path = tmp_path / "prompt.txt"
    path.write_text("Q {query} P {passages}", encoding="utf-8")
    assert template(str(path), built_in("yes-no", 1)) == "Q {query} P {passages}"
    path.write_text("Q {query}", encoding="utf-8")
    with pytest.raises(ValueError, match=r"prompt: missing \{passages\}; add what is missing where its"):
        template(str(path), built_in("yes-no", 1))
    with pytest.raises(ValueError, match=r"none\.txt cannot be read \(No such file or directory\); use a text file"):
        template(str(tmp_path / "none.txt"), built_in("yes-no", 1))


def test_forms_are_asked_for_in_turn() -> None:
    assert asked_forms(["question", "a title"], 1, 3) == f"1. a title\n2. {FORMS['question']}\n3. a title"


def test_examples_as_a_message_has_them() -> None:
    lines = [{"passage": "The bridge is old.", "queries": ["how old", "bridge age"]}, {"passage": "b", "queries": "q"}]
    text = "\n\n".join(map(json.dumps, lines))
    first = "Passage:\nThe bridge is old.\n\nQueries:\n1. how old\n2. bridge age\n\n"
    assert shown_examples(text) == first + "Passage:\nb\n\nQueries:\n1. q\n\n" and shown_examples("") == ""


@pytest.mark.parametrize(
    "line", ["{", "[]", '{"passage": "a"}', '{"passage": "a", "queries": []}', '{"passage": " ", "queries": "q"}']
)
def test_a_broken_example_is_named(line: str) -> None:
    with pytest.raises(ValueError, match="examples: line 2 is not a JSON object with `passage` and `queries`: "):
        shown_examples('{"passage": "a", "queries": "q"}\n' + line)


def cases(by_score: dict[float | None, list[str]]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize(("answer", "score"), [(one, score) for score in by_score for one in by_score[score]])


THOUGHT = ("<think>no... yes? no</think>\nyes", "<think>yes, yes")

DENIED = ("not yes", "It is not a yes", "I cannot say yes", "It doesn't say yes", "neither: yes")


@cases(
    {
        1.0: ["yes", "The answer is: YES", "yes, yes", "Yes, no doubt", "**Yes**, and there is no doubt", *THOUGHT],
        0.0: ["No."],
        None: ["It could be yes or no", "yes no", "Yes, or no?", "no/yes", "yesterday's news", "", "2", *DENIED],
    }
)
def test_yes_or_no(answer: str, score: float | None) -> None:
    assert verdicts(answer, 1, "yes-no", numbered=False) == [score]


@cases(
    {
        0.0: ["0"],
        1.0: ["1 or 2"],
        2.0: ["##final score: 2", "2/3", "2 out of 3", "grade-2"],
        3.0: ["Grade: 3"],
        None: ["score 2 or 3", "4", "-1", "Grade: -1", "12", "0.5", "yes", "not 3"],
    }
)
def test_grades(answer: str, score: float | None) -> None:
    assert verdicts(answer, 1, "grades", numbered=False) == [score]


def test_several_passages_by_their_numbers() -> None:
    assert verdicts("[2] yes\nPassage 1: no\n3. maybe", 4, "yes-no", numbered=True) == [0.0, 1.0, None, None]
    assert verdicts("1: yes\n1: no\n2: yes\n2: yes\n9: no", 2, "yes-no", numbered=True) == [None, 1.0]
    assert verdicts("1: 3\n2: 0", 2, "grades", numbered=True) == [3.0, 0.0]
    assert verdicts("yes", 2, "yes-no", numbered=True) == [None, None]


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
