"""Templates and what is put into them."""

import pytest
from hardneg_judge.prompts import built_in, filled, template


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
    with pytest.raises(ValueError, match=r"none\.txt cannot be read \(No such file or directory\): give a file"):
        template(str(tmp_path / "none.txt"), built_in("yes-no", 1))
