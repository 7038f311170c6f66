"""Templates and what is put into them."""

import json

import pytest
from hardneg_judge.prompts import FORMS, built_in, filled, listed, shown_examples, template


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
    with pytest.raises(ValueError, match=r"prompt: has no \{passages\}: write where the texts go"):
        template(str(path), built_in("yes-no", 1))
    with pytest.raises(ValueError, match=r"none\.txt cannot be read \(No such file or directory\): give a text file"):
        template(str(tmp_path / "none.txt"), built_in("yes-no", 1))


def test_forms_are_asked_for_in_turn() -> None:
    assert listed(["question", "a title"], 1, 3) == f"1. a title\n2. {FORMS['question']}\n3. a title"


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
