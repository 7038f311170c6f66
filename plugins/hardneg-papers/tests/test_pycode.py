"""Tests of the dataset `pycode` on packages written for the test."""

import ast
from collections import defaultdict
from pathlib import Path

import pytest
from hardneg_papers.installed_code import PyCode, PyCodeCollection, PyNames, PyNamesCollection

from hardneg.datasets.pydocs import PyDocs, SourceFile, code_of
from hardneg.formats.texts import answer_spans
from hardneg.records import Answers, Document, HasAnswers, HasGroups, Judgement, Membership, Query
from hardneg.testing import DatasetTests

BODY = "total = first + second * third - fourth / fifth"
TOOLS = f'''"""Tools of the trade."""

raise RuntimeError("imported")


def mean(values):
    """Compute the arithmetic
    mean. Nothing is weighted.

    Returns: a number
    """
    # the sum first
    return sum(values) / len(values) if values else None or 0


class Frame:
    """Hold rows of numbers."""

    width = 3
    height = 4

    @property
    def spread(self):
        """Say how far the rows are apart."""
        {BODY}

        class Inner:
            """Hold what is inside."""

            {BODY}

    def plain(self):
        {BODY}

    def again(self):
        """Say how far the rows are apart"""
        return self.plain() + self.plain() * self.plain() - self.plain() + 1

    def copy(self):
        """Compute the same mean once more."""
        return sum(self) / len(self) if self else None or 0 or self.width
'''
OTHER = f'''"""Another module."""


def copied(values):
    """Compute the mean of others."""
    return "copy of the package beside it", 1, 2, 3, 4


def shared(values):
    """Hold rows of numbers"""
    {BODY}


def shared(values):
    """Stand here a second time."""
    {BODY} + 1


def short(values):
    """Return the values that came."""
    return values


def signature(values):
    """signature(values) -> int"""
    {BODY} + 2


def words(values):
    """Stop."""
    {BODY} + 3


def repeats(values):
    """Add one to it."""
    # add one to it
    {BODY} + 4
'''


def write_packages(folder: Path) -> tuple[str, str]:
    for package in ("onecode", "twocode"):
        (folder / package / "tests").mkdir(parents=True)
        (folder / package / "__init__.py").write_text("")
        (folder / package / "tests" / "test_tools.py").write_text(TOOLS)
    (folder / "onecode" / "tools.py").write_text(TOOLS)
    (folder / "onecode" / "other.py").write_text(OTHER)
    (folder / "onecode" / "broken.py").write_text('def f(:\n """x"""')
    (folder / "twocode" / "other.py").write_text(OTHER.replace("\n    return", "\n\n    return"))
    return "onecode", "twocode"


@pytest.fixture
def packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[str, str]:
    monkeypatch.syspath_prepend(tmp_path)
    return write_packages(tmp_path)


def parsed(source: str) -> dict[str, str]:
    """Return the code of each documented definition in the text `source`, by name."""
    file = SourceFile(source.encode())
    nodes = [node for node in ast.walk(ast.parse(source.encode())) if isinstance(node, ast.FunctionDef | ast.ClassDef)]
    return {node.name: code_of(node, file) for node in nodes if ast.get_docstring(node)}


def test_passages_queries_and_groups(packages: tuple[str, str]) -> None:
    collection = PyCode(packages).load()
    passages = {document.doc_id: document.text for document in collection.documents()}
    assert passages == {
        "onecode.tools.mean": "def mean(values):\n    # the sum first\n"
        "    return sum(values) / len(values) if values else None or 0",
        "onecode.tools.Frame": "class Frame:\n    width = 3\n    height = 4\n    @property\n    def spread(self):\n"
        f"        ...\n    def plain(self):\n        {BODY}\n"
        "    def again(self):\n        ...\n    def copy(self):\n        ...",
        "onecode.tools.Frame.spread": f"def spread(self):\n    {BODY}\n    class Inner:\n        ...",
        "onecode.tools.Frame.spread.Inner": f"class Inner:\n    {BODY}",
        "onecode.tools.Frame.again": "def again(self):\n"
        "    return self.plain() + self.plain() * self.plain() - self.plain() + 1",
        "onecode.tools.Frame.copy": "def copy(self):\n"
        "    return sum(self) / len(self) if self else None or 0 or self.width",
        "onecode.other.copied": 'def copied(values):\n    return "copy of the package beside it", 1, 2, 3, 4',
        "onecode.other.shared": f"def shared(values):\n    {BODY}",
    }
    assert all(document.title == "" for document in collection.documents())
    asked = {query.query_id: query.text for split in collection.splits() for query in collection.queries(split)}
    told = ["Compute the arithmetic mean.", "Say how far the rows are apart", "Hold what is inside."]
    told += ["Compute the same mean once more.", "Compute the mean of others."]
    names = ("tools.mean", "tools.Frame.again", "tools.Frame.spread.Inner", "tools.Frame.copy", "other.copied")
    assert asked == dict(zip((f"onecode.{name}" for name in names), told, strict=True))
    judgements = {judgement for split in collection.splits() for judgement in collection.qrels(split)}
    rows = {("onecode.tools.Frame.again", "onecode.tools.Frame.spread"), *((name, name) for name in asked)}
    assert judgements == {Judgement(query_id, doc_id, 1) for query_id, doc_id in rows}
    frame = "onecode.tools.Frame"
    assert isinstance(collection, HasGroups)
    own = {f"{frame}.{name}": frame for name in ("spread", "again", "copy")} | {frame: frame}
    own |= {f"{frame}.spread.Inner": f"{frame}.spread.Inner", "onecode.tools.mean": "onecode.tools"}
    own |= {f"onecode.other.{name}": "onecode.other" for name in ("copied", "shared")}
    assert set(collection.groups("document")) == {Membership(*pair) for pair in own.items()}
    groups = dict(collection.groups("query"))
    assert set(groups) == set(asked) and groups["onecode.tools.Frame.again"] == frame


