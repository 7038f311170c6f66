import pytest

from hardneg.store import canonical, digest, tree_digest


def test_the_order_of_keys_does_not_matter():
    assert digest({"a": 1, "b": [1, 2]}) == digest({"b": [1, 2], "a": 1})
    assert digest([1, 2]) != digest([2, 1])


def test_digests_are_pinned():
    assert digest({"stage": "mine", "depth": 200}) == "940b0854ac8692c9f986bd7e978314db"


def test_what_json_cannot_hold_is_an_error():
    with pytest.raises(ValueError):
        canonical(float("nan"))
    with pytest.raises(TypeError):
        canonical({"a": object()})


def test_a_tree_is_named_by_its_paths_and_bytes(tmp_path):
    for place in ("one", "two"):
        (tmp_path / place / "sub").mkdir(parents=True)
        (tmp_path / place / "sub" / "x").write_text("same")
    assert tree_digest(tmp_path / "one") == tree_digest(tmp_path / "two")
    (tmp_path / "two" / "sub" / "x").write_text("sam!")
    assert tree_digest(tmp_path / "one") != tree_digest(tmp_path / "two")
