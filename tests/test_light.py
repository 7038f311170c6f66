"""What is to be quick loads none of the large libraries."""

import pytest
from processes import loaded

LIBRARIES = "torch transformers sentence_transformers pyserini jnius faiss ranx scipy"
OURS = "formats.runs formats.collection evaluation.metrics mining.choosing stages.search"
WORKING = " ".join(["torch jnius numpy pyarrow regex", *(f"hardneg.{name}" for name in OURS.split())])
FUNCTIONS = ("encode", "evaluate", "fuse", "mine", "rerank", "report", "search", "train")


@pytest.mark.parametrize(
    ("words", "heavy"),
    [
        ("--help", f"{LIBRARIES} hardneg.fields numpy pyarrow"),
        ("index --help", "hardneg.fields numpy pyarrow"),
        ("recipe list", LIBRARIES),
        ("plugins list", LIBRARIES),
        ("data list", "torch transformers datasets scipy ranx ir_datasets"),
        *((f"{name} --help", WORKING) for name in FUNCTIONS),
    ],
)
def test_a_command_that_looks_around(words: str, heavy: str) -> None:
    program = f"import sys; sys.argv = {['hardneg', *words.split()]}; from hardneg.cli.main import main; main()"
    assert loaded(program, heavy) == set()


@pytest.mark.parametrize(
    ("program", "heavy"),
    [
        ("import hardneg.cli.main", "torch transformers matplotlib sklearn scipy pydantic numpy yaml rich"),
        ("import hardneg.cli.commands, hardneg.cli.console", "torch numpy ranx numba scipy pyarrow matplotlib"),
        ("import hardneg.encoders.open.resolved, hardneg.encoders.spec", "torch transformers sentence_transformers"),
        ("import hardneg.runtime.devices as devices; devices.check_device('cpu')", "torch"),
        ("import sys; sys.modules['pytest'] = None; import hardneg.testing", "torch"),
    ],
)
def test_a_module(program: str, heavy: str) -> None:
    assert loaded(program, heavy) == set()