def test_what_is_left_out_is_counted(packages: tuple[str, str]) -> None:
    """Reasons that both packages have count twice; the second package's copies of kept code are left out as copies."""
    assert PyCode(packages).load().left_out == {
        "test files": 2,
        "files that do not parse": 1,
        "docstrings with a duplicate name": 2,
        "definitions with fewer than 10 words of code": 2,
        "definitions with the same code as another": 2,
        "docstrings that start with a heading, a directive or a signature": 2,
        "docstrings whose first sentence is not 3 to 40 words long": 2,
        "docstrings that repeat their first sentence": 2,
        "ambiguous sentences (for passages of several groups, which stay)": 2,
        "passages above the cap of 10000": 0,
    }


def test_bytes_of_other_alphabets_ends_of_lines_and_one_line() -> None:
    assert parsed('class Ä:\r\n  """Über."""; x = "é"; y = 1  # ü\r\n\r\n  z = 2\r\n') == {
        "Ä": 'class Ä:\n  ; x = "é"; y = 1  # ü\n  z = 2'
    }
    assert parsed('def f(): "Do it."\n') == {"f": "def f():"}
    assert parsed('if 1:\n    def g():\n        """Do\n        it."""\n        return """a\n  b"""\n') == {
        "g": 'def g():\n    return """a\n  b"""'
    }


def test_the_cap_keeps_whole_groups_and_a_higher_one_only_adds(packages: tuple[str, str]) -> None:
    before, sizes, members = set[str](), set[int](), defaultdict[str, set[str]](set)
    for member, group in PyCode(packages).load().groups("document"):
        members[group].add(member)
    for cap in range(1, 9):
        ids = {document.doc_id for document in PyCode(packages, max_passages=cap).load().documents()}
        assert before <= ids and len(ids) <= cap
        sizes.add(len(ids))
        before = ids
        assert all(doc_ids <= ids or not doc_ids & ids for doc_ids in members.values())
    assert len(sizes) >= 3 and len(before) == 8


def test_a_group_is_in_one_split_whatever_the_shares(packages: tuple[str, str]) -> None:
    for seed in range(5):
        collection = PyCode(packages, seed=seed, dev_share=0.3, test_share=0.3).load()
        groups = dict(collection.groups("query"))
        asked = [(query.query_id, split) for split in collection.splits() for query in collection.queries(split)]
        splits = {(groups[query_id], split) for query_id, split in asked}
        assert len(splits) == len(set(groups.values()))


def test_fingerprint(packages: tuple[str, str], tmp_path: Path) -> None:
    loader = PyCode(packages)
    before = loader.fingerprint()
    assert before == PyCode(packages).fingerprint() != PyCode(packages[:1]).fingerprint()
    assert PyCode(packages, max_passages=7).fingerprint() != before
    (tmp_path / "onecode" / "other.py").write_text(OTHER + "\n")
    assert loader.fingerprint() != before


class TestPyCode(DatasetTests):
    plugin = PyCode(packages=("yaml", "typer"), max_passages=60)


@pytest.mark.slow
def test_the_default_dataset() -> None:
    loader = PyCode()
    collection = loader.load()
    assert 9_800 <= len(collection.passages) <= 10_000
    assert isinstance(collection, PyCodeCollection)
    counts = {split: len(queries) for split, queries in collection.by_split.items()}
    assert counts["test"] >= 800 and counts["dev"] >= 300 and counts["train"] >= 6_000
    for split, count in loader.query_hint().items():
        assert count == pytest.approx(counts[split], rel=0.3)


class TestPyNames(DatasetTests):
    plugin = PyNames(packages=("yaml", "typer"), max_passages=40)


def test_an_answer_is_a_name_that_its_own_passage_tells() -> None:
    passages = [
        Document("m.mean", "mean(x) gives the average"),
        Document("m.Frame.mean", "the average of a frame"),
        Document("m.Frame._sum_all", "calls self._sum_all()"),
        Document("m.total", "calls self.sum"),
    ]
    queries = [
        (Query("m.mean", "the average"), ["m.mean", "m.Frame.mean"]),
        (Query("m.Frame._sum_all", "the sum"), ["m.Frame._sum_all"]),
        (Query("m.total", "all in all"), ["m.total"]),
    ]
    collection = PyNamesCollection(passages, {"test": queries}, {}, {})
    assert isinstance(collection, HasAnswers)
    assert list(collection.answers("test")) == [
        Answers("m.mean", ("mean",)),
        Answers("m.Frame._sum_all", ("_sum_all",)),
        Answers("m.total", ()),
    ]


def test_it_is_pydocs_with_answers() -> None:
    loader, plain = PyNames(packages=("networkx",)), PyDocs(packages=("networkx",))
    collection, docs = loader.load(), plain.load()
    assert list(collection.documents()) == list(docs.documents()) and collection.splits() == docs.splits()
    assert loader.fingerprint() != plain.fingerprint()
    texts = {document.doc_id: document.text for document in collection.documents()}
    for split in collection.splits():
        told: dict[str, list[str]] = {}
        for judgement in collection.qrels(split):
            told.setdefault(judgement.query_id, []).append(texts[judgement.doc_id])
        answered = [answer for answer in collection.answers(split) if answer.texts]
        assert 0 < len(answered) < len(told)
        assert all(any(answer_spans(text, answer.texts) for text in told[answer.query_id]) for answer in answered)
