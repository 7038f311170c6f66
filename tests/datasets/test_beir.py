"""Folders in BEIR's form."""

import gzip
from collections.abc import Callable
from pathlib import Path

import pytest

from hardneg.datasets.beir import Beir
from hardneg.formats.collection import StoredCollection, write_collection
from hardneg.records import DataError, Document, Judgement, Query
from hardneg.runtime import Silent

CORPUS = '{"_id": "d1", "title": "A", "text": "one"}\n{"_id": "d2", "text": "two \\u00e9", "metadata": {}}\n'
QUERIES = '{"_id": "q3", "text": "c"}\n{"_id": "q1", "text": "a"}\n{"_id": "q2", "text": "b"}\n'
HEADER = "query-id\tcorpus-id\tscore\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "qrels").mkdir()
    (tmp_path / "corpus.jsonl").write_text(CORPUS)
    (tmp_path / "queries.jsonl").write_text(QUERIES)
    (tmp_path / "qrels" / "test.tsv").write_text(f"{HEADER}q1\td1\t1\nq3\td2\t2\n")
    (tmp_path / "qrels" / "train.tsv").write_text(f"{HEADER}q1\td1\t1\n")
    return tmp_path


def test_all_parts(folder):
    loader = Beir(str(folder))
    collection = loader.load()
    assert list(collection.documents()) == [Document("d1", "one", "A"), Document("d2", "two é")]
    assert collection.splits() == ["train", "test"]
    assert list(collection.queries("test")) == [Query("q3", "c"), Query("q1", "a")]
    assert list(collection.queries("train")) == [Query("q1", "a")]
    assert list(collection.qrels("test")) == [Judgement("q1", "d1", 1), Judgement("q3", "d2", 2)]
    assert collection.notes() == [f"{folder}/queries.jsonl: 1 query without judgements left out"]
    assert loader.size_hint() == 2
    assert loader.query_hint() == {"train": 2, "test": 3}  # with their heads


def test_gzip_reads_the_same(folder):
    plain = Beir(str(folder)).load()
    expected = (list(plain.documents()), list(plain.queries("test")), list(plain.qrels("test")))
    for path in [folder / "corpus.jsonl", folder / "queries.jsonl", *folder.glob("qrels/*")]:
        path.with_name(f"{path.name}.gz").write_bytes(gzip.compress(path.read_bytes()))
        path.unlink()
    packed = Beir(str(folder))
    collection = packed.load()
    assert (list(collection.documents()), list(collection.queries("test")), list(collection.qrels("test"))) == expected
    assert collection.splits() == ["train", "test"]
    assert packed.size_hint() == 2


def test_hidden_files_are_no_splits(folder):
    (folder / "qrels" / "._test.tsv").write_bytes(b"\0\5\x16\7")
    (folder / "qrels" / ".tsv").touch()
    assert Beir(str(folder)).load().splits() == ["train", "test"]


def test_queries_of_long_qrels(folder):
    lines = (f"q{query}\td{document}\t1\n" for query in range(30_000) for document in range(3))
    (folder / "qrels" / "train.tsv").write_text("query-id\tcorpus-id\tscore\n" + "".join(lines))
    assert Beir(str(folder)).query_hint()["train"] == pytest.approx(30_000, rel=0.01)
    (folder / "qrels" / "train.tsv").write_text("q1 0 d1 1\nq1 0 d2 1\n")
    assert Beir(str(folder)).query_hint()["train"] == 1


def edit(path: str, old: str, new: str) -> Callable[[Path], None]:
    def apply(folder: Path) -> None:
        (folder / path).write_text((folder / path).read_text().replace(old, new))

    return apply


