from hardneg.encoders.spec import FullSpec, ModelSpec


def test_a_good_spec_has_no_problems():
    assert ModelSpec("somewhere").problems() == []


def test_every_mistake_is_told():
    spec = ModelSpec(" ", pooling="max", projection=0, similarity="l2", query_length=2, document_length=0)  # type: ignore[arg-type]
    fields = ["name", "pooling", "similarity", "projection", "query_length", "document_length"]
    assert [line.split()[0] for line in spec.problems()] == fields


def test_prompt_and_length_by_kind():
    spec = FullSpec("x", query_prompt="q: ", document_prompt="d: ", query_length=8, document_length=9)
    assert (spec.prompt("query"), spec.length("query")) == ("q: ", 8)
    assert (spec.prompt("document"), spec.length("document")) == ("d: ", 9)
