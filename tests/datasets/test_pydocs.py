"""The embedded dataset, on made packages and on the installed ones."""

import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

import pytest

from hardneg.datasets.pydocs import PyDocs, PyDocsCollection, package_version
from hardneg.formats.collection import write_collection
from hardneg.records import MissingDependency, UsageError
from hardneg.runtime import Silent
from hardneg.store import digest, plugin_identity

WORDS = " ".join(f"word{i}" for i in range(25))
TOOLS = f'''"""Tools of the trade.

{WORDS} for tools.
"""

raise RuntimeError("imported")


def mean(x):
    """Compute the   arithmetic
    mean.

    Returns the average. {WORDS}
    """

    class Inner:
        """An inner class here.

        {WORDS}
        """


class Frame:
    """Short one."""

    if True:
        async def mean(self):
            """Compute the arithmetic mean

            Of a frame. {WORDS}
            """
    else:
        def mean(self):
            """Compute something else entirely.

            {WORDS}
            """

    def parameters(self):
        """Parameters
        ----------
        x : int

        {WORDS}
        """

    def signature(self):
        """signature(x, y=3) -> int

        {WORDS}
        """

    def repeats(self):
        """Say it again.

        To say it again: {WORDS}
        """

    def copy(self):
        """An inner class here.

        {WORDS}
        """
'''


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A package of one documented module, tests, a copy, and a file that does not parse."""
    package = tmp_path / "madepackage"
    for folder in ("tests", "sub/testing"):
        (package / folder).mkdir(parents=True)
    for name in ("tools.py", "tests/test_tools.py", "sub/testing/tools.py", "sub/conftest.py", "zcopy.py", "a-b.py"):
        (package / name).write_text(TOOLS)
    (package / "__init__.py").write_text("")
    (package / "sub" / "__init__.py").write_text(f'"""The sub package.\n\n{WORDS} sub\n"""')
    (package / "broken.py").write_text('def f(:\n """x"""')
    (package / "nul.py").write_bytes(b'"""x"""\0')
    (package / "escape.py").write_text('"""\\d"""')
    monkeypatch.syspath_prepend(tmp_path)
    return "madepackage"


def everything(collection: PyDocsCollection) -> list[object]:
    parts = [(list(collection.queries(split)), list(collection.qrels(split))) for split in collection.splits()]
    return [list(collection.documents()), parts]


def test_what_is_taken_and_what_is_not(made: str) -> None:
    collection = PyDocs((made,)).load()
    passages = {document.doc_id: document.text for document in collection.documents()}
    assert passages == {
        "madepackage.sub": f"{WORDS} sub",
        "madepackage.tools": f"{WORDS} for tools.",
        "madepackage.tools.Frame.mean": f"Of a frame. {WORDS}",
        "madepackage.tools.mean": f"Returns the average. {WORDS}",
        "madepackage.tools.mean.Inner": WORDS,
    }
    assert all(document.title == "" for document in collection.documents())
    queries = [query for split in collection.splits() for query in collection.queries(split)]
    asked = {"The sub package", "Tools of the trade", "Compute the arithmetic mean", "An inner class here"}
    assert {query.text.rstrip(".") for query in queries} == asked
    judgements = [judgement for split in collection.splits() for judgement in collection.qrels(split)]
    assert {judgement.doc_id for judgement in judgements} == set(passages)
    means = {judgement.query_id for judgement in judgements if judgement.doc_id.endswith(".mean")}
    assert len(means) == 1
    assert collection.left_out == {
        "test files": 3,
        "files that are not modules": 1,
        "copies of another file": 1,
        "files that do not parse": 2,
        "docstrings with a duplicate name": 1,
        "docstrings with fewer than 20 words after the first paragraph": 2,
        "docstrings that start with a heading, a directive or a signature": 2,
        "docstrings that repeat their first paragraph": 1,
        "duplicate docstrings": 1,
        "passages above the cap of 6000": 0,
    }
    assert "left out: 3 test files" in collection.notes()


def test_fingerprint_of_a_package_without_a_version(made: str, tmp_path: Path) -> None:
    loader = PyDocs((made,))
    before = loader.fingerprint()
    assert loader.fingerprint() == before != PyDocs((made,), max_passages=7).fingerprint()
    (tmp_path / made / "tools.py").write_text(TOOLS + "\n")
    assert loader.fingerprint() != before


@pytest.mark.parametrize(
    ("loader", "error", "message"),
    [
        (PyDocs(("nosuchpackage",)), MissingDependency, "'nosuchpackage' is not installed"),
        (PyDocs(("os.path",)), UsageError, "top-level name"),
        (PyDocs(("sys",)), MissingDependency, "'sys' is not installed"),
        (PyDocs(()), UsageError, "pydocs: packages must not be empty"),
        (PyDocs(max_passages=0), UsageError, "max_passages must be at least 1"),
        (PyDocs(test_share=0.0), UsageError, "test_share must be above 0"),
        (PyDocs(dev_share=0.5, test_share=0.5), UsageError, "with a sum below 1"),
    ],
)
def test_refused(loader: PyDocs, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        loader.load()


def test_shares_of_the_splits(made: str) -> None:
    def tests(share: float) -> set[str]:
        return {query.query_id for query in PyDocs((made,), test_share=share).load().queries("test")}

    few, half, most = tests(0.01), tests(0.5), tests(0.94)
    assert few <= half <= most and few < most
    assert PyDocs((made,), 1000, test_share=0.5).query_hint() == {"train": 445, "dev": 55, "test": 500}


def test_shares_count_in_the_identity_where_they_are_not_the_usual(made: str) -> None:
    """Keys of collections that were made before there were shares stay as they are."""
    usual, other = PyDocs((made,)), PyDocs((made,), test_share=0.5)
    options = {"packages", "max_passages", "min_passage_words", "query_words", "seed"}
    assert set(plugin_identity("pydocs", usual)["options"]) == options
    assert set(plugin_identity("pydocs", other)["options"]) == options | {"test_share"}
    assert usual.fingerprint() != other.fingerprint()
    without = {name: value for name, value in asdict(usual).items() if name in options}
    told = ["pydocs", 1, without, [[made, package_version(made)]], list(sys.version_info[:2])]
    assert usual.fingerprint() == digest(told)


@pytest.mark.slow
def test_a_higher_cap_only_adds() -> None:
    small, large = (PyDocs(("numpy",), max_passages=cap).load() for cap in (300, 500))
    ids = [{document.doc_id for document in collection.documents()} for collection in (small, large)]
    assert (len(ids[0]), len(ids[1])) == (300, 500)
    assert ids[0] < ids[1]
    for split in small.splits():
        assert set(small.queries(split)) <= set(large.queries(split))
        assert set(small.qrels(split)) <= set(large.qrels(split))
    assert everything(PyDocs(("numpy",), max_passages=300).load()) == everything(small)
    assert everything(PyDocs(("numpy",), max_passages=300, seed=1).load()) != everything(small)


@pytest.mark.slow
def test_the_default_dataset(tmp_path: Path) -> None:
    loader = PyDocs()
    collection = loader.load()
    counts = write_collection(collection, tmp_path, Silent())
    assert counts["documents"] == 6000
    assert counts["splits"]["test"]["queries"] >= 600
    assert counts["splits"]["dev"]["queries"] >= 270
    assert counts["splits"]["train"]["queries"] >= 4000
    for split, told in loader.query_hint().items():
        assert told == pytest.approx(counts["splits"][split]["queries"], rel=0.15)
    for count in counts["splits"].values():
        assert set(count) == {"queries", "judgements", "highest_grade", "without_relevant"}
        assert count["judgements"] > count["queries"]
        assert count["without_relevant"] == 0
    queries = [query for split in collection.splits() for query in collection.queries(split)]
    texts = [query.text.casefold().rstrip(" .:") for query in queries]
    assert len(texts) == len(set(texts))
    passages = {document.doc_id: document.text.casefold() for document in collection.documents()}
    for query, text in zip(queries, texts, strict=True):
        assert text not in passages[query.query_id]


def test_nothing_is_imported() -> None:
    program = """
import sys
from pydantic import TypeAdapter
from hardneg.datasets.pydocs import PyDocs
TypeAdapter(PyDocs).dump_python(PyDocs())  # options are checked and read by pydantic
loader = PyDocs(("sklearn", "networkx", "matplotlib"), max_passages=50)
before = set(sys.modules)
loader.load()
loader.fingerprint()
new = {name.split(".")[0] for name in set(sys.modules) - before}
print(sorted(new - set(sys.stdlib_module_names)))
print(sorted({"sklearn", "networkx", "matplotlib", "torch", "datasets"} & sys.modules.keys()))
"""
    done = subprocess.run([sys.executable, "-W", "error", "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split("\n")[:2] == ["[]", "[]"]
    assert done.stderr == ""
