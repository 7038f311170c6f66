"""The queries of one split."""

import pytest

from hardneg.datasets.beir import Beir
from hardneg.formats.collection import (
    Queries,
    StoredCollection,
    read_answers,
    write_answers,
    write_collection,
    write_queries,
)
from hardneg.records import Answers, ArtifactError, DataError, Query
from hardneg.runtime import Silent


def test_order_is_kept_over_many_batches(tmp_path):
    queries = [Query(f"q{(i * 7919) % 20000}", f"text {i} é") for i in range(20000)]
    assert write_queries(tmp_path / "train.arrow", iter(queries)) == [query.query_id for query in queries]
    stored = Queries.open(tmp_path / "train.arrow")
    assert list(stored) == queries
    assert len(stored) == 20000
    assert stored.texts[3] == "text 3 é"


@pytest.mark.parametrize(
    ("queries", "message"),
    [
        ([Query("q1", "a"), Query("q1", "a")], "'q1' occurs twice"),
        ([Query("q 1", "a")], "white space"),
        ([Query("", "a")], "white space"),
        ([Query("q1", None)], "must be strings"),
        ([Query("q1", "half \ud800")], "not Unicode"),
    ],
)
def test_bad_queries(tmp_path, queries, message):
    with pytest.raises(DataError, match=message):
        write_queries(tmp_path / "train.arrow", queries)
    assert not (tmp_path / "train.arrow").exists()


@pytest.mark.parametrize("keep", [0, 10, -1])
def test_damaged_files(tmp_path, keep):
    path = tmp_path / "train.arrow"
    write_queries(path, [Query("q1", "text")])
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(ArtifactError, match="queries cannot be read") as raised:
        Queries.open(path)
    assert "\n" not in str(raised.value)
    path.unlink()
    with pytest.raises(ArtifactError):
        Queries.open(path)


def test_round_trip(tmp_path):
    path = tmp_path / "answers" / "test.jsonl"
    assert write_answers(path, [Answers("q1", ())]) == 0 and not path.parent.exists()
    assert read_answers(path) == {}
    given = [Answers("q1", ("Röntgen", "W. Röntgen")), Answers("q2", ()), Answers("q3", ("1901",))]
    assert write_answers(path, given) == 2
    assert read_answers(path) == {"q1": ("Röntgen", "W. Röntgen"), "q3": ("1901",)}


def test_a_beir_folder_keeps_them_by_split(tmp_path):
    source = tmp_path / "source"
    (source / "qrels").mkdir(parents=True)
    (source / "corpus.jsonl").write_text('{"_id": "d", "text": "river"}\n')
    plain = '{"_id": "q1", "text": "water"}\n{"_id": "q2", "text": "stone"}\n'
    (source / "queries.jsonl").write_text(plain)
    for split, query_id in (("train", "q1"), ("test", "q2")):
        (source / "qrels" / f"{split}.tsv").write_text(f"{query_id} 0 d 1\n")
    loader, before = Beir(str(source)), Beir(str(source)).fingerprint()
    counts = write_collection(loader.load(), tmp_path / "plain", Silent())
    assert not (tmp_path / "plain" / "answers").exists() and "with_answers" not in counts["splits"]["test"]
    (source / "queries.jsonl").write_text(plain.replace('"water"', '"water", "answers": ["a", "b"]'))
    assert loader.fingerprint() != before
    counts = write_collection(loader.load(), tmp_path / "stored", Silent())
    assert counts["splits"]["train"]["with_answers"] == 1 and "with_answers" not in counts["splits"]["test"]
    stored = StoredCollection.open(tmp_path / "stored")
    assert stored.answers("train") == {"q1": ("a", "b")} and stored.answers("test") == {}