def groups(lines: str) -> Callable[[Path], object]:
    return lambda folder: (folder / "groups.tsv").write_text(lines)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (edit("corpus.jsonl", '"two', "two"), "corpus.jsonl:2: not JSON"),
        (edit("corpus.jsonl", '"text": "two', '"body": "two'), "corpus.jsonl:2: missing field 'text'"),
        (edit("corpus.jsonl", '"one"', "1"), "corpus.jsonl:1: 'text' must be a string, not 1"),
        (edit("corpus.jsonl", '"A"', "1"), "corpus.jsonl:1: 'title' must be a string, not 1"),
        (edit("corpus.jsonl", "d2", "d 2"), "corpus.jsonl:2: id 'd 2'"),
        (edit("corpus.jsonl", "\\u00e9", "\\ud800"), "corpus.jsonl:2: 'text' contains an unpaired surrogate"),
        (edit("corpus.jsonl", "{", "[" * 100_000 + "{"), "corpus.jsonl:1: expected one JSON"),
        (edit("corpus.jsonl", CORPUS, "3\n"), "corpus.jsonl:1: expected a JSON object"),
        (edit("corpus.jsonl", "d2", "d1"), "document id 'd1' occurs twice"),
        (edit("queries.jsonl", "q2", "q1"), "queries.jsonl:3: query id 'q1' is repeated"),
        (edit("queries.jsonl", '"a"', '" "'), "queries.jsonl:2: query 'q1' has no text"),
        (edit("qrels/test.tsv", "\t2\n", "\ttwo\n"), "test.tsv:3: relevance 'two'"),
        (edit("qrels/train.tsv", "\td1", ""), "train.tsv:2: expected 3 columns as in the first line, found 2"),
        (lambda folder: (folder / "corpus.jsonl").unlink(), "no corpus.jsonl or corpus.jsonl.gz"),
        (lambda folder: (folder / "qrels").rename(folder / "x"), "no qrels/SPLIT.tsv"),
        (groups("d1\ta\nd1\tb\n"), "groups.tsv:2: d1 is in two groups, 'a' and 'b'; keep one"),
        (groups("d1\ta\nd2 a\n"), "groups.tsv:2: no tab"),
    ],
)
def test_mistakes_are_one_line_with_the_place(folder, change, message, tmp_path_factory):
    change(folder)
    with pytest.raises(DataError) as raised:
        write_collection(Beir(str(folder)).load(), tmp_path_factory.mktemp("stored"), Silent())
    assert message in str(raised.value)
    assert "\n" not in str(raised.value)


def test_no_folder():
    with pytest.raises(DataError, match="no such folder"):
        Beir("/nowhere").load()


def test_fingerprint_follows_content(folder):
    before = Beir(str(folder)).fingerprint()
    (folder / "README.md").write_text("is not read")
    assert Beir(str(folder)).fingerprint() == before
    seen = {before}
    for name in ("corpus.jsonl", "queries.jsonl", "qrels/train.tsv"):
        with (folder / name).open("a") as file:
            file.write("\n")
        seen.add(Beir(str(folder)).fingerprint())
    assert len(seen) == 4


REAL = {
    "scifact": (5183, {"train": 649, "dev": 160, "test": 300}),
    "cranfield": (1398, {"train": 135, "dev": 45, "test": 45}),
    "msmarco-dl1920": (28606, {"dev": 43, "test": 54}),
}


@pytest.mark.parametrize("name", REAL)
def test_real_collections(test_data, tmp_path, name):
    documents, queries = REAL[name]
    loader = Beir(str(test_data / name))
    counts = write_collection(loader.load(), tmp_path, Silent())
    assert counts["documents"] == documents
    assert {split: count["queries"] for split, count in counts["splits"].items()} == queries
    assert counts["notes"] == []
    assert abs(loader.size_hint() - documents) < documents * 0.1
    stored = StoredCollection.open(tmp_path)
    ids = stored.corpus.doc_ids[:]
    assert stored.corpus.rows(ids).tolist() == list(range(documents))
    assert sum(len(block) for block in stored.corpus.blocks()) == documents


def stored_groups(folder: Path, target: Path) -> tuple[dict[str, str], dict[str, str]]:
    counts = write_collection(Beir(str(folder)).load(), target, Silent())
    stored = StoredCollection.open(target)
    groups = stored.groups("document"), stored.groups("query")
    sizes = dict(zip(("documents", "queries"), map(len, groups), strict=True))
    assert counts.get("groups", {"documents": 0, "queries": 0}) == sizes
    return groups


def test_groups_of_passages_and_queries(folder, tmp_path):
    before = Beir(str(folder)).fingerprint()
    rows = ["id\tfocus\ttype", "d1\ta  disease\tcause", "d2\t\t", "q1\ta  disease\t", "q2\tb", "d9\tb"]
    (folder / "groups.tsv").write_text("\n".join(rows) + "\n")
    assert stored_groups(folder, tmp_path / "one") == ({"d1": "a disease"}, {"q1": "a disease"})
    (folder / "query-groups.tsv").write_text("q1\tc\nd2\td\n")
    assert stored_groups(folder, tmp_path / "two") == ({"d1": "a disease"}, {"q1": "c"})
    assert Beir(str(folder)).fingerprint() != before


def test_documents_alone_of_a_folder_without_qrels(folder):
    whole, judged = list(Beir(str(folder)).load().documents()), Beir(str(folder)).fingerprint()
    for path in folder.glob("qrels/*"):
        path.unlink()
    with pytest.raises(DataError, match=r"no qrels/SPLIT\.tsv"):
        Beir(str(folder)).load()
    loader = Beir(str(folder), judged=False)
    collection = loader.load()
    assert list(collection.documents()) == whole and not collection.splits() and not collection.with_answers()
    assert not list(collection.groups("document")) and not list(collection.answers("test"))
    assert loader.size_hint() == 2 and loader.query_hint() == {}
    assert loader.fingerprint() not in (judged, "")
