import subprocess
import sys

from hardneg.encoders.spec import FullSpec, ModelSpec


def test_a_good_spec_has_no_problems():
    assert ModelSpec("somewhere").problems() == []


def test_every_mistake_is_told():
    spec = ModelSpec(" ", pooling="max", projection=0, similarity="l2", query_length=2, document_length=0)  # type: ignore[arg-type]
    assert [line.split()[0] for line in spec.problems()] == [
        "name",
        "pooling",
        "similarity",
        "projection",
        "query_length",
        "document_length",
    ]


def test_prompt_and_length_by_kind():
    spec = FullSpec("x", query_prompt="q: ", document_prompt="d: ", query_length=8, document_length=9)
    assert (spec.prompt("query"), spec.length("query")) == ("q: ", 8)
    assert (spec.prompt("document"), spec.length("document")) == ("d: ", 9)


def test_a_model_is_resolved_without_torch_and_sentence_transformers():
    code = (
        "import sys; import hardneg.encoders.open.resolved, hardneg.encoders.spec;"
        "print(sorted({'torch', 'transformers', 'sentence_transformers'} & sys.modules.keys()))"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "[]\n"
